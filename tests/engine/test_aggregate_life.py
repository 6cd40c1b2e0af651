"""`aggregate` in whole apps: what it keeps survives crashes and a new name."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast_runtime.testing import Lab, TestDriver
from holdfast_runtime.testing.failures import TASK_STEPS
from tests.apps.lives import OFTEN, Death, outlived
from tests.engine.clicks import app, came, counted, drawn, fed

_ALIVE = 2
"""Rounds before the first death."""


@dataclass(frozen=True)
class Life:
    """An app that counts, in which something dies."""

    verb: dict[str, Any]
    repartitioned: bool

    def lived(self, folder: Path, steps: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        """What comes out; at each of these steps a batch dies and its disks with it, once there are snapshots."""
        often, died = Lab(snapshots=OFTEN), 0
        with TestDriver(app(self.verb, repartitioned=self.repartitioned), folder, slots=2, lab=often) as driver:
            for batch in range(_ALIVE + 6):
                driver.feed("clicks", fed(drawn(40, f"{batch}", batch * 40, 40)))
                for step in steps[max(0, batch - _ALIVE) : max(0, batch - _ALIVE + 1)]:
                    died += outlived(driver, Death(step, disks_lost=True))
                driver.run_until_idle()
            driver.end("clicks")
            driver.run_until_idle()
            assert died >= len(steps) - 1
            return came(driver, "window_start", "window_end", "campaign", "n", "cents")


LIVES = {
    "tumbling, behind a repartition": Life({}, repartitioned=True),
    "sessions": Life({"window": None, "session": "4s"}, repartitioned=False),
}


@pytest.fixture(scope="module", params=LIVES)
def life(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Life, list[tuple[Any, ...]]]:
    """A life, and what comes out where nothing dies."""
    life = LIVES[request.param]
    return life, life.lived(tmp_path_factory.mktemp("alive"))


@pytest.mark.parametrize("first", range(4))
def test_whatever_step_dies_each_window_comes_out_once_and_whole(
    tmp_path: Path, life: tuple[Life, list[tuple[Any, ...]]], first: int
) -> None:
    dying, undisturbed = life
    assert dying.lived(tmp_path, TASK_STEPS[first::4][::-1]) == undisturbed


def test_state_follows_a_step_that_says_its_old_name(tmp_path: Path) -> None:
    with TestDriver(app(), tmp_path) as driver:
        driver.feed("clicks", fed(drawn(100, "old", 0, 45)))
        driver.run_until_idle()
    renamed = app()
    renamed["spec"]["steps"][0] |= {"name": "per-minute", "was": "counts"}
    renamed["spec"]["steps"][1]["from"] = ["per-minute"]
    with TestDriver(renamed, tmp_path) as driver:
        driver.end("clicks")
        driver.run_until_idle()
        assert came(driver) == counted(drawn(100, "old", 0, 45))


def test_a_second_reader_of_a_repartition_needs_a_new_run(tmp_path: Path) -> None:
    """What is under way in its stream is aggregated already."""
    with TestDriver(app(repartitioned=True), tmp_path) as driver:
        driver.feed("clicks", fed(drawn(10, "way")))
        driver.run_until_idle()
    spec = app(repartitioned=True)
    spec["spec"]["steps"].append({"name": "also", "from": ["spread"], "to": "letters"})
    with pytest.raises(HoldfastError, match="aggregated for counts"):
        TestDriver(spec, tmp_path)
