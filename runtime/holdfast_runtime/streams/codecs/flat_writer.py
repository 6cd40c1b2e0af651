"""The compiled writer of JSON objects (json_objects.c): one text for each row, in one pass over all columns.

It writes what pyarrow's kernels write, byte by byte, without dozens of calls for a small block. Columns with parts, and
numbers of many digits, come to it as texts of these kernels. Without a compiled library there is none.
"""

import ctypes
import functools
import json
from collections.abc import Callable
from ctypes import byref, c_int64, c_void_p
from pathlib import Path

import pyarrow as pa

from holdfast_runtime.columns.loops import compiled

LOOPS_VERSION = 1
LIBRARY = Path(__file__).with_name("json_objects.so")
_ARGUMENTS = {
    "holdfast_measure_objects": (c_void_p, c_int64, c_int64, c_void_p),
    "holdfast_write_objects": (c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p),
}
_BOOLEAN, _TEXT = 0, 10
_WRITTEN = {
    pa.bool_(): _BOOLEAN, pa.int8(): 1, pa.int16(): 2, pa.int32(): 3, pa.int64(): 4, pa.float64(): 6, pa.string(): 7,
    pa.date32(): 8, pa.timestamp("us", tz="UTC"): 9, pa.timestamp("us"): 9,
}  # fmt: skip
"""The types it writes, and their numbers in json_objects.c."""
_END_BYTES = 4
_MOST_BYTES = 2**31 - 1

Texts = Callable[[pa.Array, str], pa.StringArray]
"""The JSON text of each value of a column, which errors name."""


class _Column(ctypes.Structure):
    """A column in json_objects.c."""

    _fields_ = (
        ("head", ctypes.c_char_p),
        ("head_size", c_int64),
        ("kind", c_int64),
        ("zoned", c_int64),
        ("values", c_void_p),
        ("bytes", c_void_p),
        ("valid", c_void_p),
        ("offset", c_int64),
        ("escaped", c_int64),
    )


def write_objects(rows: pa.RecordBatch, texts: Texts) -> pa.BinaryArray | None:
    """Return one JSON object per row, without null columns; None if nothing is compiled, or there is too much."""
    loops = library()
    if loops is None or not rows.num_rows:
        return None
    columns = _Columns(rows, texts)
    while True:
        room, size = c_int64(), c_int64()
        loops.holdfast_measure_objects(columns.written, len(columns.written), rows.num_rows, byref(room))
        if room.value > _MOST_BYTES:
            return None
        ends = pa.allocate_buffer((rows.num_rows + 1) * _END_BYTES)
        objects = pa.allocate_buffer(room.value, resizable=True)
        loops.holdfast_write_objects(
            columns.written, len(columns.written), rows.num_rows, ends.address, objects.address, byref(size)
        )
        if size.value >= 0:
            objects.resize(size.value)
            return pa.Array.from_buffers(pa.binary(), rows.num_rows, [None, ends, objects])
        columns.as_text(-1 - size.value)


class _Columns:
    """The columns of rows that are written."""

    def __init__(self, rows: pa.RecordBatch, texts: Texts) -> None:
        self._texts = texts
        self._named = [pair for pair in zip(rows.schema.names, rows.columns, strict=True) if pair[1].type != pa.null()]
        self.written = (_Column * len(self._named))()
        for at, (name, array) in enumerate(self._named):
            if array.type in _WRITTEN:
                self.written[at] = _column(name, array, _WRITTEN[array.type])
            else:
                self.as_text(at)

    def as_text(self, at: int) -> None:
        """Write a column as texts that pyarrow makes, which fails for times that none can be made of."""
        name, array = self._named[at]
        self._named[at] = name, self._texts(array, name)  # what is pointed to has to live
        self.written[at] = _column(*self._named[at], _TEXT)


def _column(name: str, array: pa.Array, kind: int) -> _Column:
    head, (valid, first, *content) = _head(name), array.buffers()
    skipped = 0 if kind == _BOOLEAN else array.offset * (_END_BYTES if content else array.type.bit_width // 8)
    return _Column(
        head=head,
        head_size=len(head),
        kind=kind,
        zoned=pa.types.is_timestamp(array.type) and array.type.tz is not None,
        values=first.address + skipped,
        bytes=content[0].address if content and content[0] else None,
        valid=valid.address if valid and array.null_count else None,
        offset=array.offset,
    )


@functools.cache
def _head(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode() + b":"


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return what is compiled, or None if there is none of this version."""
    return compiled(LIBRARY, LOOPS_VERSION, _ARGUMENTS)
