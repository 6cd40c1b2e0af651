"""What a task writes, now and from the bytes of its delta: each partition's records, in their order."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.slot.outputs import Outbox, OutputStream
from holdfast_runtime.slot.packed_outputs import OutgoingRecords, OutgoingStreams, records_of
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.codecs import codec_for
from holdfast_runtime.streams.records import HEADERS, WRITTEN, alike, no_rows, written_batch

Placed = list[tuple[int, bytes | None, bytes | None]]
PLACED = st.lists(st.tuples(st.integers(0, 5), st.none() | st.binary(max_size=4), st.none() | st.binary(max_size=4)))
SCHEMA = pa.schema([("k", pa.string())])
WITH_HEADERS = no_rows(pa.schema([*WRITTEN, HEADERS]))


def part(rows: Placed, *, headers: bool) -> OutgoingRecords:
    pairs = pa.array([pairs_of(value) for _, _, value in rows], HEADERS.type) if headers else None
    records = written_batch([key for _, key, _ in rows], [value for _, _, value in rows], list(range(len(rows))), pairs)
    return OutgoingRecords(records, pa.array([number for number, _, _ in rows], pa.int64()).to_numpy())


def pairs_of(value: bytes | None) -> list[dict[str, Any]]:
    return [{"key": "h", "value": value}]


@given(st.lists(st.tuples(PLACED.filter(bool), st.booleans()), min_size=1, max_size=4))
def test_each_partition_gets_its_records_in_order(drawn: list[tuple[Placed, bool]]) -> None:
    outgoing = OutgoingStreams({"out": [part(rows, headers=headers) for rows, headers in drawn]})
    expected: dict[StreamPartition, list[tuple[Any, ...]]] = {}
    for rows, headers in drawn:
        for time, (number, key, value) in enumerate(rows):
            record = (key, value, time, pairs_of(value) if headers else None)
            expected.setdefault(StreamPartition("out", number), []).append(record)
    for outputs in (outgoing, dict(outgoing)):
        written: dict[StreamPartition, list[tuple[Any, ...]]] = {}
        for partition, records in records_of(outputs):
            columns = [column.to_pylist() for column in alike([records, WITH_HEADERS])[0].columns]
            written[partition] = list(zip(*columns, strict=True))
        assert written == expected
    assert list(records_of(outgoing)) == list(records_of(dict(outgoing)))


def test_what_an_earlier_release_left_in_a_delta_is_written() -> None:
    records, sink = written_batch([b"k"], [b"v"], 7), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, records.schema) as writer:
        writer.write_batch(records)
    assert list(records_of({"out/3": sink.getvalue().to_pybytes()})) == [(StreamPartition("out", 3), records)]


def test_messages_lie_behind_the_rows_of_their_partitions() -> None:
    outbox = Outbox(1, 7)
    outbox.say("out", (0, 2, 3), b"before")
    rows = pa.RecordBatch.from_pylist([{"k": "a"}, {"k": "b"}], SCHEMA)
    target = OutputStream("out", 1, ("k",), "murmur2", codec_for("json", SCHEMA), typed=False)
    outbox.add(target, TimedRows(rows, pa.nulls(2, pa.int64())))
    outbox.say("out", (0, 1), b"behind")
    outbox.say("none", (), b"nobody")
    values = {str(to): records.column("value").to_pylist() for to, records in records_of(outbox.outgoing())}
    assert values == {
        "out/0": [b"before", b'{"k":"a"}', b'{"k":"b"}', b"behind"],
        "out/1": [b"behind"],
        "out/2": [b"before"],
        "out/3": [b"before"],
    }
    assert list(values) == ["out/0", "out/1", "out/2", "out/3"]
