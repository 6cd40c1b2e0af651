"""Types and values of Kafka Connect as its converter for Avro writes them: made of those that it writes in JSON.

From the statements of the converter's documentation; `fastavro` writes the bytes, and knows no meanings.
"""

import base64
import io
import json
import struct
from collections.abc import Callable
from typing import Any

import fastavro

from holdfast.planning.types.avro.schema import AvroSchema, parse_avro
from holdfast_runtime.streams.stream_codecs import SchemaRecords
from tests.changes.records import Record

LOGICAL = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
    "org.apache.kafka.connect.data.Decimal": "decimal",
}
WORDS = {"int8": "int", "int16": "int", "int32": "int", "int64": "long"}


class OneId:
    """A registry with one schema."""

    framed = True

    def __init__(self, tree: Any) -> None:
        self._schema = parse_avro(json.dumps(tree))

    def schema(self, number: int, /) -> AvroSchema | str:
        return self._schema if number == 1 else f"there is no schema {number}"


def avro_type(tree: dict[str, Any], *, named: bool = True, place: str = "V") -> Any:
    """The type, which may be null; without what values mean if not `named`."""
    return ["null", _avro(tree, named=named, place=place)]


def _avro(tree: dict[str, Any], *, named: bool, place: str) -> Any:
    word, name = tree["type"], tree.get("name")
    meant: dict[str, Any] = {"connect.name": name} if name and named else {}
    if word in ("int8", "int16") and named:
        meant["connect.type"] = word
    match word:
        case "struct":
            fields = [
                {"name": field["field"], "type": _field(field, name, named=named, place=f"{place}_{field['field']}")}
                for field in tree["fields"]
            ]
            return {"type": "record", "name": name or f"p.{place}", "fields": fields, **meant}
        case "array":
            return {"type": "array", "items": avro_type(tree["items"], named=named, place=place), **meant}
        case "map":
            return {"type": "map", "values": avro_type(tree["values"], named=named, place=place), **meant}
    if name in LOGICAL and named:
        meant |= {"logicalType": LOGICAL[name], "connect.version": 1}
    if name in LOGICAL and LOGICAL[name] == "decimal" and named:
        parameters = tree["parameters"]
        precision = int(parameters.get("connect.decimal.precision", 64))
        meant |= {"scale": int(parameters["scale"]), "precision": precision, "connect.parameters": parameters}
    return {"type": WORDS.get(word, word), **meant}


def _field(field: dict[str, Any], record: str | None, *, named: bool, place: str) -> Any:
    """Fields of Debezium's own structs are never null."""
    made = avro_type(field, named=named, place=place)
    return made[1] if record and record.endswith("VariableScaleDecimal") else made


def avro_value(tree: dict[str, Any], value: Any) -> Any:
    """A value in JSON as `fastavro` takes it."""
    if value is None:
        return None
    match tree["type"]:
        case "struct":
            return {field["field"]: avro_value(field, value[field["field"]]) for field in tree["fields"]}
        case "array":
            return [avro_value(tree["items"], item) for item in value]
        case "map":
            return {key: avro_value(tree["values"], item) for key, item in value.items()}
    return _LEAVES.get(tree["type"], lambda leaf: leaf)(value)


_LEAVES: dict[str, Callable[[Any], Any]] = {"bytes": base64.b64decode, "float": float, "double": float}


def avro_records(tree: dict[str, Any], values: list[Any]) -> tuple[SchemaRecords, list[Record]]:
    """A registry, and records of changes whose rows have such values in the column v."""
    named, plain = (_envelope(tree, named=flag) for flag in (True, False))
    parsed, records = fastavro.parse_schema(plain), list[Record]()
    for value in values:
        out = io.BytesIO()
        after = {"id": 1, "v": avro_value(tree, value)}
        fastavro.schemaless_writer(out, parsed, {"after": after, "op": "c"})
        records.append((b'{"id":1}', struct.pack(">bI", 0, 1) + out.getvalue()))
    return SchemaRecords(OneId(named), None), records


def _envelope(tree: dict[str, Any], *, named: bool) -> Any:
    def record(name: str, **fields: Any) -> dict[str, Any]:
        meant = {"connect.name": name} if named else {}
        made = [{"name": field, "type": kind} for field, kind in fields.items()]
        return {"type": "record", "name": name, "fields": made, **meant}

    row = record("p.t.Value", id="int", v=avro_type(tree, named=named))
    return record("p.t.Envelope", after=["null", row], op="string")
