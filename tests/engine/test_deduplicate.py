"""`deduplicate` in whole apps: what is late, what is kept, what follows a change, and what is refused."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast_runtime.testing import TestDriver, TestMisuseError
from tests.error_codes import has_code

START = datetime(2026, 1, 1, tzinfo=UTC)


def app(within: str | None = "1h") -> dict[str, Any]:
    verb = {"by": ["payment"]} | ({} if within is None else {"within": within})
    steps: list[dict[str, Any]] = [
        {"name": "once", "from": ["payments"], "deduplicate": verb},
        {"name": "out", "from": ["once"], "to": "single"},
    ]
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "single-payments"},
        "spec": {
            "systems": [{"name": "here", "log": {}}],
            "streams": [
                {
                    "name": "payments",
                    "system": "here",
                    "partitions": 2,
                    "key": ["payment"],
                    "schema": "payment STRING, customer STRING, n BIGINT, ts TIMESTAMP",
                    "eventTime": {"column": "ts", "lateness": "10m"},
                },
                {"name": "single", "system": "here", "partitions": 2, "key": ["payment"]},
            ],
            "steps": steps,
        },
    }


def payments(*numbers: int, first: int = 0, minutes: float = 1) -> list[dict[str, Any]]:
    return [
        {
            "payment": f"p{number}",
            "customer": f"c{number % 7}",
            "n": first + place,
            "ts": START + timedelta(minutes=minutes * (first + place)),
        }
        for place, number in enumerate(numbers)
    ]


def came(driver: TestDriver) -> list[tuple[str | None, int]]:
    return sorted((row["payment"], row["n"]) for row in driver.rows("single"))


def test_a_payment_comes_again_after_its_time_unless_late() -> None:
    with TestDriver(app("5m")) as driver:
        driver.feed("payments", payments(1, 1, 1))
        driver.run_until_idle()
        driver.feed("payments", payments(1, first=60))
        driver.run_until_idle()
        assert came(driver) == [("p1", 0), ("p1", 60)]
        driver.feed("payments", payments(1, first=5))
        (batch,) = driver.run()
        assert came(driver) == [("p1", 0), ("p1", 60)]
        assert [task.late for task in batch.tasks if task.late] == [{"once": 1}]


LATE = {"late": "DeadLetter", "deadLetter": "latecomers"}


def keeping_late_rows() -> dict[str, Any]:
    spec = app("5m")
    spec["spec"]["streams"].append({"name": "latecomers", "system": "here", "partitions": 1})
    spec["spec"]["steps"][0] |= LATE
    return spec


def letters(driver: TestDriver) -> list[tuple[str, str, int, int]]:
    """Step, payment, number and offset of each dead letter."""
    pairs = [(row, json.loads(row["value"])) for row in driver.rows("latecomers")]
    assert {row["stream"] for row, _ in pairs} <= {"payments"}
    return sorted((row["step"], value["payment"], value["n"], row["offset"]) for row, value in pairs)


def test_a_late_row_becomes_a_dead_letter_and_counts_once() -> None:
    untimed = payments(1, first=6)[0] | {"ts": None}
    future = payments(1, first=7)[0] | {"ts": datetime(2099, 1, 1, tzinfo=UTC)}
    with TestDriver(keeping_late_rows()) as driver:
        driver.feed("payments", payments(1, first=60))
        driver.run_until_idle()
        driver.feed("payments", [*payments(1, first=5), untimed, future, *payments(1, first=90)])
        (batch,) = driver.run_until_idle()
        assert came(driver) == [("p1", 60), ("p1", 90)]
        assert letters(driver) == [("once", "p1", n, offset) for offset, n in ((1, 5), (2, 6), (3, 7))]
        assert [row["reason"] for row in driver.rows("latecomers")] == [
            "2026-01-01T00:05:00.000Z is behind the watermark of 2026-01-01T00:50:00.000Z: its key may be forgotten",
            "the row has no event time",
            "2099-01-01T00:00:00.000Z is farther ahead of the clock than eventTime.maxAhead lets it be",
        ]
        assert [task.late for task in batch.tasks if task.late] == [{"once": 3}]
        assert (driver.late, driver.failed) == (3, 0)


def test_state_follows_a_renamed_step_with_another_within(tmp_path: Path) -> None:
    with TestDriver(app("1h"), tmp_path) as driver:
        driver.feed("payments", payments(*range(20)))
        driver.run_until_idle()
    renamed = app("3h")
    renamed["spec"]["steps"][0] |= {"name": "single-ones", "was": "once"}
    renamed["spec"]["steps"][1]["from"] = ["single-ones"]
    with TestDriver(renamed, tmp_path) as driver:
        driver.feed("payments", payments(*range(25), first=20))
        driver.run_until_idle()
        assert len(came(driver)) == 25


def test_an_impossible_key_type_is_refused_before_anything_starts() -> None:
    spec = app(None)
    spec["spec"]["streams"][0]["schema"] = "payment ARRAY<STRING>, customer STRING, n BIGINT, ts TIMESTAMP"
    spec["spec"]["streams"][0]["key"] = ["customer"]
    spec["spec"]["steps"][0]["deduplicate"]["by"] = ["customer", "payment"]
    with pytest.raises(HoldfastError, match=r"payment is of type .* can't be a key", check=has_code("KeyTypeError")):
        TestDriver(spec)


def test_its_state_can_be_read_also_after_a_lost_store(tmp_path: Path) -> None:
    with TestDriver(app("3h"), tmp_path) as driver:
        assert driver.kept_rows("once") == []
        driver.feed("payments", [*payments(1, 2, 1), payments(3)[0] | {"payment": None}])
        driver.run_until_idle()
        driver.feed("payments", payments(4, first=200))
        driver.run_until_idle()
        payment_times = [(row["payment"], row["time"]) for row in driver.kept_rows("once")]
        minute = timedelta(minutes=1)
        everything = {("p1", START), ("p2", START + minute), (None, START), ("p4", START + 200 * minute)}
        assert (len(payment_times), set(payment_times)) == (4, everything)
        driver.lose_local_state()
        assert driver.kept_rows("once", "p2") == [{"payment": "p2", "time": START + minute}]
        assert driver.kept_rows("once", None) == [{"payment": None, "time": START}]
        assert driver.kept_rows("once", "p9") == []


@pytest.mark.parametrize(
    ("look", "message"),
    [
        (lambda driver: driver.state("once", "p1"), r"step once keeps rows, .* kept_rows\('once', key\)"),
        (
            lambda driver: driver.kept_rows("onse"),
            "there is no table, deduplicate, aggregate, process of batches or side of a join onse; did you mean once",
        ),
        (
            lambda driver: driver.kept_rows("out"),
            "there is no table, deduplicate, aggregate, process of batches or side of a join out",
        ),
        (lambda driver: driver.kept_rows("once", 7), "7 is no key of step once"),
        (lambda driver: driver.kept_rows("once", ("p1", "c1")), "is no key of step once"),
    ],
)
def test_a_test_that_looks_at_the_wrong_thing_is_told(look: Callable[[TestDriver], object], message: str) -> None:
    with TestDriver(app()) as driver:
        driver.feed("payments", payments(1))
        driver.run_until_idle()
        with pytest.raises(TestMisuseError, match=message):
            look(driver)


def test_a_key_column_of_another_type_is_refused_without_loss(tmp_path: Path) -> None:
    def by_number(kind: str) -> dict[str, Any]:
        spec = app()
        spec["spec"]["steps"][0]["deduplicate"]["by"] = ["payment", "n"]
        declared = spec["spec"]["streams"][0]
        declared["schema"] = declared["schema"].replace("n BIGINT", f"n {kind}")
        return spec

    with TestDriver(by_number("BIGINT"), tmp_path) as driver:
        driver.feed("payments", payments(1, 2))
        driver.run_until_idle()
    with pytest.raises(
        HoldfastError, match="state of once: n was BIGINT and is INT", check=has_code("PlanRejectedError")
    ):
        TestDriver(by_number("INT"), tmp_path)
    with TestDriver(by_number("BIGINT"), tmp_path) as driver:
        driver.feed("payments", payments(1, 2, 3))
        driver.run_until_idle()
        assert len(driver.kept_rows("once")) == 3
