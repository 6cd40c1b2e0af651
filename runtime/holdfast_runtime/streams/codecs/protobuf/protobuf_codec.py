"""The codec of `format: protobuf`: messages as their producers wrote them, into one set of columns.

Each record says which schema it has and which message of it it is, or all are the same. A message is made into a
program once, and what its columns can't take makes its records bad. Must not ask a registry: `WriterSchemas` does.
"""

import functools
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from holdfast.planning.problems import ExpressionError
from holdfast.planning.types.misfits import listed_misfits
from holdfast.planning.types.protobuf.fields import meeting
from holdfast.planning.types.protobuf.schema import ProtoSchema
from holdfast.planning.types.spark_types import RowType
from holdfast_runtime.streams.codecs.arrow_types import SchemaUnsupportedError, arrow_schema
from holdfast_runtime.streams.codecs.codec import BadRecord, DecodedBatch, EncodeError, present, require_schema
from holdfast_runtime.streams.codecs.protobuf.compiled_reader import CompiledMessageReader
from holdfast_runtime.streams.codecs.protobuf.compiled_writer import CompiledMessageWriter
from holdfast_runtime.streams.codecs.protobuf.message_places import placed_records
from holdfast_runtime.streams.codecs.protobuf.plain_writer import written_messages
from holdfast_runtime.streams.codecs.protobuf.protobuf_judge import ProtobufJudge
from holdfast_runtime.streams.codecs.record_reader import (
    ReadRecords,
    RecordReader,
    by_group,
    in_order,
    unread_records,
)
from holdfast_runtime.streams.codecs.record_schemas import WriterSchemas, WrittenSchema
from holdfast_runtime.streams.codecs.record_writer import RecordWriter
from holdfast_runtime.streams.codecs.schema_ids import NO_ID, no_frame, schema_ids
from holdfast_runtime.streams.records import no_rows

MOST_MESSAGES = 256
"""How many schemas and programs are kept; a topic with more has them made again."""
_Place = tuple[int, ...]
_Key = TypeVar("_Key")


class ProtobufCodec:
    """`format: protobuf`. Remembers the programs of messages, which affects speed but never rows."""

    def __init__(
        self, rows: RowType, schemas: WriterSchemas[ProtoSchema], written: WrittenSchema[ProtoSchema] | None
    ) -> None:
        self.schema = arrow_schema(rows)
        self._columns, self._schemas = rows, schemas
        self._parsed: dict[int, ProtoSchema] = {}
        self._readers: dict[tuple[int, str], RecordReader | str] = {}
        self._only: RecordReader | str | None = None
        self._writer = None if written is None else _writer(written, rows)

    def decode(self, values: pa.BinaryArray) -> DecodedBatch:
        """Return one row for each record whose values the columns can take."""
        present_values, indices, nulls = present(values)
        if self._schemas.framed:
            records = by_group(present_values, schema_ids(present_values), self._of_schema, self.schema)
        else:
            records = self._of_one(present_values)
        bad = tuple(BadRecord(int(indices[index]), reason) for index, reason in records.bad)
        return DecodedBatch(records.rows, indices[records.good], bad, nulls)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one record per row."""
        require_schema(rows, self.schema)
        if self._writer is None:
            message = "the stream has no protobuf schema to write its records with"
            raise EncodeError(message)
        return self._writer.write(rows)

    def _of_one(self, values: pa.BinaryArray) -> ReadRecords:
        """Read records that say no schema."""
        if self._only is None:
            schema = self._schema(0)
            self._only = schema if isinstance(schema, str) else self._made(schema, "the schema")
        if isinstance(self._only, str):
            return unread_records([self._only] * len(values), self.schema)
        return self._only.read(values, 0)

    def _of_schema(self, number: int, values: pa.BinaryArray) -> ReadRecords:
        if number == NO_ID:
            return unread_records([no_frame(raw) for raw in values.to_pylist()], self.schema)
        schema = self._schema(number)
        if isinstance(schema, str):
            return unread_records([schema] * len(values), self.schema)
        parts, bad = [], list[tuple[int, str]]()
        for placed in placed_records(values):
            reader = placed.place if isinstance(placed.place, str) else self._placed(number, schema, placed.place)
            if isinstance(reader, str):
                bad += [(index, reader) for index in placed.indices.tolist()]
            elif len(placed.indices) == len(values):
                return reader.read(values, placed.frame_bytes)
            else:
                of_place = values.take(pa.array(placed.indices))
                parts.append(reader.read(of_place, placed.frame_bytes).among(placed.indices))
        return in_order([*parts, ReadRecords(no_rows(self.schema), np.arange(0), bad)], self.schema)

    def _schema(self, number: int) -> ProtoSchema | str:
        """Return the schema of an id, or why there is none, which may be another one later."""
        if number not in self._parsed:
            schema = self._schemas.schema(number)
            if isinstance(schema, str):
                return schema
            _make_room(self._parsed)
            self._parsed[number] = schema
        return self._parsed[number]

    def _placed(self, number: int, schema: ProtoSchema, place: _Place) -> RecordReader | str:
        """Return the reader of the message at a place, or why none of its records can be read."""
        message = schema.places.get(place)
        if message is None:
            numbers = ", ".join(map(str, place))
            return f"its schema (id {number}) has no message at {numbers}, or one that is counted in several ways"
        if schema.declared and message != schema.message:
            return f"it is message {message}, and the stream's is {schema.message}"
        if (number, message) not in self._readers:
            _make_room(self._readers)
            self._readers[number, message] = self._made(schema.chosen(message), f"its schema (id {number})")
        return self._readers[number, message]

    def _made(self, schema: ProtoSchema, which: str) -> RecordReader | str:
        try:
            meant = meeting(schema, self._columns)
        except ExpressionError as error:
            return f"{which} can't be used: {error}"
        if meant.unread:
            return f"{which} does not fit the columns: {listed_misfits(meant.unread)}"
        program = meant.program
        return RecordReader(self.schema, ProtobufJudge(program).read, CompiledMessageReader.of(program, self.schema))


def _make_room(remembered: dict[_Key, Any]) -> None:
    if len(remembered) == MOST_MESSAGES:
        del remembered[next(iter(remembered))]


def _writer(written: WrittenSchema[ProtoSchema], rows: RowType) -> RecordWriter:
    meant = meeting(written.schema, rows)
    if meant.unwritten:
        message = f"rows can't be written as {written.schema.message}: {listed_misfits(meant.unwritten)}"
        raise SchemaUnsupportedError(message)
    program = meant.program
    return RecordWriter(written.frame, functools.partial(written_messages, program), CompiledMessageWriter.of(program))
