"""How rows are written as records of an Avro schema: each column into the field of its name.

A field without a column is written with its default, or as null where it may be. Must not accept what could be read as
something else: a column needs a field that takes all of its values.
"""

from dataclasses import dataclass, replace

from holdfast.planning.types.avro.node_builder import NodeBuilder
from holdfast.planning.types.avro.program import OPS, SKIPPED, VALUE, AvroProgram, Node, Op
from holdfast.planning.types.avro.reading import CLOCK_NANOS, TIMES
from holdfast.planning.types.avro.schema import AvroField, AvroKind, AvroSchema, AvroType
from holdfast.planning.types.avro.values import default_bytes, whole
from holdfast.planning.types.misfits import Misfit, MisfitKind
from holdfast.planning.types.spark_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INTEGRAL,
    VOID,
    RowType,
    SparkType,
    inside,
    is_text,
)
from holdfast.suggest import did_you_mean


@dataclass(frozen=True, slots=True)
class Writing:
    """How rows become records of a schema, and what is in the way."""

    program: AvroProgram
    misfits: tuple[Misfit, ...] = ()
    """Columns that no field takes, and fields that are neither a column nor have a default: why."""


def writing(schema: AvroSchema, rows: RowType) -> Writing:
    """Return how rows of these columns, whose types must be known, become records of the schema."""
    builder = _Builder(schema, rows)
    root = schema.resolved(schema.root)
    if root.kind is AvroKind.RECORD:
        builder.node(root, 0, "")
    elif rows.names == (VALUE,):
        builder.nodes.append(Node(Op.RECORD, 0, (1,)))
        builder.node(root, builder.cells[0].inner[0], VALUE)
    else:
        why = f"records are a single {root}, which is written from one column with the name {VALUE}"
        builder.misfits.append(Misfit(VALUE, why, MisfitKind.NO_COLUMN))
    return Writing(builder.program, tuple(builder.misfits))


class _Builder(NodeBuilder):
    """Adds the nodes that write."""

    def value(self, kind: AvroType, cell: int, path: str) -> Node:
        """Return the node of a type without parts, or of one that does not fit its cell."""
        target = self.cells[cell].type
        made = _value(kind, target)
        if made is None:
            why = f"column {path} is {target}, and field {path} is {kind}, which does not take all of it"
            self.misfits.append(Misfit(path, why))
        return replace(made or Node(Op.NULL), cell=cell, path=path)

    def record(self, kind: AvroType, cell: int, path: str) -> int:
        """Add a record: fields from the cells of their names, or their defaults."""
        at, target = self.place(), self.cells[cell]
        inner_cells = dict(zip(target.type.names, target.inner, strict=True))
        inner = tuple(
            self.node(known.type, inner_cells.pop(known.name), inside(path, known.name))
            if known.name in inner_cells
            else self._default(known, inside(path, known.name))
            for known in kind.fields
        )
        names = [known.name for known in kind.fields]
        self.misfits += [
            Misfit(
                inside(path, name),
                f"column {inside(path, name)} is no field of {kind.name}{did_you_mean(name, names)}",
                MisfitKind.NO_FIELD,
            )
            for name in inner_cells
        ]
        self.nodes[at] = Node(Op.RECORD, cell, inner, path)
        return at

    def union(self, kind: AvroType, cell: int, path: str) -> int:
        """Add a union: nulls and values each have their branch."""
        at = self.place()
        branches = [self.schema.resolved(branch).kind for branch in kind.inner]
        null_branch = branches.index(AvroKind.NULL) if AvroKind.NULL in branches else -1
        before = len(self.misfits)
        for number, branch in enumerate(kind.inner):
            if number == null_branch:
                continue
            inner = self.node(branch, cell, path)
            if len(self.misfits) == before:
                self.nodes[at] = Node(Op.UNION, cell, (inner,), path, branch=number, null_branch=null_branch)
                return at
            del self.misfits[before:]
        target = self.cells[cell].type
        if target.word != "VOID" or null_branch < 0:
            why = f"column {path} is {target}, and no branch of field {path}, {kind}, takes all of it"
            self.misfits.append(Misfit(path, why))
        self.nodes[at] = Node(Op.CONSTANT, SKIPPED, path=path, constant=whole(max(null_branch, 0)))
        return at

    def _default(self, known: AvroField, path: str) -> int:
        kind, default = self.schema.resolved(known.type), known.default
        branches = [self.schema.resolved(branch).kind for branch in kind.inner]
        if default is None and kind.kind is AvroKind.UNION and AvroKind.NULL in branches:
            written: bytes | None = whole(branches.index(AvroKind.NULL))
        else:
            written = None if default is None else default_bytes(self.schema, kind, default.value)
        if written is None:
            lack = "no default" if default is None else "a default that does not fit it"
            why = f"field {path} is {kind}, and has {lack}: no column is called {known.name}"
            self.misfits.append(Misfit(path, why, MisfitKind.NO_COLUMN))
        return self.add(Node(Op.CONSTANT, SKIPPED, path=path, constant=written or b""))


def _value(kind: AvroType, target: SparkType) -> Node | None:
    """Return the node of a type without parts for values of this column type, if it takes all of them."""
    op = OPS[kind.kind]
    if kind.kind in (AvroKind.INT, AvroKind.LONG):
        return _number(kind, target)
    if kind.logical == "decimal":
        if target.word != "DECIMAL":
            return None
        more = kind.digits[1] - target.digits[1]
        whole_digits = kind.digits[0] - kind.digits[1] - (target.digits[0] - target.digits[1])
        return Node(op, factor=more, size=kind.size) if more >= 0 and whole_digits >= 0 else None
    fits = target in _TAKEN.get(kind.kind, ()) or (kind.kind in (AvroKind.STRING, AvroKind.ENUM) and is_text(target))
    return Node(op, size=kind.size, symbols=kind.symbols) if fits else None


_TAKEN = {
    AvroKind.NULL: (VOID,),
    AvroKind.BOOLEAN: (BOOLEAN,),
    AvroKind.FLOAT: (FLOAT,),
    AvroKind.DOUBLE: (FLOAT, DOUBLE),
    AvroKind.BYTES: (BINARY,),
    AvroKind.FIXED: (BINARY,),
}
"""The columns whose values a type takes as they are."""


def _number(kind: AvroType, target: SparkType) -> Node | None:
    op = OPS[kind.kind]
    if kind.logical in TIMES and target == TIMES[kind.logical][0]:
        return Node(op, factor=-TIMES[kind.logical][1] if TIMES[kind.logical][1] != 1 else 1)
    if kind.logical in CLOCK_NANOS and target.word == "TIME":
        return Node(op, factor=-CLOCK_NANOS[kind.logical])
    if target in INTEGRAL and (kind.kind is AvroKind.LONG or target != BIGINT):
        return Node(op)
    return None
