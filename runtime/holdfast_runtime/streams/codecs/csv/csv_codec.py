"""The codec of `format: csv`: one line per record, a field for each column, without a header.

A line has as many fields as the stream has columns: with fewer or more it was written for others, and guessing which
would put values into wrong columns. Must not read a record as several rows.
"""

import pyarrow as pa

from holdfast_runtime.streams.codecs.arrow_types import SchemaUnsupportedError
from holdfast_runtime.streams.codecs.codec import BadRecord, DecodedBatch, present, require_schema
from holdfast_runtime.streams.codecs.csv.compiled_reader import CompiledLineReader
from holdfast_runtime.streams.codecs.csv.compiled_writer import CompiledLineWriter
from holdfast_runtime.streams.codecs.csv.csv_format import CsvFormat
from holdfast_runtime.streams.codecs.csv.line_judge import LineJudge
from holdfast_runtime.streams.codecs.csv.plain_writer import written_lines
from holdfast_runtime.streams.codecs.record_reader import RecordReader
from holdfast_runtime.streams.codecs.record_writer import RecordWriter


class CsvCodec:
    """`format: csv`."""

    def __init__(self, schema: pa.Schema, written: CsvFormat) -> None:
        for field in schema:
            _require_field(field)
        self.schema = schema
        self._reader = RecordReader(schema, LineJudge(schema, written).read, CompiledLineReader.of(schema, written))
        self._writer = RecordWriter(
            b"",
            lambda rows: written_lines(written, rows).cast(pa.binary()).to_pylist(),
            CompiledLineWriter.of(schema, written),
        )

    def decode(self, values: pa.BinaryArray) -> DecodedBatch:
        """Return one row for each record that is a line of fitting fields."""
        present_values, indices, nulls = present(values)
        records = self._reader.read(present_values, 0).among(indices)
        return DecodedBatch(records.rows, records.good, tuple(BadRecord(*pair) for pair in records.bad), nulls)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one line per row."""
        require_schema(rows, self.schema)
        return self._writer.write(rows)


def _require_field(field: pa.Field) -> None:
    kind = field.type
    if kind.num_fields or pa.types.is_duration(kind) or pa.types.is_time(kind):
        message = (
            f"column {field.name} is {kind}, which no field of a line holds; take its parts as columns of their own, "
            "or write it as STRING"
        )
        raise SchemaUnsupportedError(message)
