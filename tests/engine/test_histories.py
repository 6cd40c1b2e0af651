"""Checkpoint, local state and outputs of different times: each mixture is right, repaired or refused, never wrong."""

import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.testing import Crashed, Lab, TestDriver
from tests.engine.totals import app, orders

PLACES = DataDir(Path("data")).app("totals").run("1")
CHECKPOINT, LOCAL, OUTPUTS, BETWEEN = (
    PLACES.checkpoint,
    PLACES.state,
    Path("data/log/totals"),
    Path("data/log/totals-moved"),
)
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
CUT_OFF = ("offsets durable", "delta written", "partition written", "outputs committed", "state committed")
ENDS = (None, *CUT_OFF) if SOAK else (None, "delta written", "partition written")
EACH = 8


@dataclass(frozen=True)
class World:
    """An app's data directory, and what was kept of it."""

    home: Path
    moving: bool = False
    """Its orders go through a stream between its steps."""

    @property
    def app(self) -> dict[str, Any]:
        tree = app()
        if self.moving:
            tree["spec"]["steps"][0]["from"] = ["moved"]
            tree["spec"]["steps"].insert(0, {"name": "moved", "from": ["orders"], "repartition": {"by": ["customer"]}})
        return tree

    def path(self, place: Path, of: str = "now") -> Path:
        return self.home / of / place

    def runs(self, until: str | None = None, fed: int = EACH, at: Callable[[str], None] = lambda _: None) -> bool:
        """What is there and some new orders, cut off at a step if one is named; whether it came to an end."""
        with TestDriver(self.app, self.path(Path("data")), lab=Lab(at)) as driver:
            n = len(driver.rows("orders"))
            driver.feed("orders", orders(*range(n, n + fed)))
            if until is not None:
                driver.crash_at(until)
            try:
                driver.run_until_idle()
            except Crashed:
                return False
        return True

    def keeps(self, name: str, *places: Path) -> None:
        for place in places:
            _copy(self.path(place), self.path(place, name))

    def puts_back(self, name: str, place: Path) -> None:
        self.loses(place)
        _copy(self.path(place, name), self.path(place))

    def loses(self, place: Path) -> None:
        shutil.rmtree(self.path(place), ignore_errors=True)

    def tampered(self, place: Path, how: str) -> None:
        if how == "older copy":
            self.puts_back("older", place)
        elif how == "deleted":
            self.loses(place)

    def outcome(self, first: int) -> str:
        """Whether orders from this number on, and no others, come out once and with the right totals."""
        try:
            self.runs()
        except UserActionError as error:
            assert "spec.runId" in str(error), "a refusal names the cure"
            return error.code
        assert self.check() == first
        return "right"

    def check(self) -> int:
        """Orders come out once each, without a gap and with the right totals; the number of the first."""
        with TestDriver(self.app, self.path(Path("data"))) as driver:
            count = len(driver.rows("orders"))
            totals = sorted((row["n"], row["total"]) for row in driver.rows("totals"))
            first = totals[0][0] if totals else count
            assert totals == [(n, n // 4 + 1) for n in range(first, count)]
            for number in range(4):
                total = len(range(number, count, 4))
                assert driver.state("summed", f"customer-{number}") == ({"total": total} if total else None)
        return first


def forked(home: Path) -> World:
    """Two second batches: local state and outputs are of the later one, the checkpoint is that of the first one."""
    world = World(home)
    world.runs()
    world.keeps("first", CHECKPOINT)
    world.runs()
    world.keeps("second", CHECKPOINT)
    world.puts_back("first", CHECKPOINT)
    world.loses(LOCAL)
    world.loses(OUTPUTS)
    world.runs(fed=1)
    world.puts_back("second", CHECKPOINT)
    return world


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> dict[str | None, World]:
    """Two batches, copies from between them, and perhaps a third that is cut off at a step."""
    made = {}
    for ended in ENDS:
        world = made[ended] = World(tmp_path_factory.mktemp("history"))
        world.runs()
        world.keeps("older", CHECKPOINT, LOCAL, OUTPUTS)
        world.runs()
        if ended is not None:
            world.runs(until=ended)
    return made


@pytest.mark.parametrize("outputs", ["kept", "older copy", "deleted"])
@pytest.mark.parametrize("local", ["kept", "older copy", "deleted"])
@pytest.mark.parametrize("checkpoint", ["kept", "older copy", "deleted"])
@pytest.mark.parametrize("ended", ENDS)
def test_a_mixture_of_times_is_right_or_refused(
    histories: dict[str | None, World], tmp_path: Path, ended: str | None, checkpoint: str, local: str, outputs: str
) -> None:
    shutil.copytree(histories[ended].home, tmp_path, dirs_exist_ok=True)
    world = World(tmp_path)
    world.tampered(CHECKPOINT, checkpoint)
    world.tampered(LOCAL, local)
    world.tampered(OUTPUTS, outputs)
    if (checkpoint != "kept" and outputs == "kept") or (checkpoint == "deleted" and outputs == "older copy"):
        assert [world.outcome(0), world.outcome(0)] == ["OutputsAheadError"] * 2
        return
    if checkpoint == "kept" and outputs == "older copy":
        assert [world.outcome(0), world.outcome(0)] == ["OutputsBehindError"] * 2
        return
    first = {"kept": 2 * EACH, "older copy": EACH, "deleted": 0}[checkpoint] if outputs == "deleted" else 0
    # A local store that has the next batch already, whose delta is not there: whether it can be repeated nobody knows.
    ahead = (checkpoint, local) in {("older copy", "kept"), ("deleted", "older copy")}
    assert world.outcome(first) in ({"right", "DeltaMissingError", "OutputsBehindError"} if ahead else {"right"})


@pytest.mark.parametrize(
    ("copied", "outcome"), [("offsets durable", "DeltaMissingError"), ("outputs committed", "right")]
)
@pytest.mark.parametrize("local", ["kept", "older copy", "deleted"])
def test_a_copy_from_within_the_last_batch_needs_its_deltas(
    tmp_path: Path, copied: str, outcome: str, local: str
) -> None:
    world = World(tmp_path)
    world.runs()

    def at(step: str) -> None:
        if step == copied:
            world.keeps("older", CHECKPOINT, LOCAL)

    world.runs(at=at)
    world.puts_back("older", CHECKPOINT)
    world.tampered(LOCAL, local)
    assert [world.outcome(0), world.outcome(0)] == [outcome] * 2


def test_outputs_that_were_refused_go_on_with_the_newer_checkpoint(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.runs()
    world.keeps("older", CHECKPOINT)
    world.runs()
    world.keeps("newer", CHECKPOINT)
    world.puts_back("older", CHECKPOINT)
    assert [world.outcome(0) for _ in range(3)] == ["OutputsAheadError"] * 3
    world.puts_back("newer", CHECKPOINT)
    assert world.outcome(0) == "right"


def test_a_new_run_begins_beside_outputs_whose_checkpoint_is_gone(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.runs()
    world.loses(CHECKPOINT)
    assert world.outcome(0) == "OutputsAheadError"
    again = app()
    again["spec"]["runId"] = "2"
    with TestDriver(again, tmp_path / "now/data") as driver:
        driver.run_until_idle()
        assert sorted(row["n"] for row in driver.rows("totals")) == sorted([*range(EACH)] * 2)


def test_a_copy_from_before_the_outputs_were_removed_is_refused(tmp_path: Path) -> None:
    # The turns of both are the same: only which attempts have used the checkpoint tells them apart.
    assert forked(tmp_path).outcome(EACH) == "OutputsAheadError"


@pytest.mark.parametrize(
    ("checkpoint", "removed", "outcome"),
    [
        ("kept", [OUTPUTS], "right"),
        ("kept", [OUTPUTS, BETWEEN], "PositionLostError"),
        ("older copy", [OUTPUTS], "OutputsAheadError"),
        ("older copy", [OUTPUTS, BETWEEN], "PositionLostError"),
        ("deleted", [OUTPUTS], "OutputsAheadError"),
        ("deleted", [OUTPUTS, BETWEEN], "right"),
    ],
)
def test_what_is_between_steps_is_an_output_and_an_input(
    tmp_path: Path, checkpoint: str, removed: list[Path], outcome: str
) -> None:
    world = World(tmp_path, moving=True)
    world.runs()
    world.keeps("older", CHECKPOINT)
    world.runs()
    world.tampered(CHECKPOINT, checkpoint)
    for place in removed:
        world.loses(place)
    assert world.outcome(0 if checkpoint == "deleted" else 2 * EACH) == outcome


def test_a_local_store_of_another_history_is_restored(tmp_path: Path) -> None:
    world = forked(tmp_path)
    world.loses(OUTPUTS)
    assert world.outcome(2 * EACH) == "right"


@pytest.mark.parametrize("seed", range(400 if SOAK else 2))
def test_losing_and_restoring_in_any_order_skips_and_repeats_nothing(tmp_path: Path, seed: int) -> None:
    world, chance, copies = World(tmp_path), random.Random(seed), 0  # noqa: S311 - a seed, to see the same again
    world.runs()
    for _ in range(25):
        place = chance.choice([CHECKPOINT, CHECKPOINT, LOCAL])
        what = chance.choice(["run", "run", "cut off", "keep", "put back", "put back", "lose", "lose outputs"])
        if what == "keep":
            world.keeps(str(copies), CHECKPOINT, LOCAL)
            copies += 1
        elif what == "put back" and copies:
            world.puts_back(str(chance.randrange(copies)), place)
        elif what in ("lose", "lose outputs"):
            world.loses(place if what == "lose" else OUTPUTS)
        else:
            with suppress(UserActionError):
                if world.runs(chance.choice(CUT_OFF) if what == "cut off" else None, chance.randrange(4)):
                    world.check()
    for place in (CHECKPOINT, LOCAL, OUTPUTS):
        world.loses(place)
    assert world.outcome(0) == "right", "who begins anew is not refused"
