"""How values of Kafka Connect in JSON become columns: by name, each by what its type means.

A column that a schema lacks is null, as it was before the column was added, but for one that differs from a field only
in upper and lower case. Without a schema, what only a schema tells is refused: a count of microseconds must not become
one of milliseconds. Must not know values.
"""

from dataclasses import dataclass

from holdfast.planning.types.connect.meanings import Conversion, Way, columns_for, way_into
from holdfast.planning.types.connect.schema import ConnectKind, ConnectType
from holdfast.planning.types.ddl import typed_columns
from holdfast.planning.types.spark_types import STRING, VOID, RowType, SparkType, inside, is_text, struct


@dataclass(frozen=True, slots=True)
class ConnectNode:
    """What becomes of the values of a column, or of a part of one."""

    conversion: Conversion
    target: SparkType
    wire: SparkType | None
    """The type that values are read as; None of a column that is absent."""
    path: str
    factor: int = 1
    scale: int = 0
    inner: tuple["ConnectNode", ...] = ()
    """Of a row its fields, of items the element, of pairs the value."""

    @property
    def is_plain(self) -> bool:
        """Whether values are what they are read as."""
        return self.conversion is Conversion.NONE


@dataclass(frozen=True, slots=True)
class ConnectReading:
    """How records of a schema become rows, and what is in the way."""

    row: ConnectNode
    in_numbers: ConnectNode
    """The same where decimals are written as numbers, which a converter can be told to do."""
    misfits: tuple[str, ...] = ()
    """Fields whose values their column can't take: why."""


def connect_reading(kind: ConnectType, rows: RowType) -> ConnectReading:
    """Return how records of a type become rows of these columns, whose types must be known."""
    reader = _Reader()
    row, in_numbers = (reader.node(kind, _row(rows), "", in_numbers=numbers) for numbers in (False, True))
    return ConnectReading(row, in_numbers, tuple(dict.fromkeys(reader.misfits)))


def bare_reading(rows: RowType) -> ConnectReading:
    """Return how records without a schema become rows of these columns."""
    row, in_numbers = (_bare(_row(rows), "", in_numbers=numbers) for numbers in (False, True))
    return ConnectReading(row, in_numbers)


def _row(rows: RowType) -> SparkType:
    columns = typed_columns(rows)
    assert columns is not None, rows  # noqa: S101 - the caller has looked
    return struct(columns)


class _Reader:
    """Follows a type beside the columns."""

    def __init__(self) -> None:
        self.misfits: list[str] = []

    def node(self, kind: ConnectType, target: SparkType, path: str, *, in_numbers: bool) -> ConnectNode:
        if (way := way_into(kind, target)) is not None:
            return _leaf(way, kind, target, path, in_numbers=in_numbers)
        if kind.kind is ConnectKind.STRUCT and target.word == "STRUCT":
            return self._fields(kind, target, path, in_numbers=in_numbers)
        if kind.kind is ConnectKind.ARRAY and target.word == "ARRAY":
            element = self.node(kind.inner[0], target.inner[0], f"{path}[]", in_numbers=in_numbers)
            return _around(Conversion.ITEMS, target, path, (element,))
        if kind.kind is ConnectKind.MAP and target.word == "MAP" and _has_names(kind, target):
            value = self.node(kind.inner[1], target.inner[1], f"{path}[]", in_numbers=in_numbers)
            return _around(Conversion.PAIRS, target, path, (value,))
        fitting = columns_for(kind)
        cure = f"; declare it as {fitting}" if fitting else ""
        self.misfits.append(f"{path or 'the record'} is {kind}, and its column is {target}{cure}")
        return _absent(target, path)

    def _fields(self, kind: ConnectType, target: SparkType, path: str, *, in_numbers: bool) -> ConnectNode:
        types, inner = dict(kind.fields), []
        for name, column in zip(target.names, target.inner, strict=True):
            at = inside(path, name)
            if name in types:
                inner.append(self.node(types[name], column, at, in_numbers=in_numbers))
                continue
            other = next((field for field in types if field.casefold() == name.casefold()), None)
            if other is not None:
                self.misfits.append(f"{at} is called {other} there; write the column so, as names in JSON have case")
            inner.append(_absent(column, at))
        return _around(Conversion.ROW, target, path, tuple(inner))


def _leaf(way: Way, kind: ConnectType, target: SparkType, path: str, *, in_numbers: bool) -> ConnectNode:
    if in_numbers and way.conversion is Conversion.UNSCALED:
        return ConnectNode(Conversion.NONE, target, target, path)
    return ConnectNode(way.conversion, target, way.wire or target, path, way.factor, kind.scale)


def _has_names(kind: ConnectType, target: SparkType) -> bool:
    """Whether the keys of a map are names in JSON."""
    return kind.inner[0].kind is ConnectKind.STRING and is_text(target.inner[0])


def _absent(target: SparkType, path: str) -> ConnectNode:
    return ConnectNode(Conversion.ABSENT, target, None, path)


def _around(conversion: Conversion, target: SparkType, path: str, inner: tuple[ConnectNode, ...]) -> ConnectNode:
    """Return the node of a type with parts; what none of its parts changes is as it is."""
    if all(part.is_plain for part in inner):
        return ConnectNode(Conversion.NONE, target, target, path)
    wires = [(name, part.wire) for name, part in zip(target.names or inner, inner, strict=True)]
    match conversion:
        case Conversion.ROW:
            wire = struct((str(name), kind) for name, kind in wires if kind is not None)
        case Conversion.ITEMS:
            wire = SparkType("ARRAY", (inner[0].wire or VOID,))
        case _:
            wire = SparkType("MAP", (target.inner[0], inner[0].wire or VOID))
    return ConnectNode(conversion, target, wire, path, inner=inner)


def _bare(target: SparkType, path: str, *, in_numbers: bool) -> ConnectNode:  # noqa: PLR0911 - one per family of types
    match target.word:
        case "STRUCT":
            pairs = zip(target.names, target.inner, strict=True)
            inner = tuple(_bare(kind, inside(path, name), in_numbers=in_numbers) for name, kind in pairs)
            return _around(Conversion.ROW, target, path, inner)
        case "ARRAY":
            element = _bare(target.inner[0], f"{path}[]", in_numbers=in_numbers)
            return _around(Conversion.ITEMS, target, path, (element,))
        case "MAP" if is_text(target.inner[0]):
            value = _bare(target.inner[1], f"{path}[]", in_numbers=in_numbers)
            return _around(Conversion.PAIRS, target, path, (value,))
        case "TIMESTAMP" | "TIMESTAMP_NTZ":
            return ConnectNode(Conversion.ISO_MOMENT, target, STRING, path)
        case "DECIMAL" if not in_numbers:
            return ConnectNode(Conversion.POINTED, target, STRING, path)
        case "BINARY":
            return ConnectNode(Conversion.LETTERS, target, target, path)
        case "TIME" | "MAP":
            return ConnectNode(Conversion.ABSENT, target, VOID, path)
        case word if word.startswith("INTERVAL"):
            return ConnectNode(Conversion.ABSENT, target, VOID, path)
    return ConnectNode(Conversion.NONE, target, target, path)
