"""One file of an app is damaged, any file and in any way: what comes out is right, or the damage is refused by name.

Never a wrong row, never a signal, never an error of somebody else's. Each trial has a number and is the same each time;
`HOLDFAST_TRIAL=n` runs that one alone.
"""

import os
import random
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.damage.world import gone_on, made

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
ONE = os.environ.get("HOLDFAST_TRIAL")
SHARDS = 8
TRIALS = 2_000 if SOAK else 64
OLD, BEFORE, MORE = 20, 60, 20
LOST = 0.35
STEPS = (None, "offsets durable", "delta written", "partition written", "outputs committed", "state committed")


@dataclass(frozen=True)
class Bases:
    """Directories of apps: an early one, and by the step they died at."""

    early: Path
    by_step: dict[str | None, Path]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Bases:
    folder = tmp_path_factory.mktemp("bases")
    made(folder / "early", 0, OLD)
    by_step = {}
    for number, step in enumerate(STEPS):
        # The same run, further on: what is put back from the early one is of its history.
        shutil.copytree(folder / "early", folder / str(number))
        by_step[step] = folder / str(number)
        made(by_step[step], OLD, BEFORE, step)
    return Bases(folder / "early", by_step)


@dataclass(frozen=True)
class Damage:
    """What is done to which file."""

    kind: str
    path: Path
    what: str = ""

    def __str__(self) -> str:
        return f"{self.path} {self.kind} {self.what}"


def prepared(number: int, bases: Bases, directory: Path) -> Damage:
    """The directory of a trial, with what was done to it."""
    draw = random.Random(number)  # noqa: S311
    step = draw.choice(STEPS)
    shutil.copytree(bases.by_step[step], directory)
    lost = draw.random() < LOST
    if lost:
        # Or nobody would read the durable copies.
        for path in directory.glob("apps/*/runs/*/state"):
            shutil.rmtree(path)
    while (damage := damaged(draw, directory, bases.early)) is None:
        pass
    return replace(damage, what=f"{damage.what} (died at {step}, local stores {'lost' if lost else 'there'})")


def damaged(draw: random.Random, directory: Path, early: Path) -> Damage | None:
    """Damage one file of a directory; None: the file can't be damaged in this way."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    # A kind of file first: there are more deltas than all else together.
    name = draw.choice(sorted({_class(path) for path in files}))
    path = draw.choice([path for path in files if _class(path) == name])
    kind, relative = (
        draw.choice(["cut", "flipped", "deleted", "emptied", "swapped", "older"]),
        path.relative_to(directory),
    )
    size = path.stat().st_size
    what: str | None = ""
    match kind:
        case "cut" if size:
            os.truncate(path, at := draw.randrange(size))
            what = f"to {at} of {size} bytes"
        case "flipped" if size:
            content, at = bytearray(path.read_bytes()), draw.randrange(size)
            content[at] ^= 1 << draw.randrange(8)
            path.write_bytes(content)
            what = f"at {at}"
        case "deleted":
            path.unlink()
        case "emptied" if size:
            os.truncate(path, 0)
        case "swapped":
            what = swapped(draw, path, [one for one in files if _class(one) == name])
        case "older" if (old := early / relative).is_file() and _content(old) != _content(path):
            shutil.copy2(old, path)
        case _:
            what = None
    return None if what is None else Damage(kind, relative, what)


def swapped(draw: random.Random, path: Path, alike: list[Path]) -> str | None:
    """Give two files each other's names."""
    candidates = [one for one in alike if _content(one) != _content(path)]
    if not candidates:
        return None
    other, aside = draw.choice(candidates), path.with_name("aside")
    path.rename(aside)
    other.rename(path)
    aside.rename(other)
    return f"with {other}"


def _content(path: Path) -> bytes:
    return path.read_bytes()


def _class(path: Path) -> str:
    """Files that are alike: numbers in names do not count."""
    return "/".join("".join("0" if one.isdigit() else one for one in part) for part in path.parts[-3:]).replace(
        "00", ""
    )


@pytest.mark.parametrize("shard", range(1 if ONE else SHARDS))
def test_one_damaged_file_is_mended_or_refused_by_name(bases: Bases, tmp_path: Path, shard: int) -> None:
    outcomes: Counter[str] = Counter()
    for number in [int(ONE)] if ONE else range(shard, TRIALS, SHARDS):
        directory = tmp_path / str(number)
        damage = prepared(number, bases, directory)
        outcome = gone_on(directory, BEFORE, BEFORE + MORE)
        assert outcome.good, f"trial {number}: {damage}: {outcome.kind} {outcome.message}"
        outcomes[outcome.kind] += 1
        shutil.rmtree(directory)
    assert ONE or outcomes.keys() == {"right", "refused"}
