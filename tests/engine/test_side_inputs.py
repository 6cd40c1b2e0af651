"""Records of side inputs as changes: rows, deleted keys and ends of data sets, in the order of records."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from holdfast.control.messages import EndOfStreamMessage, MessageNumber, UserRecord, encode
from holdfast.spec.streams import Stream
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.slot.reading.side_inputs import SideInputReader, dataset_ends
from holdfast_runtime.slot.report import TaskReport
from holdfast_runtime.steps.tables.kept_table import GONE, SET
from holdfast_runtime.steps.tables.kept_versions import DatasetEnd
from holdfast_runtime.streams.records import FETCHED, HEADERS, OffsetRange

COLUMNS = [pa.field("sku", pa.string()), pa.field("price", pa.int64())]
PLAIN, VERSIONED = pa.schema([*COLUMNS, GONE]), pa.schema([*COLUMNS, GONE, SET])
AT = StreamPartition("products", 3)
END = [("holdfast-dataset", b"end")]
Headers = Sequence[tuple[str, bytes]] | None


class OneRange:
    """Streams with the records of one range."""

    def __init__(self, records: Sequence[tuple[bytes | None, bytes | None, Headers]]) -> None:
        columns = [
            pa.array([10 + 2 * at for at in range(len(records))]),  # offsets have gaps in compacted topics
            pa.array([key for key, _, _ in records], pa.binary()),
            pa.array([value for _, value, _ in records], pa.binary()),
            pa.array([0] * len(records)),
        ]
        self.batch = pa.RecordBatch.from_arrays(columns, schema=FETCHED)
        if any(headers for _, _, headers in records):
            header_lists = [
                None if headers is None else [{"key": k, "value": v} for k, v in headers] for _, _, headers in records
            ]
            self.batch = self.batch.append_column(HEADERS, pa.array(header_lists, HEADERS.type))

    def rows(self, _: OffsetRange) -> None:
        return None

    def fetch(self, _: OffsetRange) -> pa.RecordBatch:
        return self.batch


def value(sku: str | None, price: int) -> bytes:
    return json.dumps({"sku": sku, "price": price}).encode()


def read(
    records: Sequence[tuple[bytes | None, bytes | None, Headers]],
    schema: pa.Schema = PLAIN,
    *,
    typed: bool = False,
    **declared: Any,
) -> tuple[list[tuple[Any, ...]], list[DatasetEnd], TaskReport]:
    report, streams = TaskReport("t"), OneRange(records)
    stream = Stream(name="products", system="s", **{"key": ("sku",), **declared})
    offset_range = OffsetRange(AT, 10, 10 + 2 * len(records))
    arrived = SideInputReader(stream, schema, typed=typed).read(offset_range, streams, 0, report)
    rows = list(zip(*(column.to_pylist() for column in arrived.rows.rows.columns), strict=True))
    return rows, dataset_ends(arrived), report


def test_rows_and_deleted_keys_come_in_the_order_of_records() -> None:
    records = [(b"a", value("a", 1), None), (b"a", None, None), (b"b", value("b", 2), None), (b"c", None, None)]
    rows, _, report = read(records)
    assert rows == [("a", 1, False), ("a", None, True), ("b", 2, False), ("c", None, True)]
    assert (report.tombstones, report.unkeyed) == (0, {})


TWO = {"key": ("sku", "price")}


@pytest.mark.parametrize(
    ("key", "declared"),
    [(None, {}), (b"\xff", {}), (b"a", TWO), (b"[1]", TWO), (b"a", {"key": None})],
    ids=["none", "no text", "no list", "too few", "stream without key"],
)
def test_a_key_that_can_not_be_read_is_counted(key: bytes | None, declared: dict[str, Any]) -> None:
    rows, _, report = read([(key, None, None)], **declared)
    assert (rows, report.unkeyed) == ([], {"products": 1})


def test_marked_records_end_data_sets_and_are_no_rows() -> None:
    records = [
        (b"a", value("a", 1), None),
        (None, None, END),
        (b"a", value("a", 2), [("other", b"end")]),
        (b"end", b"end", END),
        (b"a", value("a", 3), [("holdfast-dataset", b"begin")]),
    ]
    rows, ends, report = read(records, VERSIONED)
    assert [(row[1], row[3] >> 32, row[3] & 0xFFFF) for row in rows] == [(1, 3, 0), (2, 3, 1), (3, 3, 2)]
    assert ends == [DatasetEnd(12), DatasetEnd(16)]
    assert (report.unkeyed, report.undecoded) == ({}, 0)


def test_without_versions_a_marked_record_is_like_others() -> None:
    rows, ends, _ = read([(b"a", value("a", 1), END)])
    assert (rows, ends) == ([("a", 1, False)], [])


def test_ends_of_streams_end_data_sets_by_producer() -> None:
    first_end, second_end = (EndOfStreamMessage("products", MessageNumber(1, 0), task, 2) for task in ("one", "two"))
    everyone = EndOfStreamMessage("products", MessageNumber(1, 0))
    records = [
        (b"a", encode(UserRecord(value("a", 1))), None),
        (None, encode(first_end), None),
        (None, encode(second_end), None),
        (b"a", encode(UserRecord(value("a", 2))), None),
        (None, encode(everyone), None),
    ]
    rows, ends, _ = read(records, VERSIONED, typed=True, control=True)
    assert [(row[1], row[3] & 0xFFFF) for row in rows] == [(1, 0), (2, 2)]
    assert ends == [DatasetEnd(12, first_end), DatasetEnd(14, second_end), DatasetEnd(18, everyone)]


def test_event_times_of_a_side_input_say_nothing() -> None:
    records = [(b"a", b'{"sku":"a","price":1,"ts":"2999-01-01T00:00:00Z"}', None)]
    schema = pa.schema([*COLUMNS, pa.field("ts", pa.timestamp("us", "UTC")), GONE])
    _, _, report = read(records, schema, event_time={"column": "ts"})
    assert (report.ahead, report.undecoded) == (0, 0)
