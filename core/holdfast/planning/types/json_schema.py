"""JSON schemas, as far as they say which members an object has: the names, whether others may come, and simple types.

A column that no `properties` has may be a slip, so it is refused unless the schema says in words that others may come.
Must not judge values: records are read by their columns alone.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from holdfast import bounded_json
from holdfast.planning.problems import ExpressionError, SqlFinding
from holdfast.planning.types.ddl import typed_columns
from holdfast.planning.types.misfits import Misfit, MisfitKind
from holdfast.planning.types.spark_types import FRACTIONAL, INTEGRAL, RowType, SparkType
from holdfast.reasons import Reason
from holdfast.suggest import did_you_mean
from holdfast.trees import as_object

_MOST_BYTES = 512 << 10
_DIALECT = "http://json-schema.org/draft-07/schema#"
_SAME_OBJECT = ("allOf", "anyOf", "oneOf", "if", "then", "else")
"""Schemas in these are of the object itself."""
_OTHERS = ("additionalProperties", "unevaluatedProperties")


@dataclass(slots=True)
class JsonSchema:
    """The members of an object."""

    types: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Name -> the JSON types that its value may have; empty if that is not simply said."""
    others_come: bool = False
    """Whether it says that members with other names may come, or could be anywhere."""
    required: list[str] = field(default_factory=list)


def parse_json_schema(text: str) -> JsonSchema:
    """Return what a schema says; raise `ExpressionError` if it is none."""
    try:
        tree = bounded_json.load(text, most_bytes=_MOST_BYTES)
    except ValueError as error:
        message = f"the JSON schema is no JSON: {error}"
        raise ExpressionError(SqlFinding(Reason.SCHEMA_INVALID, message)) from None
    if not isinstance(tree, dict | bool):
        message = "the JSON schema is neither an object nor true or false"
        raise ExpressionError(SqlFinding(Reason.SCHEMA_INVALID, message))
    reader = _Reader(tree)
    reader.add(tree, sure=True)
    return reader.schema


class _Reader:
    """Adds the members that a schema, and those it refers to, say."""

    def __init__(self, root: object) -> None:
        self._root, self.schema = root, JsonSchema()
        self._referred: set[str] = set()
        self._untyped: set[str] = set()

    def add(self, tree: object, *, sure: bool) -> None:
        """Add what a schema of the object says; `sure`: every object meets it."""
        if not isinstance(tree, dict):
            self.schema.others_come |= tree is True
            return
        for name, member in as_object(tree.get("properties")).items():
            self._member(name, member)
        self.schema.others_come |= "patternProperties" in tree or any(tree.get(word, False) for word in _OTHERS)
        if sure and isinstance(required := tree.get("required"), list):
            self.schema.required += [name for name in required if isinstance(name, str)]
        for word in _SAME_OBJECT:
            parts = tree.get(word, [])
            for part in parts if isinstance(parts, list) else [parts]:
                if part is not True:
                    self.add(part, sure=sure and word == "allOf")
        if "$ref" in tree:
            self._refer(tree["$ref"], sure=sure)

    def _member(self, name: str, member: object) -> None:
        types = member.get("type") if isinstance(member, dict) else None
        words = {types} if isinstance(types, str) else {word for word in types or () if isinstance(word, str)}
        if not words or name in self._untyped:
            self._untyped.add(name)
            words = set()
            self.schema.types[name].clear()
        self.schema.types[name] |= words

    def _refer(self, reference: object, *, sure: bool) -> None:
        target = self._root if isinstance(reference, str) and reference.startswith("#") else None
        for part in str(reference).lstrip("#").split("/")[1:]:
            target = as_object(target).get(part.replace("~1", "/").replace("~0", "~"))
        if target is None:
            self.schema.others_come = True  # it is in another text
        elif str(reference) not in self._referred:
            self._referred.add(str(reference))
            self.add(target, sure=sure)


