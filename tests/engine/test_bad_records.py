"""Records that are no rows: the app stops and names them, or skips and counts them, or writes them elsewhere."""

from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.testing import Crashed, TestDriver
from tests.engine.totals import app, orders, settled

UNREADABLE = b'{"customer": "customer-0", "n": "x"}'


def test_an_undecodable_record_stops_the_app_and_is_named(tmp_path: Path) -> None:
    with TestDriver(app(), tmp_path, slots=2) as driver:
        driver.feed("orders", orders(0, 4))
        driver.feed_bytes("orders", [UNREADABLE], key=b"customer-0")
        for _ in range(2):
            with pytest.raises(
                UserActionError, match=r"record at offset 2 of orders/\d can't be decoded.*onDecodeError"
            ):
                driver.run()
            assert driver.rows("totals") == []
            driver.restart()
        driver.restart(app(onDecodeError="Skip"))
        driver.feed("orders", orders(8))
        driver.run_until_idle()
        assert [row["n"] for row in driver.rows("totals")] == [0, 4, 8]
        assert driver.undecoded == 1


def test_an_undecodable_record_is_skipped_and_counted_on_request(tmp_path: Path) -> None:
    with TestDriver(app(onDecodeError="Skip"), tmp_path) as driver:
        driver.feed("orders", orders(0, 1))
        driver.feed_bytes("orders", [UNREADABLE, b"{"], key=b"customer-0")
        driver.feed("orders", orders(2, 3))
        driver.run_until_idle()
        assert driver.undecoded == 2
        assert sorted(row["n"] for row in driver.rows("totals") if row["n"] is not None) == [0, 1, 2, 3]


TIMES = """
def total(customer, rows, state):
    for row in rows:
        if row["wall"].tzinfo or row["ts"].utcoffset():
            raise ValueError(row)
        yield {"customer": customer, "n": row["n"], "total": (row["ts"].year, row["wall"].year)[row["n"]]}
"""


def test_mistaken_microseconds_are_bad_and_times_without_zone_naive(tmp_path: Path) -> None:
    columns = "customer STRING, n BIGINT, ts TIMESTAMP, wall TIMESTAMP_NTZ"
    spec = app(code=TIMES, schema=columns, onDecodeError="Skip", eventTime={"column": "ts"})
    good = b'{"customer":"a","n":%d,"ts":1700000000000,"wall":"9999-12-31T23:59:59.999999"}'
    with TestDriver(spec, tmp_path) as driver:
        bad = [good.replace(b"1700000000000", b"1700000000000000"), good.replace(b'"9999', b'"0000')]
        driver.feed_bytes("orders", [good % 0, *(one % 0 for one in bad), good % 1], key=b"a")
        driver.run_until_idle()
        assert driver.undecoded == 2
        assert [row["total"] for row in driver.rows("totals")] == [2023, 9999]


def test_records_without_a_value_are_always_skipped_and_counted(tmp_path: Path) -> None:
    with TestDriver(app(), tmp_path) as driver:
        driver.feed("orders", orders(0, 1))
        driver.feed_bytes("orders", [None, None], key=b"customer-0")
        driver.feed_bytes("orders", [None])
        (batch,) = driver.run()
        assert {task.task: task.tombstones for task in batch.tasks if task.tombstones}
        settled(driver, 2)
        assert (driver.tombstones, driver.undecoded) == (3, 0)


def test_an_undecodable_record_is_written_once_as_a_dead_letter(tmp_path: Path) -> None:
    with TestDriver(app(onDecodeError="DeadLetter", deadLetter="unreadable"), tmp_path) as driver:
        driver.feed("orders", orders(0, 1, 2, 3))
        driver.feed_bytes("orders", [UNREADABLE], key=b"customer-0")
        driver.crash_at("partition written", 2)
        with pytest.raises(Crashed):
            driver.run()
        driver.restart()
        settled(driver, 4)
        (letter,) = driver.rows("unreadable")
        assert (letter["stream"], letter["key"], letter["value"]) == ("orders", b"customer-0", UNREADABLE)
        assert "n" in letter["reason"]
