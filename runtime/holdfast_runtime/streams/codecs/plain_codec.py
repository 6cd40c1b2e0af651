"""The codecs of `format: string` and `format: binary`: text or bytes in any other format, as one column `value`.

Must not look inside.
"""

import numpy as np
import pyarrow as pa

from holdfast_runtime.streams.codecs.arrow_types import SchemaUnsupportedError
from holdfast_runtime.streams.codecs.codec import RECORDS, BadRecord, DecodedBatch, present, require_schema
from holdfast_runtime.streams.records import stacked


class BinaryCodec:
    """`format: binary`: one column `value BINARY`, the record as it is."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = _only_value(schema, pa.binary(), "binary", "BINARY")

    def decode(self, values: pa.BinaryArray) -> DecodedBatch:
        """Return every non-null value as a row."""
        present_values, good, nulls = present(values)
        return DecodedBatch(pa.RecordBatch.from_arrays([present_values], schema=self.schema), good, (), nulls)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the column itself; a null value makes a null record."""
        require_schema(rows, self.schema)
        return rows.column(0)


class StringCodec:
    """`format: string`: one column `value STRING`; a record that is not UTF-8 is bad."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = _only_value(schema, pa.string(), "string", "STRING")

    def decode(self, values: pa.BinaryArray) -> DecodedBatch:
        """Return every UTF-8 value as a row. The batch is checked at once, and halved only if that fails."""
        present_values, index, nulls = present(values)
        pieces, spans, bad = [], [], []
        stack = [(0, len(present_values))]
        while stack:
            start, stop = stack.pop()
            try:
                text = present_values.slice(start, stop - start).cast(pa.string())
            except pa.ArrowInvalid:
                if stop - start > 1:
                    middle = (start + stop) // 2
                    stack += [(middle, stop), (start, middle)]
                else:
                    bad.append(BadRecord(int(index[start]), not_utf8(present_values[start].as_py())))
                continue
            pieces.append(pa.RecordBatch.from_arrays([text], schema=self.schema))
            spans.append(index[start:stop])
        good = np.concatenate(spans) if spans else index[:0]
        return DecodedBatch(stacked(pieces, self.schema, RECORDS), good, tuple(bad), nulls)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the column as UTF-8; a null value makes a null record."""
        require_schema(rows, self.schema)
        return rows.column(0).cast(pa.binary())


def not_utf8(raw: bytes) -> str:
    """Return the reason, with the position of the first wrong byte."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"the value is not UTF-8: byte 0x{raw[error.start]:02x} at position {error.start}"
    return "the value is not UTF-8"


def _only_value(schema: pa.Schema, kind: pa.DataType, name: str, spark: str) -> pa.Schema:
    if schema.names != ["value"] or schema.field(0).type != kind:
        columns = ", ".join(f"{field.name} {field.type}" for field in schema)
        message = f'a stream of format {name} has the schema "value {spark}" and no other; found {columns}'
        raise SchemaUnsupportedError(message)
    return schema