def absent_columns(schema: JsonSchema, rows: RowType) -> tuple[Misfit, ...]:
    """Return the columns that no object of the schema has, each with the nearest name."""
    if schema.others_come:
        return ()
    return tuple(
        Misfit(name, f"{name}{did_you_mean(name, schema.types)}", MisfitKind.NO_FIELD)
        for name in rows.names
        if name not in schema.types
    )


def doubtful_columns(schema: JsonSchema, rows: RowType) -> tuple[Misfit, ...]:
    """Return the columns, whose types must be known, that do not take all that the schema lets a member be."""
    doubts = []
    for name, kind in typed_columns(rows) or ():
        types = schema.types.get(name, set())
        if untaken := sorted(types - _taken_types(kind) - {"null"}):
            why = f"a record whose {name} is {' or '.join(untaken)} is bad where {kind} does not take it"
            doubts.append(Misfit(name, why))
    return tuple(doubts)


def _taken_types(kind: SparkType) -> set[str]:
    """Return the JSON types whose values a column takes, all of them or nearly."""
    if kind in FRACTIONAL:
        return {"integer", "number"}
    if kind in INTEGRAL or kind.word == "DECIMAL":
        return {"integer"}
    if kind.word == "VOID":
        return set()
    return {_JSON_TYPES.get(kind.word, "string"), *({"integer"} if kind.word.startswith("TIMESTAMP") else ())}


def unwritable_columns(schema: JsonSchema, rows: RowType) -> tuple[Misfit, ...]:
    """Return why objects of these columns, whose types must be known, would not meet the schema."""
    misfits = [
        Misfit(absent.path, f"no properties have column {absent}", MisfitKind.NO_FIELD)
        for absent in absent_columns(schema, rows)
    ]
    misfits += [
        Misfit(name, f"member {name} is required, and no column", MisfitKind.NO_COLUMN)
        for name in schema.required
        if name not in rows.names
    ]
    for name, kind in typed_columns(rows) or ():
        types = schema.types.get(name, set()) if name in schema.types else set()
        if types and kind.word != "VOID" and not types & _json_types(kind):
            why = f"column {name} is {kind}, and member {name} is {' or '.join(sorted(types))}"
            misfits.append(Misfit(name, why))
    return tuple(misfits)


def _json_types(kind: SparkType) -> set[str]:
    """Return the JSON types that take all values of a column."""
    if kind in INTEGRAL:
        return {"integer", "number"}
    return {_JSON_TYPES.get(kind.word, "string")}


_JSON_TYPES = {
    "BOOLEAN": "boolean",
    "FLOAT": "number",
    "DOUBLE": "number",
    "DECIMAL": "number",
    "ARRAY": "array",
    "STRUCT": "object",
    "MAP": "object",
}


def json_schema_of(rows: RowType, name: str) -> str:
    """Return the schema of objects that hold these columns; every member may be left out."""
    columns = typed_columns(rows)
    assert columns is not None, rows  # noqa: S101 - the caller has looked
    return json.dumps({"$schema": _DIALECT, "title": name, **_closed(columns)}, separators=(",", ":"))


def _closed(fields: Iterable[tuple[str, SparkType]]) -> dict[str, Any]:
    properties = {name: _tree(kind) for name, kind in fields}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _tree(kind: SparkType) -> dict[str, Any]:
    if kind.word == "STRUCT":
        return _closed(zip(kind.names, kind.inner, strict=True))
    if kind.word == "ARRAY":
        return {"type": "array", "items": _or_null(kind.inner[0])}
    if kind.word == "MAP":
        return {"type": "object", "additionalProperties": _or_null(kind.inner[1])}
    if kind in INTEGRAL:
        return {"type": "integer"}
    return {"type": _JSON_TYPES.get(kind.word, "string"), **_MEANT.get(kind.word, {})}


def _or_null(kind: SparkType) -> dict[str, Any]:
    tree = _tree(kind)
    return {**tree, "type": [tree["type"], "null"]}


_MEANT = {
    "DATE": {"format": "date"},
    "TIMESTAMP": {"format": "date-time"},
    "BINARY": {"contentEncoding": "base64"},
}
