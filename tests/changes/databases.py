"""A database whose operations are drawn, with the records that Debezium writes of them: the model of what is read.

Envelopes are made by hand, by Python's `json` and `fastavro`, from the statements of Debezium's documentation.
"""

import base64
import io
import json
import struct
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

import fastavro
from hypothesis import strategies as st

from holdfast.planning.types.avro.schema import AvroSchema, parse_avro
from tests.changes.records import Record

Form = Literal["wrapped", "bare", "payload first", "with blanks", "avro"]
FORMS: tuple[Form, ...] = ("wrapped", "bare", "payload first", "with blanks")
COLUMNS = "id BIGINT, part STRING, name STRING, price DECIMAL(12,2), at TIMESTAMP, day DATE, more INT"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
Row = dict[str, Any]
_NAMES = ["id", "part", "name", "price", "at", "day"]


@dataclass
class Database:
    """Its one table, and the records of its changes."""

    form: Form
    wide: bool = False
    """Whether the table has the column that was added."""
    table: dict[tuple[int, str], Row] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    schemas: dict[int, AvroSchema] = field(default_factory=dict)
    ids: dict[int, int] = field(default_factory=dict)
    """What a real registry calls the schemas of its key, its rows and its wider rows, which are 1, 2 and 3."""

    def write(self, row: Row, op: str) -> None:
        """Write a row: c, u, or r of a snapshot."""
        row = row if self.wide else row | {"more": None}
        key = (row["id"], row["part"])
        before = self.table.get(key) if op == "u" and len(row["name"] or "") % 2 else None
        self.table[key] = row
        self.records.append((self._key(key), self._value(before, row, op)))

    def delete(self, key: tuple[int, str], *, envelope: bool, tombstone: bool) -> None:
        """Delete a row; of a compacted topic, only the record without a value may be left."""
        before = self.table.pop(key, None)
        if envelope:
            self.records.append((self._key(key), self._value(before, None, "d")))
        if tombstone or not envelope:
            self.records.append((self._key(key), None))

    def _key(self, key: tuple[int, str]) -> bytes:
        tree = dict(zip(("id", "part"), key, strict=True))
        if self.form == "avro":
            return self._framed(1, AVRO_KEY, tree)
        return _json(self.form, _struct([_field("id", "int64"), _field("part", "string")]), tree)

    def _value(self, before: Row | None, after: Row | None, op: str) -> bytes:
        names = [*_NAMES, *(["more"] if self.wide else [])]
        if self.form == "avro":
            old, new = (None if row is None else _as_avro(row, names) for row in (before, after))
            return self._framed(3 if self.wide else 2, avro_envelope(wide=self.wide), _tree(old, new, op))
        old, new = (None if row is None else _written(row, names, self.form) for row in (before, after))
        return _json(self.form, envelope_schema(wide=self.wide), _tree(old, new, op))

    def _framed(self, number: int, schema: Any, tree: Any) -> bytes:
        self.schemas.setdefault(number, parse_avro(json.dumps(schema)))
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), tree)
        return struct.pack(">bI", 0, self.ids.get(number, number)) + out.getvalue()


def _tree(before: Any, after: Any, op: str) -> dict[str, Any]:
    source = {"connector": "postgresql", "snapshot": "true" if op == "r" else "false", "ts_ms": 5}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 6}


def _written(row: Row, names: list[str], form: Form) -> Row:
    """A row as JSON has it; without schemas as connectors can be told to write: texts for numbers and times."""
    price, at, day = row["price"], row["at"], row["day"]
    if form == "bare":
        written = {
            "price": None if price is None else f"{price:.2f}",
            "at": None if at is None else at.isoformat(),
            "day": None if day is None else day.isoformat(),
        }
    else:
        unscaled = None if price is None else int(price.scaleb(2))
        size = 0 if unscaled is None else (unscaled + (unscaled < 0)).bit_length() // 8 + 1
        written = {
            "price": None
            if unscaled is None
            else base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode(),
            "at": None if at is None else (at - EPOCH) // MICROSECOND,
            "day": None if day is None else (day - EPOCH.date()).days,
        }
    return {name: written.get(name, row[name]) for name in names}


def _json(form: Form, schema: Any, payload: Any) -> bytes:
    match form:
        case "bare":
            tree = payload
        case "payload first":
            tree = {"payload": payload, "schema": schema}
        case _:
            tree = {"schema": schema, "payload": payload}
    separators = (" , ", " : ") if form == "with blanks" else (",", ":")
    return json.dumps(tree, separators=separators, ensure_ascii=form == "with blanks").encode()


