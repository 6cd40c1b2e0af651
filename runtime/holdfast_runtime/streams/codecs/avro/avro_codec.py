"""The codec of `format: avro`: records of the schemas that their producers wrote them with, into one set of columns.

Each record says which schema that is, or all have the same. A schema is made into a program once, and what its columns
can't take makes its records bad. A batch of several schemas is read by schema, and its rows stand in the order of the
records. Must not ask a registry itself: `WriterSchemas` does.
"""

import functools

import pyarrow as pa

from holdfast.planning.problems import ExpressionError
from holdfast.planning.types.avro.reading import reading
from holdfast.planning.types.avro.schema import AvroSchema
from holdfast.planning.types.avro.writing import writing
from holdfast.planning.types.misfits import listed_misfits
from holdfast.planning.types.spark_types import RowType
from holdfast_runtime.streams.codecs.arrow_types import SchemaUnsupportedError, arrow_schema
from holdfast_runtime.streams.codecs.avro.avro_judge import AvroJudge
from holdfast_runtime.streams.codecs.avro.compiled_reader import CompiledReader
from holdfast_runtime.streams.codecs.avro.compiled_writer import CompiledWriter
from holdfast_runtime.streams.codecs.avro.plain_writer import written_rows
from holdfast_runtime.streams.codecs.codec import BadRecord, DecodedBatch, EncodeError, present, require_schema
from holdfast_runtime.streams.codecs.record_reader import ReadRecords, RecordReader, by_group, unread_records
from holdfast_runtime.streams.codecs.record_schemas import WriterSchemas, WrittenSchema
from holdfast_runtime.streams.codecs.record_writer import RecordWriter
from holdfast_runtime.streams.codecs.schema_ids import FRAME_BYTES, NO_ID, no_frame, schema_ids

MOST_SCHEMAS = 256
"""How many schemas' programs are kept; a topic with more has them made again."""


class AvroCodec:
    """`format: avro`. Remembers the programs of schemas, which affects speed but never rows."""

    def __init__(
        self, rows: RowType, schemas: WriterSchemas[AvroSchema], written: WrittenSchema[AvroSchema] | None
    ) -> None:
        self.schema = arrow_schema(rows)
        self._columns, self._schemas = rows, schemas
        self._readers: dict[int, RecordReader | str] = {}
        self._writer = None if written is None else _writer(written, rows)

    def decode(self, values: pa.BinaryArray) -> DecodedBatch:
        """Return one row for each record whose values the columns can take."""
        present_values, indices, nulls = present(values)
        if not self._schemas.framed:
            records = self._of_schema(0, present_values)
        else:
            records = by_group(present_values, schema_ids(present_values), self._of_schema, self.schema)
        bad = tuple(BadRecord(int(indices[index]), reason) for index, reason in records.bad)
        return DecodedBatch(records.rows, indices[records.good], bad, nulls)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one record per row."""
        require_schema(rows, self.schema)
        if self._writer is None:
            message = "the stream has no Avro schema to write its records with"
            raise EncodeError(message)
        return self._writer.write(rows)

    def _of_schema(self, number: int, values: pa.BinaryArray) -> ReadRecords:
        if number == NO_ID:
            return unread_records([no_frame(raw) for raw in values.to_pylist()], self.schema)
        reader = self._reader(number)
        if isinstance(reader, str):
            return unread_records([reader] * len(values), self.schema)
        return reader.read(values, FRAME_BYTES if self._schemas.framed else 0)

    def _reader(self, number: int) -> RecordReader | str:
        """Return the reader of a schema's records, or why none of them can be read."""
        if number in self._readers:
            return self._readers[number]
        schema = self._schemas.schema(number)
        if isinstance(schema, str):
            return schema  # it may be there later
        if len(self._readers) == MOST_SCHEMAS:
            del self._readers[next(iter(self._readers))]
        which = f"its schema (id {number})" if self._schemas.framed else "the schema"
        self._readers[number] = self._made(schema, which)
        return self._readers[number]

    def _made(self, schema: AvroSchema, which: str) -> RecordReader | str:
        try:
            meaning = reading(schema, self._columns)
        except ExpressionError as error:
            return f"{which} can't be used: {error}"
        if meaning.misfits:
            return f"{which} does not fit the columns: {listed_misfits(meaning.misfits)}"
        program = meaning.program
        return RecordReader(self.schema, AvroJudge(program).read, CompiledReader.of(program, self.schema))


def _writer(written: WrittenSchema[AvroSchema], rows: RowType) -> RecordWriter:
    meaning = writing(written.schema, rows)
    if meaning.misfits:
        message = f"rows can't be written with their Avro schema: {listed_misfits(meaning.misfits)}"
        raise SchemaUnsupportedError(message)
    program = meaning.program
    return RecordWriter(written.frame, functools.partial(written_rows, program), CompiledWriter.of(program))
