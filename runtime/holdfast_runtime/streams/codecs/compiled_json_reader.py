"""The compiled reader of JSON records (json_records.c): columns of all types, in any order, among others.

It takes the records that are plainly good, whatever their neighbours, and leaves the others to the judge. If these are
many (a producer that escapes names, damaged records), it refuses the block, and the next ones unseen: then pyarrow's
reader costs less. Else it costs a sixth of that, and waits for no thread, as a small block does there. Without a
compiled library there is none, and pyarrow reads the same rows. Must not give reasons.
"""

import ctypes
import functools
import re
from ctypes import c_int64, c_void_p
from pathlib import Path

import pyarrow as pa

from holdfast.planning.types.avro.program import cells_of
from holdfast_runtime.columns.loops import compiled
from holdfast_runtime.streams.codecs.arrow_types import row_type
from holdfast_runtime.streams.codecs.compiled_cells import (
    FREE,
    READ,
    CellColumns,
    LoopProgram,
    LoopReader,
    UndoubtedRows,
    cell_types,
)

LOOPS_VERSION = 3
LIBRARY = Path(__file__).with_name("json_records.so")
DOUBTS, RECORDS_PER_DOUBT = 4, 32
"""A block may have this many doubtful records, and another for each so many: judging one takes as long as pyarrow's
reader for about 25, or for a seventh of a small block."""
PAUSE = 7
"""How many blocks are refused unseen after one with too many, which cost up to a tenth of pyarrow's reader."""
_UNESCAPED = re.compile(r'[^\x00-\x1f"\\]*')
"""Names that JSON may write as they are."""
NOTHING, BOOLEAN, WHOLE, FLOAT, DOUBLE, DECIMAL, TEXT, BASE64, DATE, TIME, STRUCT, LIST, MAP = range(13)
"""What JSON has for a cell."""
_SIMPLE = {
    pa.null(): NOTHING, pa.bool_(): BOOLEAN, pa.float32(): FLOAT, pa.float64(): DOUBLE, pa.string(): TEXT,
    pa.binary(): BASE64, pa.date32(): DATE,
}  # fmt: skip
_FAMILIES = (
    (pa.types.is_integer, WHOLE), (pa.types.is_timestamp, TIME), (pa.types.is_decimal, DECIMAL),
    (pa.types.is_struct, STRUCT), (pa.types.is_map, MAP), (pa.types.is_list, LIST),
)  # fmt: skip


class _Node(ctypes.Structure):
    """A node in json_records.c."""

    _fields_ = (("op", c_int64), ("scale", c_int64), ("names", c_void_p))


class _Objects(LoopProgram):
    """How objects are written whose members are the cells of a row."""

    def __init__(self, kinds: list[pa.DataType]) -> None:
        super().__init__()
        nodes = [_Node(_op(kind), getattr(kind, "scale", 0), self.texts(_names(kind))) for kind in kinds]
        self.nodes = (_Node * len(nodes))(*nodes)


class CompiledJsonReader:
    """Reads blocks of one producer. Remembers whether they were refused, which affects speed but never rows."""

    def __init__(self, schema: pa.Schema, library: ctypes.CDLL) -> None:
        columns, objects = (
            CellColumns(cells_of(row_type(schema)), schema),
            _Objects(cell_types(pa.struct(list(schema)))),
        )
        self._loop = LoopReader(library, library.holdfast_read_json, objects, columns)
        self._pause = 0

    @classmethod
    def of(cls, schema: pa.Schema) -> "CompiledJsonReader | None":
        """Return the reader of these columns, or None if JSON may write a name in several ways, or nothing is compiled.

        The types are those that JSON has.
        """
        loops = library()
        return cls(schema, loops) if loops and all(map(_plainly_named, cell_types(pa.struct(list(schema))))) else None

    def read(self, block: pa.BinaryArray, frame_bytes: int = 0) -> UndoubtedRows | None:
        """Return what is plainly good, or None if much is not. So many bytes stand before each object."""
        if self._pause:
            self._pause -= 1
            return None
        undoubted = self._loop.read(block, frame_bytes)
        if len(undoubted.doubtful) > DOUBTS + len(block) // RECORDS_PER_DOUBT:
            self._pause = PAUSE
            return None
        return undoubted


def _op(kind: pa.DataType) -> int:
    return _SIMPLE.get(kind) or next((op for is_of, op in _FAMILIES if is_of(kind)), NOTHING)


def _names(kind: pa.DataType) -> tuple[str, ...]:
    return tuple(kind.names) if pa.types.is_struct(kind) else ()


def _plainly_named(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return bool(pa.types.is_string(kind.key_type))
    names = _names(kind)
    known = len(set(names)) == len(names) and all(_UNESCAPED.fullmatch(name) for name in names)
    return known and bool(names or not pa.types.is_struct(kind))


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return what is compiled, or None if there is none of this version."""
    return compiled(LIBRARY, LOOPS_VERSION, {"holdfast_read_json": READ, **FREE})
