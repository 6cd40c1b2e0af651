"""How messages are read into columns and written from them: by name, and only where nothing of a value is lost.

Columns are Spark's, so a column that the message lacks is null, and the caller says whether it may be; a field that no
column has is passed over when it is read, and left out when it is written. Must not touch bytes.
"""

from dataclasses import dataclass, replace

from holdfast.planning.problems import ExpressionError, SqlFinding
from holdfast.planning.types.avro.program import cells_of
from holdfast.planning.types.misfits import Misfit, MisfitKind
from holdfast.planning.types.protobuf.columns import WORDS
from holdfast.planning.types.protobuf.program import MessageNode, ProtobufProgram, Shape, WireOp
from holdfast.planning.types.protobuf.schema import (
    SCALARS,
    TIMESTAMP,
    WRAPPERS,
    Presence,
    ProtoField,
    ProtoMessage,
    ProtoSchema,
)
from holdfast.planning.types.spark_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INTEGRAL,
    RowType,
    SparkType,
    inside,
    is_text,
)
from holdfast.planning.types.spark_types import TIMESTAMP as TIMESTAMP_COLUMN
from holdfast.reasons import Reason
from holdfast.suggest import did_you_mean

MOST_NODES = 50_000
_OPS = {name: WireOp(number) for number, name in enumerate(SCALARS)}
_INT32 = ("int32", "sint32", "sfixed32")
_INT64 = ("int64", "sint64", "sfixed64")
_UINT32 = ("uint32", "fixed32")
_UINT64 = ("uint64", "fixed64")
_MOST_DIGITS = 20
"""Of a number of 64 bits without a sign."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """How a message and columns meet, and what is in the way."""

    program: ProtobufProgram
    unread: tuple[Misfit, ...] = ()
    """Fields whose values their column can't take: why."""
    unwritten: tuple[Misfit, ...] = ()
    """Columns that no field takes, and fields that must be there and are no column: why."""
    absent: tuple[Misfit, ...] = ()
    """Columns, and fields inside them, that the message lacks: which, with the nearest name."""
    doubts: tuple[Misfit, ...] = ()
    """Fields whose column takes some of their values alone: with which a record is bad."""


def meeting(schema: ProtoSchema, rows: RowType) -> Meeting:
    """Return how messages and rows of these columns, whose types must be known, become each other."""
    builder = _Builder(schema, rows)
    builder.message(schema.root, MessageNode(WireOp.MESSAGE, 0), 0)
    program = ProtobufProgram(tuple(builder.nodes), builder.cells)
    return Meeting(
        program, tuple(builder.unread), tuple(builder.unwritten), tuple(builder.absent), tuple(builder.doubts)
    )


