"""The columns of lines as csv_program.h has them.

Must not know whether lines are read or written.
"""

import ctypes
from ctypes import c_int64, c_void_p

import pyarrow as pa

from holdfast.planning.types.avro.program import Cell, cells_of
from holdfast_runtime.streams.codecs.arrow_types import row_type
from holdfast_runtime.streams.codecs.compiled_cells import LoopProgram, LoopText
from holdfast_runtime.streams.codecs.csv.csv_format import CsvFormat

LOOPS_VERSION = 3
NOTHING, BOOLEAN, WHOLE, FLOAT, DOUBLE, DECIMAL, TEXT, BASE64, DATE, TIME, ZONED_TIME, MADE = range(12)
"""What the text of a field is."""
_SIMPLE = {
    pa.null(): NOTHING, pa.bool_(): BOOLEAN, pa.float32(): FLOAT, pa.float64(): DOUBLE, pa.string(): TEXT,
    pa.binary(): BASE64, pa.date32(): DATE,
}  # fmt: skip


def _op(kind: pa.DataType) -> int:
    if pa.types.is_timestamp(kind):
        return TIME if kind.tz is None else ZONED_TIME
    if pa.types.is_decimal(kind):
        return DECIMAL
    return _SIMPLE.get(kind, WHOLE)


class _LineColumn(ctypes.Structure):
    """A column in csv_program.h."""

    _fields_ = (("op", c_int64), ("scale", c_int64))


class _Line(ctypes.Structure):
    """The node in csv_program.h."""

    _fields_ = (
        ("columns", c_void_p),
        ("column_count", c_int64),
        ("delimiter", c_int64),
        ("null", LoopText),
    )


class CompiledLine(LoopProgram):
    """How lines are read or written; columns that are `made` are texts already when they are written."""

    def __init__(self, schema: pa.Schema, written: CsvFormat, made: frozenset[str] = frozenset()) -> None:
        super().__init__()
        ops = (MADE if field.name in made else _op(field.type) for field in schema)
        columns = [_LineColumn(op, getattr(kind, "scale", 0)) for op, kind in zip(ops, schema.types, strict=True)]
        array, null = (_LineColumn * len(columns))(*columns), written.null.encode()
        self.keep(array, null)
        line = _Line(ctypes.addressof(array), len(columns), ord(written.delimiter), LoopText(null, len(null)))
        self.nodes = (_Line * 1)(line)


def line_cells(schema: pa.Schema) -> tuple[Cell, ...]:
    """Return the cells of rows of these columns."""
    return cells_of(row_type(schema))
