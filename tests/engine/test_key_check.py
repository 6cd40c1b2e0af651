"""Records that do not lie where their stream's key puts them stop a young run, with the partitioner that fits."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdfast.errors import UserActionError
from holdfast.spec.streams import Partitioner, Stream
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.slot.reading.key_check import KeyCheck
from holdfast_runtime.streams.record_keys import key_bytes, place
from holdfast_runtime.testing import TestDriver
from tests.engine.log_apps import app_on_log
from tests.error_codes import has_code

PARTITIONS = 4
KEYS = [f"user {number}" for number in range(400)]
COUNT = {"by": ["k"], "compute": ["count(*) AS n"]}


def rows_in(partition: int, placed_by: Partitioner, keys: list[str]) -> pa.RecordBatch:
    """The rows that a producer with this partitioner puts there."""
    rows = pa.record_batch({"k": pa.array(keys)})
    return rows.filter(pa.array(place(key_bytes(rows, ["k"]), PARTITIONS, placed_by) == partition))


def looked(declared: Partitioner, *parts: pa.RecordBatch) -> None:
    check = KeyCheck(Stream(name="in", system="here", key=("k",), partitioner=declared), PARTITIONS)
    for rows in parts:
        check.look(StreamPartition("in", 1), rows)


@pytest.mark.parametrize("declared", ["murmur2", "crc32"])
@pytest.mark.parametrize("placed_by", ["murmur2", "crc32"])
def test_the_partitioner_that_fits_is_named(declared: Partitioner, placed_by: Partitioner) -> None:
    rows = rows_in(1, placed_by, KEYS)
    if declared == placed_by:
        looked(declared, rows)
        return
    with pytest.raises(
        UserActionError,
        match=f"{placed_by} fits all of them: write partitioner: {placed_by}",
        check=has_code("KeyMisdeclaredError"),
    ):
        looked(declared, rows)


def test_keys_are_added_up_over_batches_and_counted_once() -> None:
    (*first, third) = [rows_in(1, "crc32", [key]) for key in KEYS if rows_in(1, "crc32", [key]).num_rows][:8]
    elsewhere = [rows for rows in (*first, third) if not rows_in(1, "murmur2", rows.column("k").to_pylist()).num_rows]
    looked("murmur2", *elsewhere[:2] * 10)
    with pytest.raises(UserActionError, match="of 3 different keys in in/1, 3 belong into other partitions"):
        looked("murmur2", *elsewhere[:3])


def test_strays_among_many_stop_nobody() -> None:
    good, bad = rows_in(1, "murmur2", KEYS), rows_in(2, "murmur2", KEYS)
    looked("murmur2", good, bad.slice(0, 20))
    with pytest.raises(UserActionError, match="no partitioner that Holdfast knows fits them"):
        looked("murmur2", good.slice(0, 40), bad.slice(0, 40))


def test_nulls_and_empty_keys_of_librdkafka_may_be_anywhere() -> None:
    empty = pa.record_batch({"k": pa.array([None, "", None, ""], pa.string())})
    looked("crc32", empty)
    assert np.all(place(key_bytes(empty, ["k"]).drop_null(), PARTITIONS, "crc32") == 0)


STATEFUL: list[dict[str, Any]] = [{"name": "counted", "from": ["in"], "aggregate": COUNT}]
MOVED: list[dict[str, Any]] = [
    {"name": "moved", "from": ["in"], "repartition": {"by": ["k"]}},
    {"name": "counted", "from": ["moved"], "aggregate": COUNT},
]
PLAIN: list[dict[str, Any]] = [{"name": "counted", "from": ["in"], "filter": "n > 0"}]


@pytest.mark.parametrize(("steps", "stops"), [(STATEFUL, True), (MOVED, False), (PLAIN, False)])
def test_an_app_stops_only_where_keys_must_meet(tmp_path: Path, steps: list[dict[str, Any]], stops: bool) -> None:
    streams: list[dict[str, Any]] = [
        {"name": "in", "partitions": PARTITIONS, "schema": "k STRING, n INT"},
        {"name": "out", "key": None},
    ]
    app = app_on_log("keys", streams, [*steps, {"name": "written", "from": ["counted"], "to": "out"}], "")
    with TestDriver(app, tmp_path) as driver:
        for number in range(40):
            # Without a key of their own, records go round.
            driver.feed_bytes("in", [f'{{"k": "user {number}", "n": 1}}'.encode()])
        if stops:
            with pytest.raises(
                UserActionError, match="would give wrong results", check=has_code("KeyMisdeclaredError")
            ):
                driver.run_until_idle()
        else:
            driver.run_until_idle()
            assert len(driver.rows("out")) == 40
