"""Avro schemas as values, parsed from JSON as the specification has it.

A type that is used again is named once and referred to by `NAMED`, so that types may contain themselves. What a schema
says beside its structure (docs, aliases, orders) is left out; a logical type that does not fit its type is ignored, as
the specification wants it. Must not know columns.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NoReturn

from holdfast import bounded_json
from holdfast.planning.problems import ExpressionError, SqlFinding, excerpt
from holdfast.reasons import Reason

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_HALF_PAIR = re.compile("[\\ud800-\\udfff]")
_MOST_BYTES = 512 << 10
MOST_LEVELS = 100
"""Types inside of each other, where names stand for what they name: programs walk over them, and records by these."""


class AvroKind(Enum):
    """What a type is in the bytes of a record."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"
    FIXED = "fixed"
    ENUM = "enum"
    RECORD = "record"
    ARRAY = "array"
    MAP = "map"
    UNION = "union"
    NAMED = "named"
    """A type that stands elsewhere under its name."""


@dataclass(frozen=True, slots=True)
class AvroType:
    """A type, with what its kind needs."""

    kind: AvroKind
    logical: str = ""
    """What its values mean, e.g. `timestamp-millis`."""
    name: str = ""
    """The full name of a record, enum or fixed, or the one referred to."""
    fields: tuple["AvroField", ...] = ()
    inner: tuple["AvroType", ...] = ()
    """The branches of a union, or the element of an array or map."""
    symbols: tuple[str, ...] = ()
    size: int = 0
    digits: tuple[int, int] = (0, 0)
    """Precision and scale of a decimal."""
    meaning: str = ""
    """How Kafka Connect calls what its values mean, e.g. `io.debezium.time.ZonedTimestamp`; of a record anything."""

    def __str__(self) -> str:
        """How messages call it."""
        if self.kind is AvroKind.UNION:
            return f"[{', '.join(map(str, self.inner))}]"
        if self.kind in (AvroKind.ARRAY, AvroKind.MAP):
            return f"{self.kind.value} of {self.inner[0]}"
        base = self.name if self.kind is AvroKind.NAMED else f"{self.kind.value} {self.name}".strip()
        if self.logical == "decimal":
            return f"decimal({self.digits[0]},{self.digits[1]}) in {base}"
        means = self.logical or (self.meaning if self.kind is not AvroKind.RECORD else "")
        return f"{base} ({means})" if means else base


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    default: "AvroDefault | None" = None


@dataclass(frozen=True, slots=True)
class AvroDefault:
    """The default of a field, as JSON has it."""

    value: Any = field(compare=False)


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema: its type, and the types that have names."""

    root: AvroType
    named: Mapping[str, AvroType] = field(default_factory=dict, compare=False, repr=False)

    def resolved(self, kind: AvroType) -> AvroType:
        """Return the type that a name refers to; another type is returned as it is."""
        return self.named[kind.name] if kind.kind is AvroKind.NAMED else kind


_PRIMITIVES = {
    kind.value: kind
    for kind in (
        AvroKind.NULL,
        AvroKind.BOOLEAN,
        AvroKind.INT,
        AvroKind.LONG,
        AvroKind.FLOAT,
        AvroKind.DOUBLE,
        AvroKind.BYTES,
        AvroKind.STRING,
    )
}
_LOGICAL = {
    "date": (AvroKind.INT,),
    "time-millis": (AvroKind.INT,),
    "time-micros": (AvroKind.LONG,),
    "timestamp-millis": (AvroKind.LONG,),
    "timestamp-micros": (AvroKind.LONG,),
    "timestamp-nanos": (AvroKind.LONG,),
    "local-timestamp-millis": (AvroKind.LONG,),
    "local-timestamp-micros": (AvroKind.LONG,),
    "local-timestamp-nanos": (AvroKind.LONG,),
    "decimal": (AvroKind.BYTES, AvroKind.FIXED),
}
"""The logical types that say something here, and the types they are of."""
_CONNECT_NAMES = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Time": "time-millis",
    "io.debezium.time.MicroTime": "time-micros",
    "io.debezium.time.Timestamp": "timestamp-millis",
    "io.debezium.time.MicroTimestamp": "timestamp-micros",
    "io.debezium.time.NanoTimestamp": "timestamp-nanos",
}
"""Debezium's names of what has a logical type, which the converter of Kafka Connect does not know."""


def parse_avro(text: str, referred: Iterable[str] = ()) -> AvroSchema:
    """Return the schema in this JSON; `referred`: schemas whose names it uses, each before those that use it.

    Raise `ExpressionError` if it is none.
    """
    reader = _Reader()
    for other in referred:
        reader.type(_json(other), "", "a schema it refers to")
    root = reader.type(_json(text), "", "the Avro schema")
    return AvroSchema(root, reader.named)


def _json(text: str) -> object:
    try:
        return bounded_json.load(text, most_bytes=_MOST_BYTES)
    except bounded_json.JsonTooBigError as error:
        _refuse(f"the Avro schema can't be used: {error}")
    except ValueError as error:
        if _FULL_NAME.fullmatch(text.strip()):
            return text.strip()
        _refuse(f"the Avro schema is no JSON: {error}")


def _refuse(message: str) -> NoReturn:
    raise ExpressionError(SqlFinding(Reason.SCHEMA_INVALID, message)) from None


