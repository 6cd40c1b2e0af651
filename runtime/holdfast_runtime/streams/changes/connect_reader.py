"""The reader of records in JSON that mean one thing: those of one schema of Kafka Connect, or those without any.

Values are read as the schema says that they are written, and then made those of the columns. A value that does not fit
is searched for by halves. Must not find the schema of a record.
"""

import numpy as np
import pyarrow as pa

from holdfast.planning.types.connect.reading import ConnectNode, ConnectReading
from holdfast.planning.types.spark_types import Column, RowType
from holdfast_runtime.streams.changes.connect_values import UnfitValueError, converted_fields
from holdfast_runtime.streams.changes.wrapped_values import members_of
from holdfast_runtime.streams.codecs.arrow_types import arrow_schema
from holdfast_runtime.streams.codecs.codec import Indices
from holdfast_runtime.streams.codecs.json_codec import JsonCodec
from holdfast_runtime.streams.codecs.record_reader import ReadRecords, in_order
from holdfast_runtime.streams.records import no_rows


class ConnectReader:
    """Reads them. Remembers how they are written, which affects speed but never rows."""

    def __init__(self, reading: ConnectReading, schema: pa.Schema, hint: str = "") -> None:
        """`hint` is added to the reasons of records that are objects."""
        self._schema, self._hint = schema, hint
        nodes = [reading.row] if reading.row == reading.in_numbers else [reading.row, reading.in_numbers]
        self._ways = [(_codec(node, schema), node) for node in nodes]

    def read(self, values: pa.BinaryArray) -> ReadRecords:
        """Return what is in these records, none of which is null."""
        parts, reasons = list[ReadRecords](), dict[int, str]()
        left = np.arange(len(values))
        for codec, node in self._ways:
            decoded = codec.decode(picked(values, left))
            if len(decoded.good):
                parts.append(self._converted(decoded.rows, node).among(left[decoded.good]))
            for record in decoded.bad:
                reasons.setdefault(int(left[record.index]), record.reason)
            left = left[[record.index for record in decoded.bad]]
            if not len(left):
                break
        unread = [(int(index), reasons[int(index)]) for index in left]
        records = in_order([*parts, ReadRecords(no_rows(self._schema), np.arange(0), unread)], self._schema)
        if not self._hint:
            return records
        bad = [
            (index, reason if members_of(values[index].as_py()) is None else reason + self._hint)
            for index, reason in records.bad
        ]
        return ReadRecords(records.rows, records.good, bad)

    def _converted(self, rows: pa.RecordBatch, node: ConnectNode) -> ReadRecords:
        if node.is_plain:
            return ReadRecords(rows, np.arange(rows.num_rows), [])
        parts, bad = list[ReadRecords](), list[tuple[int, str]]()
        stack: list[Indices] = [np.arange(rows.num_rows)]
        while stack:
            indices = stack.pop()
            part = rows if len(indices) == rows.num_rows else rows.take(pa.array(indices))
            try:
                parts.append(ReadRecords(self._fields(part, node), indices, []))
            except UnfitValueError as error:
                if len(indices) == 1:
                    bad.append((int(indices[0]), str(error)))
                else:
                    stack += np.array_split(indices, 2)
        return in_order([*parts, ReadRecords(no_rows(self._schema), np.arange(0), bad)], self._schema)

    def _fields(self, rows: pa.RecordBatch, node: ConnectNode) -> pa.RecordBatch:
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        arrays = converted_fields(columns, node, pa.struct(list(self._schema)), rows.num_rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def picked(values: pa.BinaryArray, indices: Indices) -> pa.BinaryArray:
    """Return these values, which are not copied if they are all."""
    return values if len(indices) == len(values) else values.take(pa.array(indices))


def _codec(node: ConnectNode, schema: pa.Schema) -> JsonCodec:
    if node.is_plain:
        return JsonCodec(schema)
    wire = node.wire
    assert wire is not None  # noqa: S101 - a row is read as one
    return JsonCodec(arrow_schema(RowType(tuple(map(_column, wire.names, wire.inner)))))


def _column(name: str, kind: object) -> Column:
    return Column(name, str(kind))
