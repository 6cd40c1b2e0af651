"""The compiled reader of flat JSON records (json_records.c): columns without parts, as most streams have them.

It takes the records that are plainly good, whatever their neighbours, and leaves the others to the judge. If these are
many (a producer that escapes names, damaged records), it refuses the block, and the next ones unseen: then pyarrow's
reader costs less. Else it costs a sixth of that, and waits for no thread, as a small block does there. Without a
compiled library there is none, and pyarrow reads the same rows. Must not give reasons.
"""

import ctypes
import functools
import re
from ctypes import byref, c_int64, c_void_p
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from holdfast_runtime.columns.loops import address, compiled
from holdfast_runtime.streams.codecs.codec import Indices

LOOPS_VERSION = 2
LIBRARY = Path(__file__).with_name("json_records.so")
DOUBTS, RECORDS_PER_DOUBT = 4, 32
"""A block may have this many doubtful records, and another for each so many: judging one takes as long as pyarrow's
reader for about 25, or for a seventh of a small block."""
PAUSE = 7
"""How many blocks are refused unseen after one with too many, which cost up to a tenth of pyarrow's reader."""
UNESCAPED = re.compile(r'[^\x00-\x1f"\\]*')
"""Names that JSON may write as they are."""

_ARGUMENTS = {
    "holdfast_read_records": (c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_int64, c_void_p, c_void_p),
    "holdfast_copy_texts": (c_void_p, c_void_p, c_void_p, c_int64, c_void_p),
}
_STRING = 7
KINDS = {
    pa.bool_(): 0, pa.int8(): 1, pa.int16(): 2, pa.int32(): 3, pa.int64(): 4, pa.float32(): 5, pa.float64(): 6,
    pa.string(): _STRING, pa.date32(): 8, pa.timestamp("us", tz="UTC"): 9, pa.timestamp("us"): 9,
}  # fmt: skip
"""The types it reads, and their numbers in json_records.c."""
_END_BYTES = _START_BYTES = 4
_ALIGNED = 64


class _Column(ctypes.Structure):
    """A column in json_records.c."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("name_size", c_int64),
        ("kind", c_int64),
        ("values", c_void_p),
        ("starts", c_void_p),
        ("valid", c_void_p),
        ("present", c_int64),
        ("text_size", c_int64),
        ("record", c_int64),
    )


class FlatRows(NamedTuple):
    """What was read of a block."""

    rows: pa.RecordBatch
    """One row for each record that is not doubtful, in order."""
    doubtful: Indices
    """The records left to the judge, ascending."""


class FlatReader:
    """Reads blocks of one producer. Remembers whether they were refused, which affects speed but never rows."""

    def __init__(self, schema: pa.Schema, library: ctypes.CDLL) -> None:
        self._schema, self._types, self._library = schema, schema.types, library
        names, kinds = [name.encode() for name in schema.names], [KINDS[kind] for kind in schema.types]
        columns = (_Column(name, len(name), kind, record=-1) for name, kind in zip(names, kinds, strict=True))
        self._columns = (_Column * len(names))(*columns)
        self._widths = [8 * _END_BYTES if pa.types.is_string(kind) else kind.bit_width for kind in schema.types]
        self._pause = 0

    @classmethod
    def of(cls, schema: pa.Schema) -> "FlatReader | None":
        """Return the reader of these columns, or None if they are not flat, or nothing is compiled."""
        names, loops = schema.names, library()
        plain_names = len(names) == len(set(names)) > 0 and all(UNESCAPED.fullmatch(name) for name in names)
        flat = plain_names and all(kind in KINDS for kind in schema.types)
        return cls(schema, loops) if flat and loops else None

    def read(self, block: pa.BinaryArray, frame_bytes: int = 0) -> FlatRows | None:
        """Return what is plainly good, or None if much is not. So many bytes stand before each object."""
        if self._pause:
            self._pause -= 1
            return None
        _, ends, content = block.buffers()
        if content is None:
            return None
        cells = _Cells(self._columns, self._widths, len(block))
        doubtful = np.empty(DOUBTS + len(block) // RECORDS_PER_DOUBT, np.int32)
        doubts = c_int64(len(doubtful))
        first = ends.address + block.offset * _END_BYTES
        values = (first, content.address, len(block), frame_bytes)
        self._library.holdfast_read_records(
            *values, cells.columns, len(cells.columns), address(doubtful), byref(doubts)
        )
        if doubts.value < 0:
            self._pause = PAUSE
            return None
        rows = len(block) - doubts.value
        for column, buffers in zip(cells.columns, cells.buffers, strict=True):
            if column.kind == _STRING:
                texts = pa.allocate_buffer(column.text_size)
                end = content.address + content.size
                self._library.holdfast_copy_texts(content.address, end, byref(column), rows, texts.address)
                buffers.append(texts)
        arrays = [
            pa.Array.from_buffers(kind, rows, buffers, rows - column.present)
            for kind, column, buffers in zip(self._types, cells.columns, cells.buffers, strict=True)
        ]
        undoubted = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return FlatRows(undoubted, doubtful[: doubts.value].astype(np.int64))


class _Cells:
    """The buffers of all columns for so many records: bitmaps and values in one piece of memory."""

    def __init__(self, columns: "ctypes.Array[_Column]", widths: list[int], records: int) -> None:
        self.columns = type(columns).from_buffer_copy(columns)
        bitmap, sizes = _size(records, 1), [_size(records + 1, width) for width in widths]
        memory = pa.py_buffer(np.zeros(sum(sizes) + len(sizes) * bitmap, np.uint8))
        self.buffers: list[list[pa.Buffer]] = []
        self._starts: list[pa.Buffer] = []
        place = 0
        for column, size in zip(self.columns, sizes, strict=True):
            valid, values = memory.slice(place, bitmap), memory.slice(place + bitmap, size)
            column.valid, column.values = valid.address, values.address
            self.buffers.append([valid, values])
            if column.kind == _STRING:
                self._starts.append(pa.allocate_buffer(records * _START_BYTES))
                column.starts = self._starts[-1].address
            place += bitmap + size


def _size(cells: int, width: int) -> int:
    """Return the bytes of so many cells of so many bits, as many as keep the next buffer aligned."""
    return -(-cells * width // (8 * _ALIGNED)) * _ALIGNED


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return what is compiled, or None if there is none of this version."""
    return compiled(LIBRARY, LOOPS_VERSION, _ARGUMENTS)
