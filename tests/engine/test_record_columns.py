"""What records have beside their values: as columns where it is read, and made of columns where it is written."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.testing import TestDriver
from tests.engine.log_apps import app_on_log

START = datetime(2026, 1, 1, tzinfo=UTC)
EVERYTHING = ["key AS user", "keyBytes", "headers", "partition", "offset", "timestamp AS at"]


def app(streams: list[dict[str, Any]], *steps: dict[str, Any]) -> Any:
    return app_on_log("records", [{"key": None} | stream for stream in streams], steps, "")


def test_a_record_is_a_row_with_all_that_it_has(tmp_path: Path) -> None:
    read = {"name": "in", "schema": "n INT", "metadata": EVERYTHING, "eventTime": {"column": "at"}}
    copied = app([read, {"name": "out"}], {"name": "written", "from": ["in"], "to": "out"})
    with TestDriver(copied, tmp_path, now=START) as driver:
        driver.feed_bytes("in", [b'{"n": 1}'], "ä".encode())
        driver.advance(timedelta(seconds=5))
        driver.feed_bytes("in", [b'{"n": 2}'])
        driver.run_until_idle()
        rows = driver.rows("out")
        assert driver.watermark("in") == START + timedelta(seconds=5)
    assert rows == [
        {"n": 1, "user": "ä", "keyBytes": "ä".encode(), "headers": None, "partition": 0, "offset": 0, "at": START},
        {
            "n": 2,
            "user": None,
            "keyBytes": None,
            "headers": None,
            "partition": 0,
            "offset": 1,
            "at": START + timedelta(seconds=5),
        },
    ]


def test_a_key_that_is_no_text_is_bad(tmp_path: Path) -> None:
    long_key = (7).to_bytes(8, "big") + b"\xff"
    for policy in ("Fail", "Skip", "DeadLetter"):
        letters = {"deadLetter": "odd"} if policy == "DeadLetter" else {}
        read = {"name": "in", "schema": "n INT", "metadata": ["key"], "onDecodeError": policy, **letters}
        copied = app([read, {"name": "out"}, {"name": "odd"}], {"name": "written", "from": ["in"], "to": "out"})
        with TestDriver(copied, tmp_path / policy) as driver:
            driver.feed_bytes("in", [b'{"n": 1}'], b"a")
            driver.feed_bytes("in", [b'{"n": 2}'], long_key)
            driver.feed_bytes("in", [b"{"], b"b")
            driver.feed_bytes("in", [b'{"n": 4}'], b"c")
            if policy == "Fail":
                with pytest.raises(UserActionError, match="its key is no text in UTF-8, and metadata has key"):
                    driver.run_until_idle()
                continue
            driver.run_until_idle()
            assert [(row["key"], row["n"]) for row in driver.rows("out")] == [("a", 1), ("c", 4)]
            assert driver.undecoded == 2
            if policy == "DeadLetter":
                reasons = [(letter["offset"], letter["reason"][:10], letter["key"]) for letter in driver.rows("odd")]
                assert reasons == [(1, "its key is", long_key), (2, "the value ", b"b")]
    read = {"name": "in", "schema": "n INT", "metadata": ["keyBytes"]}
    copied = app([read, {"name": "out"}], {"name": "written", "from": ["in"], "to": "out"})
    with TestDriver(copied, tmp_path / "bytes") as driver:
        driver.feed_bytes("in", [b'{"n": 2}'], long_key)
        driver.run_until_idle()
        assert driver.rows("out") == [{"n": 2, "keyBytes": long_key}]


@pytest.mark.parametrize(("kind", "field"), [("STRING", "key"), ("BINARY", "keyBytes")])
def test_a_key_that_is_written_is_not_in_the_value(tmp_path: Path, kind: str, field: str) -> None:
    read = {"name": "in", "partitions": 2, "key": ["k"], "schema": f"k {kind}, n INT"}
    out = {"name": "out", "partitions": 4, "metadata": [f"{field} AS k"]}
    copied = app([read, out], {"name": "written", "from": ["in"], "to": "out"})
    with TestDriver(copied, tmp_path) as driver:
        keys = [f"key {number}" if kind == "STRING" else f"key {number}".encode() for number in range(20)]
        driver.feed("in", [{"k": key, "n": number} for number, key in enumerate(keys)])
        driver.run_until_idle()
        records = driver.records("out")
        plain = {"name": "out", "partitions": 4, "key": ["k"]}
        with TestDriver(app([read, plain], {"name": "written", "from": ["in"], "to": "out"}), tmp_path / "b") as other:
            other.feed("in", [{"k": key, "n": number} for number, key in enumerate(keys)])
            other.run_until_idle()
            same_places = [(record.partition, record.key) for record in other.records("out")]
    assert [(record.partition, record.key) for record in records] == same_places
    assert sorted(str(record.value) for record in records) == sorted(f"""b'{{"n":{n}}}'""" for n in range(20))


def test_a_number_that_is_no_time_is_a_bad_record(tmp_path: Path) -> None:
    read = {
        "name": "in",
        "schema": "k STRING, at STRUCT<ms: BIGINT>",
        "eventTime": {"from": "at.ms", "unit": "Seconds"},
        "onDecodeError": "DeadLetter",
        "deadLetter": "odd",
    }
    copied = app([read, {"name": "out"}, {"name": "odd"}], {"name": "written", "from": ["in"], "to": "out"})
    with TestDriver(copied, tmp_path, now=START) as driver:
        seconds = int(START.timestamp())
        for number, at in enumerate((seconds, seconds * 1000, -(2**63), None)):
            driver.feed_bytes("in", [f'{{"k": "{number}", "at": {{"ms": {at or "null"}}}}}'.encode()])
        driver.run_until_idle()
        assert [row["k"] for row in driver.rows("out")] == ["0", "3"]
        reasons = {letter["offset"]: letter["reason"] for letter in driver.rows("odd")}
        assert driver.watermark("in") == START
    message = "event time at.ms is outside of the years 1 to 9999; look at the unit of what counts it"
    assert reasons == {1: message, 2: message}


def test_made_up_records_have_keys_inside_columns_and_places(tmp_path: Path) -> None:
    code = """
