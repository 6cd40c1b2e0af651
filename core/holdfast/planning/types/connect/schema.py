"""Schemas of Kafka Connect as values, read from the JSON that its converter writes before each record.

What a type means beyond its bytes is its name (`io.debezium.time.Date`). Versions, docs and defaults are left out: a
default is written where a value is missing. Must not know columns.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn

from holdfast.planning.problems import excerpt

_DEEPEST = 100


class ConnectKind(Enum):
    """What a value is in JSON; the values are those of the converter."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT = "float"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class ConnectType:
    """A type, with what its kind needs."""

    kind: ConnectKind
    meaning: str = ""
    """The name of the type: of a struct anything, of other kinds what their values mean."""
    scale: int = 0
    """Of a decimal."""
    precision: int | None = None
    """Of a decimal, if it is known."""
    fields: tuple[tuple[str, "ConnectType"], ...] = ()
    inner: tuple["ConnectType", ...] = ()
    """The element of an array, the key and the value of a map."""

    def __str__(self) -> str:
        """How messages call it."""
        if self.kind is ConnectKind.ARRAY:
            return f"array of {self.inner[0]}"
        if self.kind is ConnectKind.MAP:
            return f"map of {self.inner[0]} to {self.inner[1]}"
        return f"{self.kind.value} ({self.meaning})" if self.meaning else self.kind.value


class ConnectSchemaError(ValueError):
    """A tree is no schema of Kafka Connect; the message says why."""


def connect_type(tree: object) -> ConnectType:
    """Return the type that a tree of JSON describes; raise `ConnectSchemaError` if it describes none."""
    return _type(tree, "the schema", 0)


def _type(tree: object, where: str, depth: int) -> ConnectType:
    word = tree.get("type") if isinstance(tree, dict) else None
    if not isinstance(tree, dict) or word not in _WORDS:
        _refuse(f"{where} has {excerpt(str(word if isinstance(tree, dict) else tree))} where a type should be")
    if depth > _DEEPEST:
        _refuse(f"{where} has types inside of each other on more than {_DEEPEST} levels")
    kind, name = ConnectKind(word), tree.get("name")
    meaning = name if isinstance(name, str) else ""
    match kind:
        case ConnectKind.STRUCT:
            return ConnectType(kind, meaning, fields=_fields(tree.get("fields"), where, depth))
        case ConnectKind.ARRAY:
            return ConnectType(kind, meaning, inner=(_type(tree.get("items"), f"{where}, items", depth + 1),))
        case ConnectKind.MAP:
            inner = [_type(tree.get(part), f"{where}, {part}", depth + 1) for part in ("keys", "values")]
            return ConnectType(kind, meaning, inner=tuple(inner))
        case _:
            parameters = tree.get("parameters")
            numbers = parameters if isinstance(parameters, dict) else {}
            scale, precision = _number(numbers, "scale"), _number(numbers, "connect.decimal.precision")
            return ConnectType(kind, meaning, scale or 0, precision)


def _fields(trees: object, where: str, depth: int) -> tuple[tuple[str, ConnectType], ...]:
    if not isinstance(trees, list):
        _refuse(f"{where} is a struct without a list of fields")
    fields: dict[str, ConnectType] = {}
    for tree in trees:
        name = tree.get("field") if isinstance(tree, dict) else None
        if not isinstance(name, str) or name in fields:
            _refuse(f"{where} has a field {excerpt(str(name))}; fields have names, and differ")
        fields[name] = _type(tree, f"field {name}", depth + 1)
    return tuple(fields.items())


def _number(parameters: dict[Any, Any], name: str) -> int | None:
    """Return a parameter, which is a number as text."""
    text = parameters.get(name)
    if not isinstance(text, str) or not text.removeprefix("-").isdecimal() or len(text) > _DIGITS:
        return None
    return int(text)


def _refuse(message: str) -> NoReturn:
    raise ConnectSchemaError(message)


_WORDS = [kind.value for kind in ConnectKind]
_DIGITS = 6
