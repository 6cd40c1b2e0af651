"""`aggregate` in whole apps: what it keeps survives crashes, growth and a new name."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast_runtime.testing import TestDriver
from holdfast_runtime.testing.failures import TASK_STEPS
from tests.engine.clicks import app, came, counted, drawn, fed
from tests.engine.log_apps import survived


@pytest.mark.parametrize(
    ("verb", "repartitioned", "lose"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"window": "1m", "slide": "20s"}, True, False),
        ({"window": None, "session": "4s"}, False, True),
    ],
    ids=["tumbling", "behind a repartition, store lost", "hopping, behind a repartition", "sessions, store lost"],
)
@pytest.mark.parametrize("step", TASK_STEPS)
def test_whatever_step_dies_each_window_comes_out_once_and_whole(
    tmp_path: Path, verb: dict[str, Any], step: str, lose: bool, repartitioned: bool
) -> None:
    columns = ("window_start", "window_end", "campaign", "n", "cents")

    def run(folder: Path, crashes: bool) -> list[tuple[Any, ...]]:
        with TestDriver(app(verb, repartitioned=repartitioned), folder, slots=2) as driver:
            for batch in range(6):
                driver.feed("clicks", fed(drawn(40, f"{step}{batch}", batch * 40, 40)))
                if crashes and batch in (2, 4):
                    driver.crash_at(step)
                survived(driver, lose=lose)
            driver.end("clicks")
            survived(driver, lose=lose)
            return came(driver, *columns)

    assert run(tmp_path / "died", crashes=True) == run(tmp_path / "alive", crashes=False)


@pytest.mark.parametrize("repartitioned", [False, True])
def test_growth_in_the_middle_of_a_window_loses_and_doubles_nothing(tmp_path: Path, repartitioned: bool) -> None:
    before, after = (drawn(100, seed, at, 45, null=repartitioned) for seed, at in (("before", 0), ("after", 10)))
    with TestDriver(app(repartitioned=repartitioned), tmp_path, slots=2) as driver:
        driver.feed("clicks", fed(before))
        driver.run_until_idle()
    with TestDriver(app(repartitioned=repartitioned, partitions=4), tmp_path, slots=2) as driver:
        driver.feed("clicks", fed(after))
        driver.run_until_idle()
        driver.end("clicks")
        driver.run_until_idle()
        assert came(driver) == counted([*before, *after])


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
