"""The compiled writer of JSON objects (json_objects.c): one text for each row, in one pass over all columns.

It writes what pyarrow's kernels write, byte by byte, without dozens of calls for a small block. A column with a number
of many digits in it, or with a FLOAT, comes to it as texts of these kernels. Without a compiled library there is none.
"""

import ctypes
import functools
import json
from collections.abc import Callable
from ctypes import byref, c_int64, c_void_p
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast_runtime.columns.loops import compiled
from holdfast_runtime.streams.codecs.arrow_types import compact

LOOPS_VERSION = 2
LIBRARY = Path(__file__).with_name("json_objects.so")
_ARGUMENTS = {
    "holdfast_measure_objects": (c_void_p, c_int64, c_int64, c_void_p),
    "holdfast_write_objects": (c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p),
}
_BOOLEAN, _TINYINT, _SMALLINT, _INT, _BIGINT, _DOUBLE, _STRING, _DATE, _TIMESTAMP = range(9)
_BINARY, _DECIMAL, _MADE, _NOTHING, _STRUCT, _LIST, _MAP = range(9, 16)
"""What a column holds, by the numbers of json_objects.c."""
_SIMPLE = {
    pa.null(): _NOTHING, pa.bool_(): _BOOLEAN, pa.int8(): _TINYINT, pa.int16(): _SMALLINT, pa.int32(): _INT,
    pa.int64(): _BIGINT, pa.float64(): _DOUBLE, pa.string(): _STRING, pa.binary(): _BINARY, pa.date32(): _DATE,
}  # fmt: skip
_FAMILIES = (
    (pa.types.is_timestamp, _TIMESTAMP), (pa.types.is_decimal, _DECIMAL), (pa.types.is_struct, _STRUCT),
    (pa.types.is_map, _MAP), (pa.types.is_list, _LIST),
)  # fmt: skip
_CONTENTS = (_STRING, _BINARY, _MADE)
_ENDED = (*_CONTENTS, _LIST, _MAP)
_WITHOUT_VALUES = (_NOTHING, _STRUCT)
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
        ("detail", c_int64),
        ("values", c_void_p),
        ("bytes", c_void_p),
        ("valid", c_void_p),
        ("offset", c_int64),
        ("escaped", c_int64),
        ("parts", c_void_p),
        ("part_count", c_int64),
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
        self._named = list(zip(rows.schema.names, rows.columns, strict=True))
        self._pointed_to: list[Any] = []
        self.written = (_Column * len(self._named))()
        for at, (name, array) in enumerate(self._named):
            if _is_written(array.type):
                self.written[at] = self._column(array, _head(name), _kind(array.type))
            else:
                self.as_text(at)

    def as_text(self, at: int) -> None:
        """Write a column as texts that pyarrow makes, which fails for times that none can be made of."""
        name, array = self._named[at]
        self.written[at] = self._column(self._texts(array, name), _head(name), _MADE)

    def _column(self, array: pa.Array, head: bytes, kind: int) -> _Column:
        if kind == _MAP:
            array = compact(array)  # the keys of a slice have the offset of neither
        inner = [self._column(part, name, _kind(part.type)) for name, part in _parts(array, kind)]
        parts = (_Column * len(inner))(*inner)
        self._pointed_to += [array, parts]  # what is pointed to has to live
        valid, *buffers = array.buffers()
        values = buffers[0] if buffers and kind not in _WITHOUT_VALUES else None
        content = buffers[1] if kind in _CONTENTS else None
        width = _END_BYTES if kind in _ENDED else 0 if values is None else array.type.bit_width // 8
        return _Column(
            head=head,
            head_size=len(head),
            kind=kind,
            detail=_detail(array.type),
            values=values.address + array.offset * width if values else None,
            bytes=content.address if content else None,
            valid=valid.address if valid and array.null_count else None,
            offset=array.offset,
            parts=ctypes.addressof(parts),
            part_count=len(parts),
        )


def _is_written(kind: pa.DataType) -> bool:
    inside = (kind.field(index).type for index in range(kind.num_fields))
    return not pa.types.is_float32(kind) and all(map(_is_written, inside))


def _kind(kind: pa.DataType) -> int:
    return _SIMPLE[kind] if kind in _SIMPLE else next(number for is_of, number in _FAMILIES if is_of(kind))


def _parts(array: pa.Array, kind: int) -> list[tuple[bytes, pa.Array]]:
    """Return what is inside of a column, each part behind its name if it is a member; rows are those of the whole."""
    if kind == _STRUCT:
        return [(_head(field.name), array.field(index)) for index, field in enumerate(array.type)]
    if kind == _MAP:
        return [(b"", array.keys), (b"", array.items)]
    return [(b"", array.values)] if kind == _LIST else []


def _detail(kind: pa.DataType) -> int:
    return kind.scale if pa.types.is_decimal(kind) else int(pa.types.is_timestamp(kind) and kind.tz is not None)


@functools.cache
def _head(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode() + b":"


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return what is compiled, or None if there is none of this version."""
    return compiled(LIBRARY, LOOPS_VERSION, _ARGUMENTS)