class _Reader:
    """Reads the types of schemas, and remembers those with names."""

    def __init__(self) -> None:
        self.named: dict[str, AvroType] = {}
        self._open: set[str] = set()
        self._levels: dict[str, int] = {}

    def type(self, tree: object, space: str, where: str) -> AvroType:
        match tree:
            case str():
                return self._by_name(tree, space, where)
            case list():
                return self._union(tree, space, where)
            case {"type": dict() | list() as inner}:
                return self.type(inner, space, where)
            case {"type": str() as word, **rest}:
                return self._written(word, {str(name): value for name, value in rest.items()}, space, where)
        _refuse(f"{where} has {excerpt(str(tree))} where a type should be")

    def _written(self, word: str, tree: Mapping[str, Any], space: str, where: str) -> AvroType:
        """Return the type of an object whose `type` is this word."""
        if word in _PRIMITIVES:
            return _meant(AvroType(_PRIMITIVES[word]), tree)
        if word == "array":
            return AvroType(AvroKind.ARRAY, inner=(self.type(tree.get("items"), space, f"{where}, items"),))
        if word == "map":
            return AvroType(AvroKind.MAP, inner=(self.type(tree.get("values"), space, f"{where}, values"),))
        if word in ("record", "error", "enum", "fixed"):
            return self._named(word, tree, space, where)
        return self._by_name(word, space, where)

    def _by_name(self, word: str, space: str, where: str) -> AvroType:
        if word in _PRIMITIVES:
            return AvroType(_PRIMITIVES[word])
        for name in (word if "." in word or not space else f"{space}.{word}", word):
            if name in self.named or name in self._open:
                return AvroType(AvroKind.NAMED, name=name)
        _refuse(f"{where} has the type {excerpt(word)}, which is neither a type of Avro nor a name that stands before")

    def _union(self, branches: list[object], space: str, where: str) -> AvroType:
        kinds = tuple(self.type(branch, space, where) for branch in branches)
        if any(kind.kind is AvroKind.UNION for kind in kinds):
            _refuse(f"{where} has a union inside of a union; write all branches in one")
        names = [kind.name or kind.kind.value for kind in kinds]
        if len(set(names)) < len(names) or not names:
            _refuse(f"{where} has a union of {', '.join(names) or 'nothing'}; each type may stand there once")
        return AvroType(AvroKind.UNION, inner=kinds)

    def _named(self, word: str, tree: Mapping[str, Any], space: str, where: str) -> AvroType:
        name = _full_name(tree, space, where)
        if name in self.named or name in self._open:
            _refuse(f"{where} defines {name}, which stands before; refer to it by its name")
        if word == "fixed":
            size = tree.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
                _refuse(f"{where}: the size of fixed {name} is {excerpt(str(size))}; it must be a number of bytes")
            made = _meant(AvroType(AvroKind.FIXED, name=name, size=size), tree)
        elif word == "enum":
            symbols = tree.get("symbols")
            if not isinstance(symbols, list) or not symbols or not all(isinstance(x, str) for x in symbols):
                _refuse(f"{where}: enum {name} has no list of symbols")
            if any(_HALF_PAIR.search(symbol) for symbol in symbols):
                _refuse(f"{where}: enum {name} has a symbol with half a surrogate pair, which is no character")
            made = AvroType(AvroKind.ENUM, name=name, symbols=tuple(symbols))
        else:
            self._open.add(name)
            fields = self._fields(tree.get("fields"), name)
            made = AvroType(AvroKind.RECORD, name=name, fields=fields, meaning=_meaning(tree))
            self._open.discard(name)
            self._levels[name] = 1 + max((self._levels_of(known.type) for known in made.fields), default=0)
            if self._levels[name] > MOST_LEVELS:
                _refuse(f"{where}: record {name} has types inside of each other on more than {MOST_LEVELS} levels")
        self.named[name] = made
        return made

    def _levels_of(self, kind: AvroType) -> int:
        """How many types are inside of each other; a record that is still open is inside of itself, and has an end."""
        if kind.name:
            return self._levels.get(kind.name, 0)
        return 1 + max((self._levels_of(inner) for inner in kind.inner), default=0)

    def _fields(self, trees: object, record: str) -> tuple[AvroField, ...]:
        if not isinstance(trees, list):
            _refuse(f"record {record} has no list of fields")
        fields: dict[str, AvroField] = {}
        space = record.rpartition(".")[0]
        for tree in trees:
            name = tree.get("name") if isinstance(tree, dict) else None
            if not isinstance(name, str) or not _NAME.fullmatch(name) or name in fields:
                _refuse(
                    f"record {record} has a field {excerpt(str(name))}; names are letters, digits and _, and differ"
                )
            kind = self.type(tree.get("type"), space, f"field {name} of {record}")
            fields[name] = AvroField(name, kind, AvroDefault(tree["default"]) if "default" in tree else None)
        return tuple(fields.values())


def _full_name(tree: Mapping[str, Any], space: str, where: str) -> str:
    name, namespace = tree.get("name"), tree.get("namespace")
    if not isinstance(name, str) or not _FULL_NAME.fullmatch(name):
        _refuse(f"{where} has a type named {excerpt(str(name))}; names are letters, digits and _")
    if "." in name:
        return name
    space = namespace if isinstance(namespace, str) else space
    return f"{space}.{name}" if space else name


def _meant(kind: AvroType, tree: Mapping[str, Any]) -> AvroType:
    """Return the type with what its values mean, as far as that is known and fits."""
    kind = replace(kind, meaning=_meaning(tree))
    logical = tree.get("logicalType", _CONNECT_NAMES.get(kind.meaning))
    if not isinstance(logical, str) or kind.kind not in _LOGICAL.get(logical, ()):
        return kind
    if logical != "decimal":
        return replace(kind, logical=logical)
    precision, scale = tree.get("precision"), tree.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or precision < 1:
        return kind
    return replace(kind, logical=logical, digits=(precision, scale))


def _meaning(tree: Mapping[str, Any]) -> str:
    name = tree.get("connect.name")
    return name if isinstance(name, str) else ""
