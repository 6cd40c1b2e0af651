"""The fields of a schema one by one, as people compare them with the columns of a stream.

Must not judge: the modules of a format say what fits.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.planning.types.avro.program import VALUE
from holdfast.planning.types.avro.reading import column_word
from holdfast.planning.types.avro.schema import AvroField, AvroKind, AvroSchema
from holdfast.planning.types.json_schema import JsonSchema
from holdfast.planning.types.protobuf.columns import WORDS
from holdfast.planning.types.protobuf.schema import Presence, ProtoField, ProtoSchema


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field of the records of a schema."""

    name: str
    type: str
    """As its format says it."""
    column: str | None = None
    """The type of the column that is its own, where one type is: another that takes its values is wider."""
    filled: str | None = None
    """What is written where no column is; None: it needs one."""


def avro_fields(schema: AvroSchema) -> tuple[SchemaField, ...]:
    """Return the fields of a record; a record that is a single value has the field `value`."""
    root = schema.resolved(schema.root)
    fields = root.fields if root.kind is AvroKind.RECORD else (AvroField(VALUE, root),)
    return tuple(_avro_field(schema, known) for known in fields)


def _avro_field(schema: AvroSchema, known: AvroField) -> SchemaField:
    kind = schema.resolved(known.type)
    branches = [schema.resolved(branch) for branch in kind.inner] if kind.kind is AvroKind.UNION else [kind]
    values = [branch for branch in branches if branch.kind is not AvroKind.NULL]
    filled = None
    if known.default is not None:
        filled = f"default {json.dumps(known.default.value, ensure_ascii=False)}"
    elif len(values) < len(branches) and kind.kind is AvroKind.UNION:
        filled = "null"
    return SchemaField(known.name, str(kind), column_word(values[0]) if len(values) == 1 else None, filled)


def protobuf_fields(schema: ProtoSchema) -> tuple[SchemaField, ...]:
    """Return the fields of the message that records are."""
    return tuple(map(_protobuf_field, schema.root.fields))


def _protobuf_field(known: ProtoField) -> SchemaField:
    filled = None if known.presence is Presence.REQUIRED else "left out"
    if known.key:
        return SchemaField(known.name, f"map<{known.key}, {known.type}>", filled=filled)
    if known.presence is Presence.REPEATED:
        return SchemaField(known.name, f"repeated {known.type}", filled=filled)
    return SchemaField(known.name, known.type, WORDS.get(known.type), filled)


def json_fields(schema: JsonSchema) -> tuple[SchemaField, ...]:
    """Return the members that an object's schema names."""
    return tuple(
        SchemaField(name, _json_type(types), filled=None if name in schema.required else "left out")
        for name, types in schema.types.items()
    )


def _json_type(types: Iterable[str]) -> str:
    return " or ".join(sorted(types)) or "any"
