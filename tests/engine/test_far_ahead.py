"""One event from 2099 makes nothing late that follows: it is late itself, or a dead letter, counted and named."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.control.messages import MessageNumber, WatermarkMessage, encode
from holdfast_runtime.testing import TestDriver
from tests.engine.log_apps import app_on_log

START = datetime(2026, 1, 1, tzinfo=UTC)
WRONG = datetime(2099, 1, 1, tzinfo=UTC)
CODE = """
def judge(key, rows, state):
    for row in rows:
        yield {"k": key, "n": row["n"], "late": state.is_late(row), "watermark": state.watermark}
    for timer in state.fired:
        yield {"k": key, "n": -1, "late": False, "watermark": state.watermark}
    if rows and rows[-1]["n"] == 1:
        state.at_event_time(rows[-1]["ts"])
"""


@contextmanager
def driven(
    data: Path,
    *,
    repartitioned: bool = False,
    event_time: dict[str, Any] | None = None,
    code: str = CODE,
    failed: str | None = None,
    **more: Any,
) -> Iterator[TestDriver]:
    clicks = {
        "name": "clicks",
        "schema": "k STRING, n BIGINT, ts TIMESTAMP",
        "eventTime": {"column": "ts", "lateness": "10s"} | (event_time or {}),
    }
    function = {
        "function": "f:judge",
        "by": ["k"],
        "schema": "k STRING, n BIGINT, late BOOLEAN, watermark BIGINT",
        "keeps": ["k"],
    }
    steps: list[dict[str, Any]] = [
        {"name": "judged", "from": ["clicks"], "process": function},
        {"name": "out", "from": ["judged"], "to": "verdicts"},
    ]
    if failed is not None:
        steps[0] |= {"onError": "DeadLetter", "deadLetter": failed}
    if repartitioned:
        steps[0]["from"] = ["spread"]
        steps.insert(0, {"name": "spread", "from": ["clicks"], "repartition": {"by": ["k"]}})
    streams = [clicks | more, {"name": "verdicts"}, {"name": "odd", "key": None}]
    app = app_on_log("verdicts", streams, steps, code)
    with TestDriver(app, data) as driver:
        yield driver


def click(driver: TestDriver, n: int, ts: datetime) -> None:
    driver.feed("clicks", [{"k": "a", "n": n, "ts": ts}])
    driver.run_until_idle()


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def late(driver: TestDriver) -> dict[int, bool]:
    return {row["n"]: row["late"] for row in driver.rows("verdicts")}


@pytest.mark.parametrize("repartitioned", [False, True])
def test_an_event_from_2099_makes_no_other_late(tmp_path: Path, repartitioned: bool) -> None:
    with driven(tmp_path, repartitioned=repartitioned) as driver:
        click(driver, 1, at(20))
        driver.feed("clicks", [{"k": "a", "n": 2, "ts": WRONG}, {"k": "a", "n": 3, "ts": at(40)}])
        results = driver.run_until_idle()
        click(driver, 4, at(35))
        click(driver, 5, at(29))
        assert late(driver) == {1: False, 2: True, 3: False, -1: False, 4: False, 5: True}
        assert (driver.ahead, driver.late) == (1, 2)
        assert driver.watermark("clicks") == at(30)
    (first_ahead,) = {task.first_ahead for result in results for task in result.tasks if task.first_ahead}
    assert first_ahead == (
        "clicks/0 at offset 1: ts is 2099-01-01T00:00:00.000Z, 26,663 d ahead of the clock, and eventTime.maxAhead is "
        "24h"
    )


def test_where_the_stream_has_dead_letters_it_is_one(tmp_path: Path) -> None:
    with driven(tmp_path, onDecodeError="DeadLetter", deadLetter="odd") as driver:
        driver.feed("clicks", [{"k": "a", "n": 1, "ts": at(20)}, {"k": "a", "n": 2, "ts": WRONG}])
        driver.feed_bytes("clicks", [b"{"])
        driver.feed("clicks", [{"k": "a", "n": 3, "ts": at(40)}])
        driver.run_until_idle()
        assert late(driver) == {1: False, 3: False}
        assert (driver.ahead, driver.undecoded, driver.late) == (1, 1, 0)
        letters = driver.rows("odd")
    assert [(letter["offset"], letter["reason"][:12]) for letter in letters] == [
        (1, "ts is 2099-0"),
        (2, "the value is"),
    ]


def test_lateness_is_known_also_when_rows_are_given_again(tmp_path: Path) -> None:
    failing = CODE.replace("    for row in rows:\n", "    for row in rows:\n        1 // row['n']\n", 1)
    with driven(tmp_path, code=failing, failed="odd") as driver:
        click(driver, 1, at(40))
        driver.feed("clicks", [{"k": "a", "n": n, "ts": at(20 + n)} for n in (0, 2, 13)])
        driver.run_until_idle()
        assert late(driver) == {1: False, 2: True, 13: False}
        assert driver.failed == 1


def test_the_bound_of_what_is_believed_is_a_setting(tmp_path: Path) -> None:
    with driven(tmp_path, event_time={"maxAhead": "1m"}) as driver:
        click(driver, 1, at(60))
        assert (driver.ahead, driver.watermark("clicks")) == (0, at(50))
        click(driver, 2, at(60.001))
        assert (driver.ahead, driver.watermark("clicks")) == (1, at(50))
        driver.advance(1)
        click(driver, 3, at(61))
        assert (driver.ahead, driver.watermark("clicks")) == (1, at(51))


@pytest.mark.parametrize("wrong", [datetime(1971, 1, 1, tzinfo=UTC), WRONG])
def test_a_wrong_clock_of_the_host_changes_no_belief(tmp_path: Path, wrong: datetime) -> None:
    with driven(tmp_path) as driver:
        click(driver, 1, at(20))
        driver.set_clock(wrong)
        click(driver, 2, at(30))
        click(driver, 3, WRONG)
        assert (driver.ahead, driver.watermark("clicks")) == (1, at(20))


def test_a_replay_decides_as_the_first_try_did(tmp_path: Path) -> None:
    with driven(tmp_path, event_time={"maxAhead": "1m"}) as driver:
        click(driver, 1, at(20))
        driver.feed("clicks", [{"k": "a", "n": 2, "ts": at(90)}])
        driver.crash_at("slots done")
        with pytest.raises(Exception, match="slots done"):
            driver.run()
        driver.lose_local_state()
        driver.advance(3600)
        driver.restart()
        driver.run_until_idle()
        assert late(driver)[2]
        assert driver.watermark("clicks") == at(10)


def test_an_app_that_believed_2099_hears_the_truth_again(tmp_path: Path) -> None:
    for repartitioned in (False, True):
        data = tmp_path / str(repartitioned)
        with driven(data, repartitioned=repartitioned, event_time={"maxAhead": "876000h"}) as driver:
            click(driver, 2, WRONG)
            click(driver, 3, at(20))
            assert late(driver) == {2: False, 3: True}, "as it was before there was a bound"
        with driven(data, repartitioned=repartitioned) as driver:
            click(driver, 4, at(30))
            click(driver, 5, at(31))
            click(driver, 6, at(19))
            assert {n: is_late for n, is_late in late(driver).items() if n > 3} == {4: False, 5: False, 6: True}


def test_a_watermark_of_another_app_from_2099_is_not_believed(tmp_path: Path) -> None:
    with driven(tmp_path, control=True) as driver:
        driver.feed("clicks", [{"k": "a", "n": 1, "ts": at(20)}])
        for place, time in enumerate((at(10), WRONG, at(15))):
            message = WatermarkMessage(int(time.timestamp() * 1000), MessageNumber(place + 1, 0), "theirs", 1)
            driver._records.say("clicks", encode(message), int(START.timestamp() * 1000))  # noqa: SLF001
        driver.run_until_idle()
        assert (driver.watermark("clicks"), driver.ahead) == (at(15), 1)
