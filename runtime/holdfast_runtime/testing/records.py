"""The records of streams as a test sees them: rows as dicts, control messages separate from rows.

Must not write anything that a producer of the stream could not write.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from holdfast.control.messages import EndOfStreamMessage, UserRecord, WatermarkMessage, decode
from holdfast.planning.plan import Plan, PlannedStream, typed_streams
from holdfast.spec.app import AppSpec
from holdfast.spec.streams import Stream
from holdfast.suggest import did_you_mean
from holdfast_runtime.inspection.streams import StoredStream
from holdfast_runtime.segments.graph import CompiledGraph
from holdfast_runtime.slot.reading.user_records import USER_KINDS, payload_of, record_times
from holdfast_runtime.steps.plain.event_time import TimedBy
from holdfast_runtime.steps.row_dicts import RowFault, result_rows, row_dicts
from holdfast_runtime.streams.codecs import DEAD_LETTER_SCHEMA, arrow_schema
from holdfast_runtime.streams.codecs.codec import listed
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.log.stream_feed import StreamFeed
from holdfast_runtime.streams.record_columns import MetadataColumns
from holdfast_runtime.streams.records import written_batch
from holdfast_runtime.streams.stream_codecs import stream_codec
from holdfast_runtime.testing.failures import FeedError, TestMisuseError

_USER = b"\0"


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """A control message in a stream, with its partition and offset."""

    partition: int
    offset: int
    message: WatermarkMessage | EndOfStreamMessage


@dataclass(frozen=True, slots=True)
class Record:
    """A record as the stream stores it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


class AppStreams:
    """The streams of one app in the embedded log of one directory."""

    def __init__(self, spec: AppSpec, plan: Plan, compiled: CompiledGraph, log: EmbeddedLog) -> None:
        self._plan, self._log = plan, log
        self._declared = {stream.name: stream for stream in spec.streams}
        self._kinds = {system.name: system.kind for system in spec.systems}
        self._typed = typed_streams(spec, plan)
        self._letters = spec.dead_letters
        self._written = {(node.step.to or node.name): node.schema for node in compiled.sinks if node.step is not None}

    def feed(self, name: str, rows: Sequence[Mapping[str, Any]] | pa.RecordBatch, now: int) -> int:
        """Write rows in the stream's format, each to the partition of its key; return how many."""
        stream = self._fed(name)
        if stream.changes is not None:
            message = f"stream {name} has changes of a database: feed its records as they are, with feed_bytes"
            raise FeedError(message)
        columns = MetadataColumns.of(stream, arrow_schema(self.planned(name).rows))
        schema = columns.fed
        batch = rows if isinstance(rows, pa.RecordBatch) else _batch(name, rows, schema)
        if not batch.schema.equals(schema):
            message = f"rows for {name} have the columns ({listed(batch.schema)}), the stream has ({listed(schema)})"
            raise FeedError(message)
        values = stream_codec(stream, columns.in_value).encode(columns.value_rows(batch)).to_pylist()
        if name in self._typed:
            values = [_USER + value for value in values]
        times: Any = now
        if stream.event_time is not None:
            times = record_times(TimedBy.of(stream.event_time, batch.schema).times(batch)[0], now)
        self._feed(name).write(batch, stream.partition_key, values, times)
        return int(batch.num_rows)

    def feed_bytes(self, name: str, values: Sequence[bytes | None], key: bytes | None, now: int) -> None:
        """Write record values unchanged, even if the stream's format can't decode them."""
        self._feed(name).append(written_batch([key] * len(values), values, now))

    def say(self, name: str, value: bytes, now: int) -> None:
        """Write one record without a key to every partition."""
        topic = self.planned(name).topic
        for partition in self._log.bounds(topic):
            self._log.append(partition, written_batch([None], [value], now))

    def records(self, name: str) -> list[Record]:
        """Return all records that the stream holds, by partition and offset."""
        planned, records = self.planned(name), list[Record]()
        if self._kind(name) != "log":
            message = f"stream {name} is made up by its system; there is nothing to look at"
            raise TestMisuseError(message)
        for chunk in StoredStream(self._log, planned.topic).records():
            number = chunk.offsets.partition.partition
            records += [Record(number, **columns) for columns in chunk.records.to_pylist()]
        return records

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a stream, without control messages."""
        values = [record.value for record in self.records(name)]
        if name in self._typed:
            values = [payload_of(value) for value in values if value and value[0] in USER_KINDS]
        declared = self._declared.get(name)
        schema = MetadataColumns.of(declared, self._schema(name)).in_value
        decoded = stream_codec(declared, schema).decode(pa.array(values, pa.binary()))
        if decoded.bad:
            first = decoded.bad[0]
            message = f"a record of {name} can't be decoded: {first.reason} ({values[first.index]!r})"
            raise TestMisuseError(message)
        return row_dicts(decoded.rows)

    def control(self, name: str) -> list[ControlRecord]:
        """Return the control messages of a stream."""
        control_records = []
        for record in self.records(name) if name in self._typed else []:
            message = decode(record.value, f"{name}/{record.partition} at offset {record.offset}")
            if not isinstance(message, UserRecord):
                control_records.append(ControlRecord(record.partition, record.offset, message))
        return control_records

    def declared(self, name: str) -> Stream:
        """Return a stream of the spec; raise `TestMisuseError` for a stream that only a step writes."""
        self.planned(name)
        stream = self._declared.get(name)
        if stream is None:
            message = f"stream {name} is made by a step of the app; feed, and end, one of its inputs"
            raise TestMisuseError(message)
        return stream

    def planned(self, name: str) -> PlannedStream:
        """Return a stream of the plan; raise `TestMisuseError`, with the closest name, if the app does not have it."""
        names = [stream.name for stream in self._plan.streams]
        if name not in names:
            message = f"the app has no stream {name}{did_you_mean(name, names)}"
            raise TestMisuseError(message)
        return self._plan.stream(name)

    def _fed(self, name: str) -> Stream:
        stream = self.declared(name)
        if self._kind(name) != "log":
            message = f"stream {name} is made up by its system and can't be fed; its rows come as the clock advances"
            raise TestMisuseError(message)
        return stream

    def _feed(self, name: str) -> StreamFeed:
        return StreamFeed(self._log, self.planned(name).topic, self._fed(name).partitioner)

    def _schema(self, name: str) -> pa.Schema:
        declared = self._declared.get(name)
        if declared is not None and declared.schema_ is not None:
            return arrow_schema(self.planned(name).rows)
        if name in self._written:
            return self._written[name]
        return DEAD_LETTER_SCHEMA if name in self._letters else arrow_schema(self.planned(name).rows)

    def _kind(self, name: str) -> str:
        declared = self._declared.get(name)
        return "log" if declared is None else self._kinds[declared.system]


def _batch(name: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    made = result_rows([dict(row) for row in rows], schema)
    if isinstance(made, RowFault):
        message = f"row {made.row} fed into {name}: {made.message}"
        raise FeedError(message)
    return made
