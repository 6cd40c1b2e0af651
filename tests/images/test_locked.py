"""Which lines of the lock go into an image."""

import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from images.packages.locked import entries, needed, plain

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
DEVELOPERS = {"pytest", "mypy", "ruff", "hypothesis", "import-linter", "hatchling", "fastavro"}
SMALL = """\
app==1 \\
    --hash=sha256:aa
    # via holdfast (pyproject.toml)
base==2 ; python_full_version < '3.12' \\
    --hash=sha256:bb \\
    --hash=sha256:cc
    # via
    #   app
    #   Other_One
base==3 ; python_full_version >= '3.12' \\
    --hash=sha256:dd
    # via app
other-one==4 \\
    --hash=sha256:ee
    # via holdfast (pyproject.toml)
"""


def lines_for(*words: str) -> str:
    script = ROOT / "images" / "packages" / "locked.py"
    done = subprocess.run(
        [sys.executable, "-S", str(script), *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


def names_in(lines: str) -> set[str]:
    return {one.name for one in entries(lines)}


def closure(*extras: str) -> set[str]:
    """What the extras need, as the packages say that are installed here."""
    names: set[str] = set()
    waiting = [*needs("holdfast", ""), *(requirement for extra in extras for requirement in needs("holdfast", extra))]
    while waiting:
        name, package_extras = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += [
                *needs(name, ""),
                *(requirement for extra in package_extras for requirement in needs(name, extra)),
            ]
    return names


def needs(name: str, extra: str) -> list[tuple[str, frozenset[str]]]:
    requirements = map(Requirement, distribution(name).requires or [])
    fit = [one for one in requirements if one.marker is None or one.marker.evaluate({"extra": extra})]
    return [(plain(one.name), frozenset(one.extras)) for one in fit]


@pytest.mark.parametrize("extras", [("operator",), ("runtime", "kafka", "cluster", "traces")])
def test_an_image_gets_exactly_what_its_extras_need(extras: tuple[str, ...]) -> None:
    got = names_in(lines_for(*extras))
    assert closure(*extras) <= got
    assert not got & DEVELOPERS


def test_the_operators_image_has_no_spark() -> None:
    assert not names_in(lines_for("operator")) & {"pyspark", "pyarrow", "pandas", "numpy", "lmdb"}


@pytest.mark.parametrize("extras", [("operator",), ("runtime", "kafka", "cluster", "traces"), ("hatchling",)])
def test_every_package_keeps_its_version_and_all_its_hashes(extras: tuple[str, ...]) -> None:
    whole = {one.lines for one in entries(LOCK)}
    for package in entries(lines_for(*extras)):
        assert package.lines in whole
        assert re.search(r"--hash=sha256:[0-9a-f]{64}$", package.lines[-1])


def test_a_package_locked_for_two_pythons_comes_in_both_versions() -> None:
    assert [one.lines[0].split()[0] for one in needed(SMALL, ["app"])] == ["app==1", "base==2", "base==3"]


def test_names_are_the_same_however_they_are_spelled() -> None:
    assert [one.name for one in needed(SMALL, ["Other.One"])] == ["base", "base", "other-one"]


def test_comments_are_left_out_and_hashes_are_not() -> None:
    (app,) = [one for one in needed(SMALL, ["app"]) if one.name == "app"]
    assert app.lines == ("app==1 \\", "    --hash=sha256:aa")


def test_a_package_that_the_lock_lacks_is_named() -> None:
    with pytest.raises(ValueError, match=r"lacks new-one: `make lock`"):
        needed(SMALL, ["app", "new-one"])
