"""How records of an Avro schema are read into columns: by name, with the promotions of Avro's schema resolution.

Columns are Spark's, so a column that the schema lacks is null, and the caller says whether it may be. A value is taken
only if nothing of it is lost, but for fractions of a microsecond; a union may have branches that no column can take,
and a record with one of these is a bad one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast.planning.types.avro.connect_values import connect_cure, connect_node, connect_type
from holdfast.planning.types.avro.node_builder import NodeBuilder
from holdfast.planning.types.avro.program import OPS, SKIPPED, VALUE, AvroProgram, Node, Op
from holdfast.planning.types.avro.schema import AvroKind, AvroSchema, AvroType
from holdfast.planning.types.misfits import Misfit, MisfitKind
from holdfast.planning.types.spark_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGRAL,
    MAX_PRECISION,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    RowType,
    SparkType,
    inside,
    is_text,
)
from holdfast.suggest import did_you_mean

TIMES = {
    "timestamp-millis": (TIMESTAMP, 1_000),
    "timestamp-micros": (TIMESTAMP, 1),
    "timestamp-nanos": (TIMESTAMP, -1_000),
    "local-timestamp-millis": (TIMESTAMP_NTZ, 1_000),
    "local-timestamp-micros": (TIMESTAMP_NTZ, 1),
    "local-timestamp-nanos": (TIMESTAMP_NTZ, -1_000),
    "date": (DATE, 1),
}
"""The column type of a logical type, and by what its number is multiplied."""
CLOCK_NANOS = {"time-millis": 1_000_000, "time-micros": 1_000}


@dataclass(frozen=True, slots=True)
class Reading:
    """How records of a schema become rows, and what is in the way."""

    program: AvroProgram
    misfits: tuple[Misfit, ...] = ()
    """Fields whose values their column can't take: why."""
    absent: tuple[Misfit, ...] = ()
    """Columns, and fields inside them, that the schema lacks: which, with the nearest name."""
    doubts: tuple[Misfit, ...] = ()
    """Fields whose column takes some of their values alone: with which a record is bad."""


def reading(schema: AvroSchema, rows: RowType) -> Reading:
    """Return how records of the schema become rows of these columns, whose types must be known."""
    builder = _Builder(schema, rows)
    root = schema.resolved(schema.root)
    if root.kind is AvroKind.RECORD:
        builder.node(root, 0, "")
    else:
        builder.only_value(root)
    absent = tuple(Misfit(path, f"{path}{hint}", MisfitKind.NO_FIELD) for path, hint in builder.absent)
    return Reading(builder.program, tuple(builder.misfits), absent, tuple(builder.doubts))


class _Builder(NodeBuilder):
    """Adds the nodes that read."""

    def __init__(self, schema: AvroSchema, rows: RowType) -> None:
        super().__init__(schema, rows)
        self.absent: list[tuple[str, str]] = []
        """Columns and fields that no field fills, each with a hint."""
        self.doubts: list[Misfit] = []
        self._by_connect = bool(schema.resolved(schema.root).meaning)
        self._skipped: dict[str, int] = {}

    def only_value(self, kind: AvroType) -> None:
        """Read a record that is a single value, into the column `value`."""
        row = self.cells[0]
        at = self.place()
        inner, missing = [], []
        for name, cell in zip(row.type.names, row.inner, strict=True):
            if name == VALUE:
                inner.append(self.node(kind, cell, VALUE))
            else:
                missing.append(cell)
                self.absent.append((name, f": records are a single {kind}, which has the column {VALUE}"))
        inner = inner or [self._skip(kind, VALUE)]
        self.nodes[at] = Node(Op.RECORD, 0, tuple(inner), absent=tuple(missing))

    def value(self, kind: AvroType, cell: int, path: str) -> Node:
        """Return the node of a type without parts, or of one that does not fit its cell."""
        target = self.cells[cell].type
        has_meaning = kind.meaning or kind.kind is AvroKind.RECORD or (self._by_connect and not kind.logical)
        known = connect_type(kind) if has_meaning else None
        made = _value(kind, target) if known is None else connect_node(kind, known, target)
        if made is None:
            cure = _cure(kind) if known is None else connect_cure(known)
            self.misfits.append(Misfit(path, f"{path} is {kind}, and column {path} is {target}{cure}"))
            return Node(Op.MISFIT, path=path, misfit=f"{path} is {kind}, which {target} can't take")
        if known is None and (beyond := _beyond(kind, target)):
            self.doubts.append(Misfit(path, f"a record whose {path} is {beyond} is bad"))
        return replace(made, cell=cell, path=path)

    def record(self, kind: AvroType, cell: int, path: str) -> int:
        """Add a record: fields into the cells of their names."""
        at, target = self.place(), self.cells[cell]
        inner_cells = dict(zip(target.type.names, target.inner, strict=True))
        names = [known.name for known in kind.fields]
        inner = tuple(
            self.node(known.type, inner_cells[known.name], inside(path, known.name))
            if known.name in inner_cells
            else self._skip(known.type, inside(path, known.name))
            for known in kind.fields
        )
        lacking = {name: inner_cell for name, inner_cell in inner_cells.items() if name not in names}
        self.absent += [(inside(path, name), did_you_mean(name, names)) for name in lacking]
        self.nodes[at] = Node(Op.RECORD, cell, inner, path, absent=tuple(lacking.values()))
        return at

    def union(self, kind: AvroType, cell: int, path: str) -> int:
        """Add a union: at least one of its branches has to fit."""
        at = self.place()
        before_misfits, before_absent = len(self.misfits), len(self.absent)
        inner, fits = [], not kind.inner
        faults: list[Misfit] = []
        lacking: list[dict[str, str]] = []
        for branch in kind.inner:
            before_doubts = len(self.doubts)
            inner.append(self.node(branch, cell, path))
            misfits, self.misfits[before_misfits:] = self.misfits[before_misfits:], []
            if not misfits and branch.kind is not AvroKind.NULL:
                lacking.append(dict(self.absent[before_absent:]))
            del self.absent[before_absent:]
            if misfits and self.nodes[inner[-1]].op is not Op.MISFIT:
                self.nodes[inner[-1]] = Node(Op.MISFIT, path=path, misfit=misfits[0].why)
            if misfits:
                self.doubts[before_doubts:] = [Misfit(path, f"a record whose {path} is {branch} is bad")]
            faults += misfits
            fits |= not misfits and (branch.kind is not AvroKind.NULL or len(kind.inner) == 1)
        if not fits and faults and len([branch for branch in kind.inner if branch.kind is not AvroKind.NULL]) == 1:
            self.misfits += faults
        elif not fits:
            self.misfits.append(Misfit(path, f"{path} is {kind}, and column {path} is {self.cells[cell].type}"))
        # What only one of several branches lacks, another fills.
        if lacking:
            self.absent += [pair for pair in lacking[0].items() if all(pair[0] in hints for hints in lacking)]
        self.nodes[at] = Node(Op.UNION, cell, tuple(inner), path)
        return at

    def _skip(self, kind: AvroType, path: str) -> int:
        kind = self.schema.resolved(kind)
        if kind.name in self._skipped:
            return self._skipped[kind.name]
        at = self.place()
        if kind.name:
            self._skipped[kind.name] = at
        parts = (*(known.type for known in kind.fields), *kind.inner)
        inner = tuple(self._skip(part, path) for part in parts)
        self.nodes[at] = Node(OPS[kind.kind], SKIPPED, inner, path, size=kind.size, symbols=kind.symbols)
        return at


