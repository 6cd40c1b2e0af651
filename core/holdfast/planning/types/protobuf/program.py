"""How a message becomes columns, and columns a message: flat nodes that an interpreter walks.

Nodes and cells refer to each other by number, since the interpreters in C take them as arrays. One program serves
reading and writing, as fields are found by their numbers. Must not know how it is made: `fields` does.
"""

from dataclasses import dataclass
from enum import IntEnum

from holdfast.planning.types.avro.program import Cell


class WireOp(IntEnum):
    """What the bytes of a value are. The numbers are those of protobuf_program.h."""

    BOOL = 0
    INT32 = 1
    INT64 = 2
    UINT32 = 3
    UINT64 = 4
    SINT32 = 5
    SINT64 = 6
    FIXED32 = 7
    FIXED64 = 8
    SFIXED32 = 9
    SFIXED64 = 10
    FLOAT = 11
    DOUBLE = 12
    STRING = 13
    BYTES = 14
    ENUM = 15
    MESSAGE = 16
    TIMESTAMP = 17
    """A message of seconds and nanoseconds, as one number of microseconds."""
    WRAPPER = 18
    """A message around one scalar, as that scalar."""


class Shape(IntEnum):
    """How often a field stands in a message. The numbers are those of protobuf_program.h."""

    IMPLICIT = 0
    """Once; absent, it has its type's default."""
    OPTIONAL = 1
    """Once or never; absent, it is null."""
    LIST = 2
    MAP = 3


@dataclass(frozen=True, slots=True)
class MessageNode:
    """A field, or the whole message, and the cell that its values come from or go to."""

    op: WireOp
    cell: int
    path: str = ""
    """Where it is, for messages."""
    number: int = 0
    shape: Shape = Shape.IMPLICIT
    packed: bool = False
    required: bool = False
    choice: int = 0
    """Which `oneof` of its message it is in, from 1; 0: none."""
    inner: tuple[int, ...] = ()
    """Of a message its fields, by number; of a map its key and its value; of a wrapper its value."""
    absent: tuple[int, ...] = ()
    """Of a message, the cells inside of its cell that no field fills."""
    symbols: tuple[str, ...] = ()
    """Of an enum that is text, its names; the first is what an absent one has."""
    numbers: tuple[int, ...] = ()
    """What these names stand for."""


@dataclass(frozen=True, slots=True)
class ProtobufProgram:
    """The nodes, the first of which is the whole message, and the cells, the first of which is the whole row."""

    nodes: tuple[MessageNode, ...]
    cells: tuple[Cell, ...]
