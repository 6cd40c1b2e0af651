"""Arrow batches from messages of librdkafka, which are known only by their addresses: two calls into gather.c.

Buffers are allocated here, filled there and never copied again. Must not look at single records.
"""

from ctypes import byref
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast_runtime.columns.batches import MOST_BYTES, BatchTooLargeError
from holdfast_runtime.streams.kafka.client.librdkafka import Binary, Library, MessageColumns, Sizes
from holdfast_runtime.streams.kafka.read.range_read import HEADERS, WITH_HEADERS
from holdfast_runtime.streams.records import FETCHED

Pointers = np.ndarray[Any, np.dtype[np.int64]]
"""Addresses of messages."""


def measured(library: Library, messages: Pointers, end: int) -> Sizes:
    """Return the space for the messages before the first that is an error or is not below `end`."""
    sizes = Sizes()
    library.loops.measure(byref(library.functions), messages.ctypes.data, len(messages), end, byref(sizes))
    return sizes


def require_fitting(sizes: Sizes, what: str) -> None:
    """Refuse messages of sizes that no batch can hold."""
    largest: int = max(sizes.key_bytes, sizes.value_bytes, sizes.name_bytes, sizes.content_bytes)
    if largest > MOST_BYTES:
        raise BatchTooLargeError.of(what, largest)


def gathered(library: Library, messages: Pointers, sizes: Sizes) -> pa.RecordBatch:
    """Return the measured messages as a batch and destroy them."""
    count = sizes.records
    offsets, timestamps = np.empty(count, np.int64), np.empty(count, np.int64)
    keys = _Binary(count, sizes.key_bytes, sizes.null_keys)
    values = _Binary(count, sizes.value_bytes, sizes.null_values)
    columns = MessageColumns(offsets.ctypes.data, timestamps.ctypes.data, keys.place(), values.place())
    headers = None
    if sizes.with_headers:
        headers = _Headers(sizes)
        headers.put_into(columns)
    library.loops.gather(byref(library.functions), messages.ctypes.data, count, byref(columns))
    made = [pa.array(offsets), keys.array(pa.binary()), values.array(pa.binary()), pa.array(timestamps)]
    if headers is None:
        return pa.RecordBatch.from_arrays(made, schema=FETCHED)
    return pa.RecordBatch.from_arrays([*made, headers.array()], schema=WITH_HEADERS)


def destroy(library: Library, messages: Pointers) -> None:
    """Destroy messages that are not needed."""
    library.loops.destroy(byref(library.functions), messages.ctypes.data, len(messages))


class _Binary:
    """The buffers of a binary column."""

    def __init__(self, rows: int, size: int, nulls: int) -> None:
        self.rows, self.nulls = rows, nulls
        self.ends, self.bytes = np.empty(rows + 1, np.int32), np.empty(size, np.uint8)
        self.valid = _bitmap(rows) if nulls else None

    def place(self) -> Binary:
        valid = None if self.valid is None else self.valid.ctypes.data
        return Binary(self.ends.ctypes.data, self.bytes.ctypes.data, valid)

    def array(self, kind: pa.DataType) -> pa.Array:
        valid = None if self.valid is None else pa.py_buffer(self.valid)
        buffers = [valid, pa.py_buffer(self.ends), pa.py_buffer(self.bytes)]
        return pa.Array.from_buffers(kind, self.rows, buffers, self.nulls)


class _Headers:
    """The buffers of the column of headers."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.ends, self.there = np.empty(sizes.records + 1, np.int32), _bitmap(sizes.records)
        self.names = _Binary(sizes.headers, sizes.name_bytes, 0)
        self.contents = _Binary(sizes.headers, sizes.content_bytes, sizes.null_contents)

    def put_into(self, columns: MessageColumns) -> None:
        columns.header_ends, columns.with_headers = self.ends.ctypes.data, self.there.ctypes.data
        columns.names, columns.contents = self.names.place(), self.contents.place()

    def array(self) -> pa.Array:
        children = [_text(self.names.array(pa.binary())), self.contents.array(pa.binary())]
        structs = pa.Array.from_buffers(HEADERS.type.value_type, self.sizes.headers, [None], 0, children=children)
        buffers = [pa.py_buffer(self.there), pa.py_buffer(self.ends)]
        without = self.sizes.records - self.sizes.with_headers
        return pa.Array.from_buffers(HEADERS.type, self.sizes.records, buffers, without, children=[structs])


def _text(names: pa.Array) -> pa.Array:
    """Return header names as text. By convention they are UTF-8; other bytes become replacement characters."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())


def _bitmap(rows: int) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    return np.zeros((rows + 7) // 8, np.uint8)