def _value(kind: AvroType, target: SparkType) -> Node | None:
    """Return the node of a type without parts for a column of this type, if it can take it."""
    op, word = OPS[kind.kind], target.word
    match kind.kind:
        case AvroKind.NULL:
            fits = True
        case AvroKind.BOOLEAN:
            fits = target == BOOLEAN
        case AvroKind.INT | AvroKind.LONG:
            return _number(kind, target)
        case AvroKind.FLOAT:
            fits = target in (FLOAT, DOUBLE)
        case AvroKind.DOUBLE:
            fits = target == DOUBLE
        case AvroKind.BYTES | AvroKind.FIXED if kind.logical == "decimal" and word == "DECIMAL":
            more = target.digits[1] - kind.digits[1]
            whole = target.digits[0] - target.digits[1] - (kind.digits[0] - kind.digits[1])
            return Node(op, factor=more, size=kind.size) if more >= 0 and whole >= 0 else None
        case AvroKind.FIXED:
            fits = target == BINARY
        case AvroKind.BYTES | AvroKind.STRING:
            fits = target == BINARY or (is_text(target) and kind.logical != "decimal")
        case AvroKind.ENUM:
            fits = is_text(target)
        case _:
            fits = False
    return Node(op, size=kind.size, symbols=kind.symbols) if fits else None


def _number(kind: AvroType, target: SparkType) -> Node | None:
    op = OPS[kind.kind]
    if kind.logical in TIMES and target == TIMES[kind.logical][0]:
        return Node(op, factor=TIMES[kind.logical][1])
    if kind.logical in CLOCK_NANOS and target.word == "TIME":
        return Node(op, factor=CLOCK_NANOS[kind.logical])
    narrow = INTEGRAL if kind.kind is AvroKind.INT else (BIGINT,)
    return Node(op) if target in narrow or target in (FLOAT, DOUBLE) else None


def _beyond(kind: AvroType, target: SparkType) -> str | None:
    """Return which values of a type a column does not take, though it takes others."""
    if target in INTEGRAL[:2]:
        return f"beyond {target}"
    return "no text in UTF-8" if kind.kind is AvroKind.BYTES and is_text(target) else None


def _cure(kind: AvroType) -> str:
    """Return what to declare for a value of this type."""
    word = column_word(kind)
    return f"; declare it as {word}" if word else ""


def column_word(kind: AvroType) -> str | None:
    """Return the column type that takes all values of a type without parts; None if none does."""
    if kind.logical in TIMES:
        return str(TIMES[kind.logical][0])
    if kind.logical in CLOCK_NANOS:
        return "TIME(6)"
    if kind.logical == "decimal":
        return f"DECIMAL({kind.digits[0]},{kind.digits[1]})" if kind.digits[0] <= MAX_PRECISION else None
    return _WORDS.get(kind.kind)


_WORDS: Mapping[AvroKind, str] = {
    AvroKind.NULL: "VOID",
    AvroKind.BOOLEAN: "BOOLEAN",
    AvroKind.INT: "INT",
    AvroKind.LONG: "BIGINT",
    AvroKind.FLOAT: "FLOAT",
    AvroKind.DOUBLE: "DOUBLE",
    AvroKind.BYTES: "BINARY",
    AvroKind.STRING: "STRING",
    AvroKind.FIXED: "BINARY",
    AvroKind.ENUM: "STRING",
}
