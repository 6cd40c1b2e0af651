"""Steps that keep state under a name: renamed, removed, brought back; what the run of before does with them."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.testing import TestDriver
from tests.error_codes import has_code

CODE = """
def count(ad, rows, state):
    state["n"] = state.get("n", 0) + len(rows)
    yield {"ad": ad, "n": state["n"]}
"""


def counting(*steps: tuple[str, str | None], by: str = "ad") -> dict[str, Any]:
    """An app with these steps that count, each with what it was."""
    made: list[dict[str, Any]] = []
    for name, was in steps:
        verb = {"function": "f:count", "by": [by], "schema": "ad STRING, n BIGINT"}
        made.append({"name": name, "from": ["clicks"], "process": verb} | ({"was": was} if was else {}))
        made.append({"name": f"{name}-out", "from": [name], "to": "counted"})
    made.append({"name": "kept", "from": ["clicks"], "to": "copied"})
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "counts"},
        "spec": {
            "systems": [{"name": "local", "log": {}}],
            "streams": [
                {"name": "clicks", "system": "local", "partitions": 2, "key": ["ad"], "schema": "ad STRING"},
                {"name": "counted", "system": "local", "partitions": 2, "key": ["ad"]},
                {"name": "copied", "system": "local", "partitions": 2, "key": ["ad"]},
            ],
            "steps": made,
            "runtime": {"code": {"f": CODE}},
        },
    }


@pytest.fixture
def driver() -> Iterator[TestDriver]:
    """A run that has counted three clicks in a step called visits."""
    with TestDriver(counting(("visits", None))) as driver:
        driver.feed("clicks", [{"ad": "a"}] * 3)
        driver.run_until_idle()
        yield driver


def test_a_step_renamed_without_a_word_is_refused(driver: TestDriver) -> None:
    with pytest.raises(
        UserActionError,
        match=r"StepRenamed: visits is gone and totals is new.* say `was: visits`",
        check=has_code("PlanRejectedError"),
    ):
        driver.restart(counting(("totals", None)))


def test_a_step_that_says_what_it_was_keeps_its_state(driver: TestDriver) -> None:
    driver.restart(counting(("totals", "visits")))
    driver.feed("clicks", [{"ad": "a"}])
    driver.run_until_idle()
    assert driver.state("totals", "a") == {"n": 4}
    assert [row["n"] for row in driver.rows("counted")] == [3, 4]


def test_a_renamed_step_finds_its_durable_copy_too(driver: TestDriver) -> None:
    driver.restart(counting(("totals", "visits")))
    driver.feed("clicks", [{"ad": "a"}])
    driver.run_until_idle()
    driver.lose_local_state()
    driver.restart(counting(("sums", "visits")))
    driver.feed("clicks", [{"ad": "a"}])
    driver.run_until_idle()
    assert driver.state("sums", "a") == {"n": 5}


def test_a_step_that_forgets_what_it_was_is_refused(driver: TestDriver) -> None:
    driver.restart(counting(("totals", "visits")))
    with pytest.raises(UserActionError, match="StepRenamed", check=has_code("PlanRejectedError")):
        driver.restart(counting(("totals", None)))


def test_a_step_may_go_first_and_another_come_later(driver: TestDriver) -> None:
    driver.restart(counting())
    driver.restart(counting(("totals", None)))
    driver.feed("clicks", [{"ad": "a"}])
    driver.run_until_idle()
    assert driver.state("totals", "a") == {"n": 1}


def test_a_returning_step_takes_up_old_state_on_request_only(driver: TestDriver) -> None:
    driver.restart(counting())
    driver.feed("clicks", [{"ad": "a"}])
    driver.run_until_idle()
    with pytest.raises(
        UserActionError,
        match=r"StateTakenUp: visits was removed in this run and is back",
        check=has_code("PlanRejectedError"),
    ):
        driver.restart(counting(("visits", None)))
    driver.restart(counting(("visits", "visits")))
    assert driver.state("visits", "a") == {"n": 3}


def test_a_step_whose_key_changes_is_refused_within_its_run(driver: TestDriver) -> None:
    app = counting(("visits", None))
    app["spec"]["streams"][0] |= {"schema": "ad STRING, user STRING"}
    app["spec"]["steps"][0]["process"]["by"] = ["ad", "user"]
    with pytest.raises(
        UserActionError,
        match="StateMisfit: this run keeps the state of process by ad under",
        check=has_code("PlanRejectedError"),
    ):
        driver.restart(app)
    later = deepcopy(app)
    later["spec"]["runId"] = "2"
    with TestDriver(later) as fresh:
        assert fresh.tasks


def test_another_new_step_beside_one_that_stays_is_no_rename(driver: TestDriver) -> None:
    driver.restart(counting(("visits", None), ("totals", None)))
    driver.feed("clicks", [{"ad": "a"}])
    driver.run_until_idle()
    assert (driver.state("visits", "a"), driver.state("totals", "a")) == ({"n": 4}, {"n": 1})