def _field(name: str, kind: str, meaning: str | None = None, **parameters: str) -> dict[str, Any]:
    named = {"name": meaning, "version": 1} if meaning else {}
    return {"type": kind, "optional": True, "field": name, **named} | ({"parameters": parameters} if parameters else {})


def _struct(fields: list[dict[str, Any]], **more: str) -> dict[str, Any]:
    return {"type": "struct", "fields": fields, "optional": True, **more}


def envelope_schema(*, wide: bool) -> dict[str, Any]:
    """The schema of Kafka Connect around rows of the table."""
    fields = [
        _field("id", "int64"),
        _field("part", "string"),
        _field("name", "string"),
        _field("price", "bytes", "org.apache.kafka.connect.data.Decimal", scale="2"),
        _field("at", "int64", "io.debezium.time.MicroTimestamp"),
        _field("day", "int32", "io.debezium.time.Date"),
        *([_field("more", "int16")] if wide else []),
    ]
    rows = [_struct(fields, name="p.t.Value", field=field) for field in ("before", "after")]
    source = _struct([_field("connector", "string"), _field("snapshot", "string"), _field("ts_ms", "int64")])
    return _struct([*rows, source | {"field": "source"}, _field("op", "string"), _field("ts_ms", "int64")])


AVRO_KEY: Any = {
    "type": "record",
    "name": "Key",
    "namespace": "p.t",
    "fields": [{"name": "id", "type": "long"}, {"name": "part", "type": "string"}],
}


def avro_envelope(*, wide: bool) -> Any:
    """The schema of Avro around rows of the table, as the converter of Kafka Connect makes it."""

    def null_or(kind: Any) -> list[Any]:
        return ["null", kind]

    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    fields = [
        {"name": "id", "type": "long"},
        {"name": "part", "type": "string"},
        {"name": "name", "type": null_or("string")},
        {"name": "price", "type": null_or(decimal)},
        {"name": "at", "type": null_or({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"})},
        {"name": "day", "type": null_or({"type": "int", "connect.name": "io.debezium.time.Date"})},
        *([{"name": "more", "type": null_or("int")}] if wide else []),
    ]
    row = {"type": "record", "name": "Value", "fields": fields}
    source = [
        {"name": "connector", "type": "string"},
        {"name": "snapshot", "type": null_or("string")},
        {"name": "ts_ms", "type": "long"},
    ]
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "p.t",
        "fields": [
            {"name": "before", "type": null_or(row), "default": None},
            {"name": "after", "type": null_or("Value"), "default": None},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": source}},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": null_or("long"), "default": None},
        ],
    }


def _as_avro(row: Row, names: list[str]) -> Row:
    """A row as `fastavro` takes it: what has no logical type of Avro is a number."""
    at, day = row["at"], row["day"]
    numbers = {
        "at": None if at is None else (at - EPOCH) // MICROSECOND,
        "day": None if day is None else (day - EPOCH.date()).days,
    }
    return {name: numbers.get(name, row[name]) for name in names}


_TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
_ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
        "part": st.sampled_from(["", "a", '"', "ä"]),
        "name": st.none() | _TEXTS,
        "price": st.none() | st.integers(-(10**12) + 1, 10**12 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
        "at": st.none() | st.datetimes(timezones=st.just(UTC)),
        "day": st.none() | st.dates(date(1, 1, 1)),
        "more": st.none() | st.integers(-(2**15), 2**15 - 1),
    }
)
_STEPS = st.lists(
    st.tuples(st.sampled_from(["c", "c", "u", "move", "delete", "widen", "form"]), _ROWS, st.integers(0, 30)),
    max_size=24,
)


@st.composite
def databases(draw: st.DrawFn, forms: tuple[Form, ...] = FORMS) -> Database:
    """A database after a snapshot and some operations; the form of records may change between them."""
    database = Database(draw(st.sampled_from(forms)))
    for row in draw(st.lists(_ROWS, max_size=5, unique_by=lambda row: (row["id"], row["part"]))):
        database.write(row, "r")
    for word, row, number in draw(_STEPS):
        known = sorted(database.table)
        at = known[number % len(known)] if known else None
        if word == "c":
            database.write(row, "c")
        elif word == "widen":
            database.wide = True
        elif word == "form":
            database.form = forms[number % len(forms)]
        elif at is not None and word == "u":
            database.write(row | dict(zip(("id", "part"), at, strict=True)), "u")
        elif at is not None and word == "move":
            # A change of the primary key is a delete and an insert.
            database.delete(at, envelope=True, tombstone=bool(number % 2))
            database.write(row, "c")
        elif at is not None:
            database.delete(at, envelope=bool(number % 3), tombstone=bool(number % 2))
    return database
