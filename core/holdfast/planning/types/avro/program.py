"""How values of an Avro schema become columns, or columns become them: a few flat nodes that an interpreter walks.

Nodes and cells refer to each other by number, since the interpreters in C take them as arrays, and a type that contains
itself is skipped in a circle. Must not know how they are made: `reading` and `writing` do.
"""

from dataclasses import dataclass
from enum import IntEnum

from holdfast.planning.types.avro.schema import AvroKind
from holdfast.planning.types.ddl import typed_columns
from holdfast.planning.types.spark_types import RowType, SparkType, struct

SKIPPED = -1
"""The cell of a value that no column has."""


class Op(IntEnum):
    """What the bytes at hand are. The numbers are those of avro_program.h."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    FIXED = 7
    ENUM = 8
    RECORD = 9
    ARRAY = 10
    MAP = 11
    UNION = 12
    MISFIT = 13
    """A branch whose values no column can take: a record with one can't be read."""
    CONSTANT = 14
    """A field that is written with its default, as no column has it."""
    ISO_TIME = 15
    """A time as text."""
    ISO_DATE = 16
    """A date as text, Z behind it."""
    TEXT_DECIMAL = 17
    """A number as text."""
    OWN_SCALE = 18
    """How many of a number's digits are behind its point, and its bytes without one."""


OPS = {
    AvroKind.NULL: Op.NULL,
    AvroKind.BOOLEAN: Op.BOOLEAN,
    AvroKind.INT: Op.INT,
    AvroKind.LONG: Op.LONG,
    AvroKind.FLOAT: Op.FLOAT,
    AvroKind.DOUBLE: Op.DOUBLE,
    AvroKind.BYTES: Op.BYTES,
    AvroKind.STRING: Op.BYTES,
    AvroKind.FIXED: Op.FIXED,
    AvroKind.ENUM: Op.ENUM,
    AvroKind.RECORD: Op.RECORD,
    AvroKind.ARRAY: Op.ARRAY,
    AvroKind.MAP: Op.MAP,
    AvroKind.UNION: Op.UNION,
}
"""What the bytes of a type are."""


@dataclass(frozen=True, slots=True)
class Node:
    """A type of the schema, and the cell that its values come from or go to."""

    op: Op
    cell: int = SKIPPED
    inner: tuple[int, ...] = ()
    """Its fields, branches or elements; of a union that is written, the branch of values alone."""
    path: str = ""
    """Where it is, for messages."""
    factor: int = 1
    """Of a number, what it is multiplied by, or divided by if it is negative, when it is read or written. Of a decimal,
    how many digits are added behind its point; of one that says its own, how many its column has there."""
    size: int = 0
    """The bytes of a fixed."""
    symbols: tuple[str, ...] = ()
    """Of an enum."""
    absent: tuple[int, ...] = ()
    """The cells inside of its cell that none of its fields fills."""
    misfit: str = ""
    """Of a misfit, what does not fit."""
    branch: int = 0
    """Of a union that is written: the number of the branch of values."""
    null_branch: int = -1
    """Of a union that is written: the number of the branch for nulls; -1 if it has none."""
    constant: bytes = b""


@dataclass(frozen=True, slots=True)
class Cell:
    """A column, or a part of one."""

    type: SparkType
    path: str
    inner: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AvroProgram:
    """The nodes, the first of which is the whole record, and the cells, the first of which is the whole row."""

    nodes: tuple[Node, ...]
    cells: tuple[Cell, ...]


def cells_of(rows: RowType) -> tuple[Cell, ...]:
    """Return the cells of a row, whose types must be known: the row first, each part behind what it is in."""
    columns, cells = typed_columns(rows), list[Cell]()
    assert columns is not None, rows  # noqa: S101 - the caller has looked

    def add(kind: SparkType, path: str) -> int:
        at = len(cells)
        cells.append(Cell(kind, path))
        names = [f"{path}.{name}".lstrip(".") for name in kind.names] or [f"{path}[]", f"{path}[]"][: len(kind.inner)]
        inner = tuple(add(part, name) for name, part in zip(names, kind.inner, strict=True))
        cells[at] = Cell(kind, path, inner)
        return at

    add(struct(columns), "")
    return tuple(cells)


VALUE = "value"
"""The column of a record that is no Avro record, but a single value."""