import pyarrow as pa

def make(partition, offset, count):
    ids, at = [f"u{(offset + n) % 5}" for n in range(count)], [1767225600 + offset + n for n in range(count)]
    payload = pa.StructArray.from_arrays([pa.array(ids), pa.array(at)], ["id", "at"])
    return pa.record_batch({"payload": payload})
"""
    made = {
        "name": "in",
        "system": "made",
        "partitions": 2,
        "key": ["payload.id"],
        "metadata": ["offset", "key AS k"],
        "schema": "payload STRUCT<id: STRING, at: BIGINT>",
        "eventTime": {"from": "payload.at", "unit": "Seconds"},
    }
    picked = {"name": "picked", "from": ["in"], "select": ["payload.id AS id", "offset", "k"]}
    tree = app_on_log(
        "records", [made, {"name": "out"}], [picked, {"name": "w", "from": ["picked"], "to": "out"}], code
    )
    tree["spec"]["systems"].append({"name": "made", "generator": {"function": "f:make", "rowsPerSecond": 10}})
    tree["spec"]["streams"][1]["key"] = ["id"]
    with TestDriver(tree, tmp_path, now=START) as driver:
        driver.run_until_idle()
        driver.advance(timedelta(seconds=2))
        driver.run_until_idle()
        rows = driver.rows("out")
        assert driver.watermark("in") == START + timedelta(seconds=max(row["offset"] for row in rows))
    assert {row["k"] for row in rows} == {f"u{number}" for number in range(5)}
    assert all(row["id"] == row["k"] == f"u{row['offset'] % 5}" for row in rows)
