"""What a version of a schema does to an app before a registry has it: each column and field, and what is to know."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.planning.stream_columns import DEAD_LETTERS
from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.version_effects import Effect, Role, VersionEffect, carried, version_effects
from holdfast.spec.app import AppSpec
from holdfast_runtime.streams.codecs import DEAD_LETTER_SCHEMA, arrow_schema
from holdfast_runtime.streams.codecs.arrow_types import row_type

REGISTRY = {"bootstrapServers": "nowhere:9092", "registry": {"url": "http://nowhere"}}
ORDERS = {"schema": "id BIGINT, shop STRING, amount DOUBLE", "key": ["id"], "partitions": 1}
PROTO = 'syntax = "proto2"; enum Kind {{ NEW = 0; }} message Order {{ {} }}'


def avro(*fields: tuple[str, Any], **defaults: Any) -> str:
    trees = [
        {"name": name, "type": kind} | ({"default": defaults[name]} if name in defaults else {})
        for name, kind in fields
    ]
    return json.dumps({"type": "record", "name": "Order", "fields": trees})


FITTING = avro(("id", "long"), ("shop", ["null", "string"]), ("amount", "double"))


def spec(form: str = "avro", select: str = "*", **orders: Any) -> AppSpec:
    """An app that copies orders to large."""
    stream = {"name": "orders", "system": "here", "format": form, **ORDERS, **orders}
    kafka = {"bootstrapServers": "nowhere:9092"}
    return AppSpec.model_validate(
        {
            "systems": [{"name": "here", "kafka": REGISTRY}, {"name": "plain", "kafka": kafka}],
            "streams": [
                stream,
                {"name": "large", "system": "here", "format": form},
                {"name": "unread", "system": "here", "format": form},
                {"name": "unused", "system": "here", "format": form},
            ],
            "steps": [
                {"name": "all", "from": ["orders"], "select": [select]},
                {"name": "out", "from": ["all"], "to": "large"},
            ],
        }
    )


def effect(app: AppSpec, name: str, text: str) -> VersionEffect:
    (only,) = version_effects(app, name, text)
    return only


def shown(judged: VersionEffect) -> dict[str, tuple[str | None, str | None, Effect, str]]:
    return {field.path: (field.schema, field.column, field.effect, field.why) for field in judged.fields}


def test_a_version_that_fits_is_said_column_by_column() -> None:
    text = avro(("id", "int"), ("shop", ["null", "string", "long"]), ("amount", "double"), ("coupon", "string"))
    judged = effect(spec(), "orders", text)
    assert (judged.role, judged.subject, judged.refusal) == (Role.READ, "orders-value", None)
    assert shown(judged) == {
        "id": ("int", "BIGINT", Effect.WIDENED, ""),
        "shop": ("[null, string, long]", "STRING", Effect.DOUBTFUL, "a record whose shop is long is bad"),
        "amount": ("double", "DOUBLE", Effect.FITS, ""),
        "coupon": ("string", None, Effect.IGNORED, ""),
    }


def test_a_version_without_a_column_is_refused_with_its_cure() -> None:
    judged = effect(spec(), "orders", avro(("id", "string"), ("shp", "string"), ("amount", "double")))
    assert [path for path, row in shown(judged).items() if row[2] is Effect.REFUSED] == ["id", "shop"]
    assert judged.refusal == (
        "stream orders: the latest schema of subject orders-value does not fit the stream's columns: id is string, and "
        "column id is BIGINT; declare it as STRING; it has no shop; did you mean shp?; change the schema of the "
        "stream, or leave such columns out"
    )
    assert judged.notes == ("an attempt that runs goes on, and each record of this version is bad",)
    absent = effect(spec(), "orders", avro(("id", "long"), ("amount", "double")))
    assert absent.notes == ("an attempt that runs goes on, and what it lacks is null in its records",)


def test_parts_inside_columns_have_rows_of_their_own() -> None:
    inner = {"type": "record", "name": "Who", "fields": [{"name": "age", "type": "string"}]}
    judged = effect(spec(schema="id BIGINT, who STRUCT<name: STRING, age: INT>"), "orders",
                    avro(("id", "long"), ("who", inner)))  # fmt: skip
    assert [(field.path, field.effect) for field in judged.fields] == [
        ("id", Effect.FITS),
        ("who.age", Effect.REFUSED),
        ("who.name", Effect.REFUSED),
    ]


def test_a_key_of_another_type_names_the_trap() -> None:
    text = avro(("id", "int"), ("shop", "string"), ("amount", "double"))
    (note,) = effect(spec(), "orders", text).notes
    assert note.startswith("id is int and in the key: a key with a schema of its own begins with the id of that")
    assert effect(spec(partitioner="none"), "orders", text).notes == ()
    assert effect(spec(), "orders", FITTING).notes == ()


def test_versions_of_keys_are_judged_for_changes_alone() -> None:
    judged = effect(spec(), "orders-key", avro(("id", "string")))
    assert (judged.role, judged.subject, judged.refusal) == (Role.KEYS, "orders-key", None)
    assert "equal keys of two schemas lie in two partitions" in judged.notes[1]
    assert len(effect(spec(partitioner="none"), "orders-key", avro(("id", "string"))).notes) == 1
    changes = spec(changes="debezium")
    assert effect(changes, "orders-key", avro(("id", "long"))).refusal is None
    refusal = effect(changes, "orders-key", avro(("id", "long"), ("shop", "string"))).refusal
    assert refusal is not None
    assert refusal.startswith(
        "stream orders: the latest schema of subject orders-key does not fit: its key has id, shop"
    )


def test_changes_are_judged_inside_their_envelope() -> None:
    row = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}]}
    judged = effect(spec(changes="debezium", schema="id BIGINT, shop STRING"), "orders",
                    avro(("op", "string"), ("after", ["null", row])))  # fmt: skip
    assert [field.path for field in judged.fields if field.effect is Effect.REFUSED] == ["after.shop"]


def test_rows_that_are_written_need_each_field_filled() -> None:
    fields = ("id", "long"), ("shop", "string"), ("amount", "double"), ("source", "string"), ("by", ["null", "string"])
    judged = effect(spec(), "large", avro(*fields, source="web"))
    assert (judged.role, judged.refusal) == (Role.WRITTEN, None)
    assert shown(judged)["source"] == ("string", None, Effect.FILLED, 'default "web"')
    assert shown(judged)["by"] == ("[null, string]", None, Effect.FILLED, "null")
    needy = effect(spec(), "large", avro(*fields))
    assert shown(needy)["source"][2:] == (
        Effect.REFUSED,
        "field source is string, and has no default: no column is called source",
    )
    assert needy.refusal is not None
    assert "the rows do not fit the schema of subject large-value: field source is string" in needy.refusal
    assert needy.notes == ("an attempt that runs goes on, and writes with the schema that it began with",)
    lost = effect(spec(), "large", avro(("id", "long"), ("shop", "string")))
    assert shown(lost)["amount"][:3] == (None, "DOUBLE", Effect.REFUSED)


def test_a_type_that_spark_decides_is_left_open() -> None:
    app = spec(select="xpath(shop, 'a') AS id")
    judged = effect(app, "large", avro(("id", "string")))
    assert judged.refusal is None
    assert shown(judged) == {"id": ("string", None, Effect.UNKNOWN, "its type is known when the app runs")}
    refused = effect(app, "large", avro(("ident", "string"), ident=""))
    assert shown(refused)["id"][2] is Effect.REFUSED


def test_a_declared_or_made_schema_is_written_instead() -> None:
    tree = spec().model_dump(by_alias=True, exclude_none=True)
    for field, says in (({"schema": FITTING}, "avro.schema of the stream, and not"), ({"register": True}, "is true")):
        tree["streams"][1]["avro"] = field
        app = AppSpec.model_validate(tree)
        judged = effect(app, "large", avro(("id", "string")))
        assert (judged.refusal, judged.fields) == (None, ())
        assert says in judged.notes[0]
        assert effect(app, "large", FITTING).fields
    tree["steps"][0]["select"] = ["id", "NULL AS shop"]
    refusal = effect(AppSpec.model_validate(tree), "large", avro(("id", "string"))).refusal
    assert refusal is not None
    assert "shop is VOID, which Avro has no type for" in refusal


def test_members_of_other_types_make_records_bad() -> None:
    members = {"id": {"type": "string"}, "shop": {"type": ["string", "null"]}, "amount": {}, "coupon": {}}
    judged = effect(spec("json-schema"), "orders", json.dumps({"properties": members, "required": ["coupon"]}))
    assert judged.refusal is None
    assert shown(judged) == {
        "id": ("string", "BIGINT", Effect.DOUBTFUL, "a record whose id is string is bad where BIGINT does not take it"),
        "shop": ("null or string", "STRING", Effect.FITS, ""),
        "amount": ("any", "DOUBLE", Effect.FITS, ""),
        "coupon": ("any", None, Effect.IGNORED, ""),
    }
    written = effect(spec("json-schema"), "large", json.dumps({"properties": members, "required": ["coupon"]}))
    assert [path for path, row in shown(written).items() if row[2] is Effect.REFUSED] == ["id", "coupon"]


def test_messages_are_judged_by_the_fields_of_theirs() -> None:
    body = "required int64 id = 1; optional Kind shop = 2; repeated double amount = 3; required int32 by = 4;"
    judged = effect(spec("protobuf"), "orders", PROTO.format(body))
    assert [(path, row[0], row[2]) for path, row in shown(judged).items()] == [
        ("id", "int64", Effect.FITS),
        ("shop", "Kind", Effect.DOUBTFUL),
        ("amount", "repeated double", Effect.REFUSED),
        ("by", "int32", Effect.IGNORED),
    ]
    written = effect(spec("protobuf"), "large", PROTO.format(body))
    assert [path for path, row in shown(written).items() if row[2] is Effect.REFUSED] == ["amount", "by"]


def test_a_text_that_is_no_schema_is_refused() -> None:
    refusal = effect(spec(), "orders", "{").refusal
    assert refusal is not None
    assert refusal.startswith("subject orders-value has a schema that can't be used: the Avro schema is no JSON")


def test_a_stream_that_nothing_uses_takes_any_version() -> None:
    assert effect(spec(), "unused", FITTING) == VersionEffect("unused", "unused-value", Role.UNUSED)


def test_dead_letters_are_written_with_their_columns() -> None:
    app = spec(onDecodeError="DeadLetter", deadLetter="unread")
    judged = effect(app, "unread", avro(("reason", "string"), ("step", ["null", "string"])))
    assert judged.role is Role.WRITTEN
    assert shown(judged)["offset"][1:3] == ("BIGINT", Effect.REFUSED)
    assert row_type(DEAD_LETTER_SCHEMA) == DEAD_LETTERS


@pytest.mark.parametrize(
    ("name", "changed", "why"),
    [
        ("order", {}, "there is no stream order; did you mean orders?"),
        ("order-key", {}, "there is no stream order-key"),
        (
            "orders",
            {"system": "plain", "avro": {"schema": FITTING}},
            "system plain names none: its schema is avro.schema",
        ),
        ("orders", {"format": "json"}, "has format json, whose records have no schema"),
        ("orders", {"schema": None}, "the columns of stream orders are not known; `holdfast plan` says why"),
    ],
)
def test_a_stream_without_versions_is_said_with_the_cure(name: str, changed: dict[str, Any], why: str) -> None:
    with pytest.raises(UserActionError) as refused:
        version_effects(spec(**changed), name, FITTING)
    assert why in str(refused.value)
    assert refused.value.code == "UsageError"


TYPES = st.recursive(
    st.sampled_from(["INT", "VARCHAR(3)", "CHAR(2)", "STRING COLLATE UTF8_LCASE", "TIME(3)", "DECIMAL(9,2)", "BINARY"]),
    lambda inner: st.one_of(
        inner.map("ARRAY<{}>".format), inner.map("STRUCT<a: {}>".format), inner.map("MAP<CHAR(3), {}>".format)
    ),
    max_leaves=3,
)


@given(TYPES)
def test_rows_carry_the_types_that_arrow_has(kind: str) -> None:
    rows = parse_schema(f"a {kind}, b BIGINT")
    assert carried(rows) == row_type(arrow_schema(rows))
