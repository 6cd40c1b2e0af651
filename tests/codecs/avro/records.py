"""What the tests of Avro records share: codecs of a schema, records by fastavro, and rows as plain values."""

import io
import json
from typing import Any

import fastavro
import pyarrow as pa

from holdfast.planning.types.avro.columns import columns_of
from holdfast.planning.types.avro.schema import AvroSchema, parse_avro
from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.types.spark_types import RowType
from holdfast_runtime.streams.codecs import BadRecord, DecodedBatch
from holdfast_runtime.streams.codecs.avro import AvroCodec
from holdfast_runtime.streams.codecs.bare_values import bare
from holdfast_runtime.streams.codecs.record_schemas import OneSchema, WrittenSchema


class Registry:
    """Schemas by id; counts how often it is asked."""

    framed = True

    def __init__(self, **schemas: Any) -> None:
        self.schemas = {int(name.removeprefix("id")): parsed(tree) for name, tree in schemas.items()}
        self.asked_ids: list[int] = []

    def schema(self, number: int, /) -> AvroSchema | str:
        self.asked_ids.append(number)
        return self.schemas.get(number, f"its schema id {number} is not in the registry")


def parsed(tree: Any) -> AvroSchema:
    return parse_avro(json.dumps(tree))


def record_schema(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": tree} for name, tree in fields.items()]}


def framed(number: int, datum: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + datum


def codec_of(tree: Any, columns: str | RowType | None = None, *, frame: bytes = b"") -> AvroCodec:
    """The codec of records of one schema, which it also writes if the columns are those of the schema."""
    schema = parsed(tree)
    rows = parse_schema(columns) if isinstance(columns, str) else columns or columns_of(schema)
    return AvroCodec(rows, OneSchema(schema), WrittenSchema(schema, frame) if columns is None else None)


def by_fastavro(tree: Any, *records: Any) -> pa.BinaryArray:
    schema = fastavro.parse_schema(tree)

    def written(record: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, record)
        return out.getvalue()

    return pa.array([written(record) for record in records], pa.binary())


def bare_rows(rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The values of rows, and a check that the rows are whole."""
    rows.validate(full=True)
    return list(zip(*(bare(column) for column in rows.columns), strict=True)) if rows.num_columns else []


def reason(decoded: DecodedBatch) -> str:
    """Of the only record, which is bad."""
    (record,) = decoded.bad
    assert isinstance(record, BadRecord)
    assert not decoded.rows.num_rows
    return record.reason