class _Builder:
    """Adds nodes; each stands before those inside it."""

    def __init__(self, schema: ProtoSchema, rows: RowType) -> None:
        self.schema, self.cells = schema, cells_of(rows)
        self.nodes: list[MessageNode] = []
        self.unread: list[Misfit] = []
        self.unwritten: list[Misfit] = []
        self.absent: list[Misfit] = []
        self.doubts: list[Misfit] = []

    def message(self, message: ProtoMessage, node: MessageNode, cell: int) -> int:
        """Add a message whose fields go to the parts of a cell."""
        at, target = self._place(), self.cells[cell]
        cells = dict(zip(target.type.names, target.inner, strict=True))
        choices = {name: at + 1 for at, name in enumerate(dict.fromkeys(f.choice for f in message.fields if f.choice))}
        inner = []
        for known in sorted(message.fields, key=lambda known: known.number):
            path = inside(node.path, known.name)
            if known.name in cells:
                inner.append(self._field(known, cells[known.name], path, choices.get(known.choice, 0)))
            elif known.presence is Presence.REQUIRED:
                why = f"field {path} is required: no column is called {known.name}"
                self.unwritten.append(Misfit(path, why, MisfitKind.NO_COLUMN))
        names = [known.name for known in message.fields]
        lacking = {name: inner_cell for name, inner_cell in cells.items() if name not in names}
        for name in lacking:
            path, hint = inside(node.path, name), did_you_mean(name, names)
            self.absent.append(Misfit(path, f"{path}{hint}", MisfitKind.NO_FIELD))
            why = f"column {path} is no field of {message.name}{hint}"
            self.unwritten.append(Misfit(path, why, MisfitKind.NO_FIELD))
        self.nodes[at] = replace(node, inner=tuple(inner), absent=tuple(lacking.values()))
        return at

    def _field(self, known: ProtoField, cell: int, path: str, choice: int) -> int:
        target = self.cells[cell]
        if known.key:
            return self._map(known, cell, path)
        shape = {Presence.IMPLICIT: Shape.IMPLICIT, Presence.REPEATED: Shape.LIST}.get(known.presence, Shape.OPTIONAL)
        place = MessageNode(
            WireOp.BOOL,
            cell,
            path,
            known.number,
            shape,
            known.packed,
            required=known.presence is Presence.REQUIRED,
            choice=choice,
        )
        if shape is Shape.LIST:
            if target.type.word != "ARRAY":
                return self._misfit(place, f"repeated {known.type}", target.type)
            cell = target.inner[0]
        return self._value(known.type, place, cell)

    def _map(self, known: ProtoField, cell: int, path: str) -> int:
        target, at = self.cells[cell], self._place()
        node = MessageNode(WireOp.MESSAGE, cell, path, known.number, Shape.MAP)
        if target.type.word != "MAP":
            return self._misfit(node, f"map<{known.key}, {known.type}>", target.type)
        key_cell, value_cell = target.inner
        key = self._value(known.key, MessageNode(WireOp.BOOL, key_cell, f"{path}.key", 1), key_cell)
        value = self._value(known.type, MessageNode(WireOp.BOOL, value_cell, f"{path}.value", 2), value_cell)
        self.nodes[at] = replace(node, inner=(key, value))
        return at

    def _value(self, name: str, place: MessageNode, cell: int) -> int:
        """Add a value of a type into a cell, which is inside of the node's if that is a list."""
        target = self.cells[cell].type
        if name in self.schema.messages and target.word == "STRUCT":
            return self.message(self.schema.messages[name], replace(place, op=WireOp.MESSAGE), cell)
        if name in WRAPPERS and name in self.schema.messages:
            at, (wrapped,) = self._place(), self.schema.messages[name].fields
            inner = self._value(wrapped.type, MessageNode(WireOp.BOOL, cell, place.path, 1), cell)
            self.nodes[at] = replace(place, op=WireOp.WRAPPER, inner=(inner,))
            return at
        if name == TIMESTAMP and target == TIMESTAMP_COLUMN:
            return self._add(replace(place, op=WireOp.TIMESTAMP))
        if name in self.schema.enums:
            return self._enum(name, place, target)
        reads, writes = (False, False) if name in self.schema.messages else _fits(name, target)
        if not reads:
            why = f"{place.path} is {name}, and column {place.path} is {target}{_cure(name)}"
            self.unread.append(Misfit(place.path, why))
        elif _is_narrow(name, target):
            self.doubts.append(Misfit(place.path, f"a record whose {place.path} is beyond {target} is bad"))
        if not writes:
            self._unwritten(place.path, name, target)
        return self._add(replace(place, op=_OPS.get(name, WireOp.MESSAGE)))

    def _enum(self, name: str, place: MessageNode, target: SparkType) -> int:
        numbers = self.schema.enums[name].numbers
        if is_text(target):
            why = f"a record whose {place.path} is a number that enum {name} has no name for is bad"
            self.doubts.append(Misfit(place.path, why))
            return self._add(replace(place, op=WireOp.ENUM, symbols=tuple(numbers), numbers=tuple(numbers.values())))
        if target not in INTEGRAL[-2:]:
            return self._misfit(place, f"enum {name}", target)
        if target == BIGINT:
            self._unwritten(place.path, f"enum {name}", target)
        return self._add(replace(place, op=WireOp.INT32))

    def _misfit(self, place: MessageNode, what: str, target: SparkType) -> int:
        self.unread.append(Misfit(place.path, f"{place.path} is {what}, and column {place.path} is {target}"))
        self._unwritten(place.path, what, target)
        return self._add(place)

    def _unwritten(self, path: str, what: str, target: SparkType) -> None:
        why = f"column {path} is {target}, and field {path} is {what}, which does not take all of it"
        self.unwritten.append(Misfit(path, why))

    def _add(self, node: MessageNode) -> int:
        if len(self.nodes) == MOST_NODES:
            message = f"message {self.schema.message} and the columns have more than {MOST_NODES} parts in common"
            raise ExpressionError(SqlFinding(Reason.SCHEMA_INVALID, f"{message}; declare fewer columns"))
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _place(self) -> int:
        return self._add(MessageNode(WireOp.BOOL, 0))


def _fits(name: str, target: SparkType) -> tuple[bool, bool]:
    """Whether a column takes all values of a scalar, and the scalar all values of the column.

    Numbers without a sign are judged one by one.
    """
    integral, floating = target in INTEGRAL, target in (FLOAT, DOUBLE)
    if name in _INT32:
        return integral or floating, integral and target != BIGINT
    if name in _INT64:
        return target == BIGINT or floating, integral
    if name in _UINT32:
        return target == BIGINT or floating, integral
    if name in _UINT64:
        wide = target.word == "DECIMAL" and target.digits[1] == 0 and target.digits[0] >= _MOST_DIGITS
        return target == BIGINT or wide, integral or wide
    if name == "string":
        return is_text(target) or target == BINARY, is_text(target)
    same = {"bool": BOOLEAN, "float": FLOAT, "double": DOUBLE, "bytes": BINARY}[name]
    return target == same or (name == "float" and target == DOUBLE), target == same or (
        name == "double" and target == FLOAT
    )


def _is_narrow(name: str, target: SparkType) -> bool:
    """Whether a column of whole numbers takes some values of a scalar alone."""
    words, whole = [str(kind) for kind in INTEGRAL], WORDS[name]
    return str(target) in (words[: words.index(whole)] if whole in words else words)


def _cure(name: str) -> str:
    """Return what to declare for a value of this type."""
    return f"; declare it as {WORDS[name]}" if name in WORDS else ""
