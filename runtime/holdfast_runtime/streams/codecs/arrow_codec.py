"""The codec of `format: arrow`: a record's value is an Arrow IPC stream, for producers that already have columns.

A record may hold many rows, and should: one row per record costs far more bytes and time than JSON. Holdfast writes one
row per record, because rows are partitioned one by one. Must not trust any byte: the decompressed size of a record is
read from its message headers (flatbuffers, whose structure pyarrow has verified) and limited before pyarrow
decompresses it, and everything read is validated in full before anything computes with it.
"""

import sys
from collections.abc import Iterable
from struct import Struct

import numpy as np
import pyarrow as pa

from holdfast_runtime.streams.codecs.arrow_columns import MOST_BYTES, ColumnMapping, RefusedError, unusable
from holdfast_runtime.streams.codecs.codec import RECORDS, BadRecord, DecodedBatch, present, require_schema
from holdfast_runtime.streams.records import stacked

_SHORT, _OFFSET, _BACK, _LONG, _SPAN = (Struct(form) for form in ("<H", "<I", "<i", "<q", "<qq"))
_HEADER, _DATA = 2, 1
"""Field numbers in the tables of Arrow's `Message.fbs` and `Schema.fbs`: of a message and a dictionary batch,"""
_BUFFERS, _COMPRESSION = 2, 3
"""of a record batch,"""
_BYTE_ORDER = 0
"""and of a schema."""


def unpacked_size(message: pa.Message) -> int:
    """Return the decompressed size of a batch; raise `ValueError` or `struct.error` if its header is invalid."""
    content = memoryview(message.metadata)
    table = _child(content, _OFFSET.unpack_from(content)[0], _HEADER)
    if message.type == "dictionary":
        table = _child(content, table, _DATA)
    body = message.body
    if not _field(content, table, _COMPRESSION):
        return len(body) if body is not None else 0
    spans = _child(content, table, _BUFFERS)
    (count,) = _OFFSET.unpack_from(content, spans)
    buffers = _SPAN.iter_unpack(content[spans + 4 : spans + 4 + count * _SPAN.size])
    # Each buffer begins with its uncompressed length, or -1 if it is not compressed.
    return sum(max(length, _LONG.unpack_from(body, start)[0]) for start, length in buffers if length)


def is_of_this_byte_order(schema: pa.Message) -> bool:
    """Whether the data behind this schema has this machine's byte order, so that no bytes need swapping."""
    content = memoryview(schema.metadata)
    order = _field(content, _child(content, _OFFSET.unpack_from(content)[0], _HEADER), _BYTE_ORDER)
    return (order != 0 and _SHORT.unpack_from(content, order)[0] == 1) == (sys.byteorder == "big")


def _field(content: memoryview, table: int, number: int) -> int:
    """Return the position of a table's field, or 0 if the field is absent."""
    fields = table - _BACK.unpack_from(content, table)[0]
    place = 4 + 2 * number
    if place >= _SHORT.unpack_from(content, fields)[0]:
        return 0
    (offset,) = _SHORT.unpack_from(content, fields + place)
    return table + offset if offset else 0


def _child(content: memoryview, table: int, number: int) -> int:
    """Return the position that a table's field points to."""
    place = _field(content, table, number)
    if not place:
        message = "a message has no header"
        raise ValueError(message)
    return place + int(_OFFSET.unpack_from(content, place)[0])


MOST_ROWS = 100_000
"""Limit per record: a column of nulls takes no bytes, whatever its length."""
DICTIONARY = "dictionary"
BODIES = frozenset({DICTIONARY, "record batch"})


class ArrowCodec:
    """`format: arrow`. Caches the last schema it read, which affects speed but never results."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._known: tuple[pa.Buffer, ColumnMapping] | None = None

    def decode(self, values: pa.BinaryArray) -> DecodedBatch:
        """Return the rows of all records; a record is read as a whole or not at all."""
        present_values, index, nulls = present(values)
        read: list[tuple[int, list[pa.RecordBatch]]] = []
        bad: list[BadRecord] = []
        for record, value in zip(index.tolist(), present_values, strict=True):
            try:
                read.append((record, self._rows(value.as_buffer())))
            except RefusedError as error:
                bad.append(BadRecord(record, str(error)))
        rows = self._together(read)
        if unusable(rows) is not None:
            why = {
                record: reason for record, batches in read if (reason := unusable(self._together([(record, batches)])))
            }
            bad = sorted(
                [*bad, *(BadRecord(record, reason) for record, reason in why.items())],
                key=lambda bad_record: bad_record.index,
            )
            read = [(record, batches) for record, batches in read if record not in why]
            rows = self._together(read)
        counts = [sum(batch.num_rows for batch in batches) for _, batches in read]
        good = np.repeat(np.array([record for record, _ in read], np.int64), counts)
        return DecodedBatch(rows, good, tuple(bad), nulls)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one IPC stream per row."""
        require_schema(rows, self.schema)
        start = self.schema.serialize().to_pybytes()
        end = b"\xff\xff\xff\xff\x00\x00\x00\x00"
        return pa.array(
            [start + rows.slice(row, 1).serialize().to_pybytes() + end for row in range(rows.num_rows)], pa.binary()
        )

    def _rows(self, value: pa.Buffer) -> list[pa.RecordBatch]:
        try:
            fitting, batches = self._read(value)
            rows = sum(batch.num_rows for batch in batches)
            if rows > MOST_ROWS:
                message = f"the value has {rows} rows, and {MOST_ROWS} of a record are read; write more records"
                raise RefusedError(message)
            for batch in batches:
                batch.validate(full=True)
        except RefusedError:
            raise
        except Exception as error:  # noqa: BLE001 - for bytes that are no Arrow, pyarrow has a dozen of classes
            reason = str(error).splitlines()[0][:120] if str(error) else "empty"
            message = f"the value is not an Arrow IPC stream: {reason}"
            raise RefusedError(message) from None
        return [fitting.fit(batch) for batch in batches]

    def _read(self, value: pa.Buffer) -> tuple[ColumnMapping, list[pa.RecordBatch]]:
        messages = list(pa.ipc.MessageReader.open_stream(value))
        kinds = [message.type for message in messages]
        # pyarrow does not check the kind of a message when it is asked to read a schema or a batch.
        if kinds[:1] != ["schema"] or not BODIES.issuperset(kinds[1:]):
            message = f"its messages are {', '.join(kinds[:3]) or 'none'}, and not a schema and batches"
            raise ValueError(message)
        fitting, bodies = self._fitting_of(messages[0]), messages[1:]
        size = sum(map(unpacked_size, bodies))
        if size > max(MOST_BYTES, value.size):
            message = f"the value of {value.size} bytes is {size} when it is decompressed, and {MOST_BYTES} are read"
            raise RefusedError(message)
        if not is_of_this_byte_order(messages[0]) or DICTIONARY in kinds:
            with pa.ipc.open_stream(value) as stream:
                return fitting, list(stream)
        return fitting, [pa.ipc.read_record_batch(message, fitting.found) for message in bodies]

    def _fitting_of(self, message: pa.Message) -> ColumnMapping:
        if self._known is None or not self._known[0].equals(message.metadata):
            # A copy: the message is a slice of all records of its batch, and would keep them in memory.
            header = pa.py_buffer(message.metadata.to_pybytes())
            self._known = header, ColumnMapping.of(self.schema, pa.ipc.read_schema(message))
        return self._known[1]

    def _together(self, read: Iterable[tuple[int, list[pa.RecordBatch]]]) -> pa.RecordBatch:
        return stacked([batch for _, batches in read for batch in batches], self.schema, RECORDS)
