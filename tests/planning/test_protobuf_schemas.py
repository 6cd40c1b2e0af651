"""Protobuf schemas: what their texts say, and which columns take which of their fields."""

from typing import Any

import pytest

from holdfast.planning.problems import ExpressionError
from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.types.protobuf.columns import columns_of
from holdfast.planning.types.protobuf.fields import meeting
from holdfast.planning.types.protobuf.schema import Presence, ProtoSchema
from holdfast.planning.types.protobuf.text import parse_proto
from holdfast.reasons import Reason
from tests.planning.apps import only, plan_of, step, stream

SHOP = """
syntax = "proto3"; // a comment; with { signs }
/* another
   one */
package shop.v1;
import "google/protobuf/timestamp.proto";
import public "money.proto";
option java_package = "a.b";
option (custom).part = { text: "}" list: [1, 2] };
message Order {
  option deprecated = true;
  string id = 1 [deprecated = true, (x.y) = {a: 1}, json_name = "ID"];
  optional int64 cents = 0x2;
  repeated int32 numbers = 3; repeated int32 apart = 4 [packed=false];
  repeated string words = 5;
  message Inner { bool ok = 1; message Inner { v1.Kind kind = 1; } Inner inner = 2; }
  Inner inner = 6;
  google.protobuf.Timestamp at = 7;
  oneof pay { option (y) = 1; string card = 8; .shop.v1.Order.Inner cash = 9; }
  reserved 10 to 20, 30 to max; reserved "foo"; extensions 100 to 199;
  Kind kind = 21; money.Price price = 22; string message = 23; string optional = 24;
  enum Size { option allow_alias = true; SMALL = 0; TINY = 0 [deprecated = true]; LOW = -1; }
  Size size = 25;
}
enum Kind { NEW = 0; reserved 5; OLD = 010; }
message Lines { map<string, Order> orders = 1; message Late {} }
extend google.protobuf.FieldOptions { string x = 50000; }
service Shop { rpc Buy (Order) returns (stream Lines) { option (a) = "x;"; } rpc Go (Order) returns (Order); }
"""
MONEY = """
syntax = "proto2"; package money;
message Price { required int64 units = 1; optional string code = 2 [default = "EUR"]; }
"""


def shop(message: str | None = None) -> ProtoSchema:
    return parse_proto(SHOP, [("money.proto", MONEY)], message)


def test_a_text_says_messages_and_where_they_are() -> None:
    schema = shop()
    assert schema.message == "shop.v1.Order"
    assert schema.places == {
        (0,): "shop.v1.Order",
        (0, 0): "shop.v1.Order.Inner",
        (0, 0, 0): "shop.v1.Order.Inner.Inner",
        (1,): "shop.v1.Lines",
    }
    fields = {known.name: known for known in schema.root.fields}
    assert [known.number for known in schema.root.fields] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 21, 22, 23, 24, 25]
    assert fields["inner"].type == fields["cash"].type == "shop.v1.Order.Inner"
    assert [fields[name].packed for name in ("numbers", "apart", "words")] == [True, False, False]
    assert [fields[name].choice for name in ("card", "cash", "kind")] == ["pay", "pay", ""]
    assert schema.enums["shop.v1.Kind"].numbers == {"NEW": 0, "OLD": 8}
    inner = schema.messages["shop.v1.Order.Inner"]
    assert inner.fields[1].type == "shop.v1.Order.Inner.Inner"
    price = schema.messages["money.Price"].fields
    assert [known.presence for known in price] == [Presence.REQUIRED, Presence.OPTIONAL]


def test_columns_are_the_fields_of_the_message() -> None:
    assert [f"{column.name} {column.type}" for column in columns_of(shop()).columns] == [
        "id STRING",
        "cents BIGINT",
        "numbers ARRAY<INT>",
        "apart ARRAY<INT>",
        "words ARRAY<STRING>",
        "inner STRUCT<ok: BOOLEAN, inner: STRUCT<kind: STRING>>",
        "at TIMESTAMP",
        "card STRING",
        "cash STRUCT<ok: BOOLEAN, inner: STRUCT<kind: STRING>>",
        "kind STRING",
        "price STRUCT<units: BIGINT, code: STRING>",
        "message STRING",
        "optional STRING",
        "size STRING",
    ]
    wrapped = 'import "google/protobuf/wrappers.proto"; import "google/protobuf/any.proto"; message M { '
    wrapped += "google.protobuf.UInt64Value u = 1; map<int32, google.protobuf.Any> m = 2; }"
    assert [column.type for column in columns_of(parse_proto(wrapped)).columns] == [
        "DECIMAL(20,0)",
        "MAP<INT, STRUCT<type_url: STRING, value: BINARY>>",
    ]


NONE: list[tuple[str, str]] = [
    ("", "has no message"),
    ("message", "has its end in line 1 where a name should be"),
    ("message A {\n  int32 = 1;\n}", "has = in line 2 where a name should be"),
    ("message A { int32 a = x; }", "where a whole number should be"),
    ("message A { int32 a = 1 }", "where a semicolon should be"),
    ("message A { int32 a = 0; }", "has the number 0, which none may have"),
    ("message A { int32 a = 19500; }", "which none may have"),
    ("message A { int32 a = 1; int32 b = 1; }", "or two with the number 1"),
    ("message A { B b = 1; }", "field b of message A has the type B, which is not there"),
    ("message A { map<double, int32> a = 1; }", "where the type of a map's keys should be"),
    ("message A { optional group B = 1 { } }", "has a group, which is not read"),
    ("message A { enum B { } }", "enum A.B has no values"),
    ("message A { enum B { X = 3000000000; } }", "more than 32 bits"),
    ('edition = "2023"; message A {}', 'is of edition "2023"; proto2 and proto3 can be read'),
    ('import "other.proto"; message A {}', "imports other.proto, which is not there"),
    ("message A { option x = {", "where ; or } should be"),
    ("message A { @ }", "in line 1, which begins no word"),
    ("message A {" * 40, "on more than 32 levels"),
    ("x" * 600_000, "has more than 524288 letters"),
    ('{"type": "record"}', "where a message should be"),
]


@pytest.mark.parametrize(("text", "why"), NONE, ids=[why for _, why in NONE])
def test_what_is_no_schema_is_refused(text: str, why: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        parse_proto(text)
    assert why in str(refused.value)


def test_a_schema_that_is_cut_is_refused_or_smaller() -> None:
    for size in range(0, len(SHOP), 7):
        try:
            parse_proto(SHOP[:size], [("money.proto", MONEY)])
        except ExpressionError:
            continue


def test_the_message_is_the_declared_one() -> None:
    assert shop("money.Price").root.name == "money.Price"
    with pytest.raises(ExpressionError, match=r"has no message shop\.v1\.Oder; did you mean shop\.v1\.Order"):
        shop("shop.v1.Oder")
    assert shop("shop.v1.Lines").place == (1,)
    with pytest.raises(ExpressionError, match="counted in several ways"):
        _ = shop("shop.v1.Lines.Late").place


def test_a_message_inside_of_itself_is_no_column() -> None:
    schema = parse_proto("message A { A a = 1; int32 n = 2; }")
    with pytest.raises(ExpressionError, match="again, inside of itself"):
        columns_of(schema)
    assert not meeting(schema, parse_schema("a STRUCT<a: STRUCT<n: INT>>")).unread


FITS: list[tuple[str, str, str | None, str | None]] = [
    ("int32", "SMALLINT", None, None),
    ("int32", "BIGINT", None, "does not take all of it"),
    ("int32", "DOUBLE", None, "does not take all of it"),
    ("int64", "INT", "x is int64, and column x is INT; declare it as BIGINT", None),
    ("uint32", "BIGINT", None, None),
    ("uint64", "BIGINT", None, None),
    ("uint64", "DECIMAL(20,0)", None, None),
    ("uint64", "DECIMAL(21,1)", "declare it as DECIMAL(20,0)", "does not take all of it"),
    ("float", "DOUBLE", None, "does not take all of it"),
    ("double", "FLOAT", "declare it as DOUBLE", None),
    ("string", "BINARY", None, "does not take all of it"),
    ("bytes", "STRING", "declare it as BINARY", "does not take all of it"),
    ("E", "STRING", None, None),
    ("E", "INT", None, None),
    ("E", "DOUBLE", "x is enum E, and column x is DOUBLE", "does not take all of it"),
    ("I", "STRUCT<n: INT>", None, None),
    ("I", "STRING", "x is I, and column x is STRING", "does not take all of it"),
    ("repeated int32", "INT", "x is repeated int32", "does not take all of it"),
    ("map<string, int32>", "STRING", "x is map<string, int32>", "does not take all of it"),
    ("google.protobuf.Timestamp", "TIMESTAMP", None, None),
    ("google.protobuf.Timestamp", "STRUCT<seconds: BIGINT, nanos: INT>", None, None),
    ("google.protobuf.Timestamp", "BIGINT", "declare it as TIMESTAMP", "does not take all of it"),
    ("google.protobuf.Int32Value", "BIGINT", None, "does not take all of it"),
]


@pytest.mark.parametrize(("kind", "column", "unread", "unwritten"), FITS)
def test_columns_take_what_loses_nothing(kind: str, column: str, unread: str | None, unwritten: str | None) -> None:
    text = 'import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; enum E { A = 0; } '
    schema = parse_proto(f'syntax = "proto3"; {text} message M {{ {kind} x = 1; }} message I {{ int32 n = 1; }}')
    met = meeting(schema, parse_schema(f"x {column}"))
    for faults, expected in ((met.unread, unread), (met.unwritten, unwritten)):
        assert bool(faults) == (expected is not None), faults
        assert expected is None or expected in str(faults[0])


def test_columns_without_a_field_have_the_nearest_name() -> None:
    schema = parse_proto('syntax = "proto2"; message M { required int32 amount = 1; optional int32 n = 2; }')
    met = meeting(schema, parse_schema("amunt INT"))
    assert tuple(map(str, met.absent)) == ("amunt; did you mean amount?",)
    assert tuple(map(str, met.unwritten)) == (
        "field amount is required: no column is called amount",
        "column amunt is no field of M; did you mean amount?",
    )


def test_too_many_parts_are_refused() -> None:
    messages = "".join(f"message M{at} {{ M{at + 1} a = 1; M{at + 1} b = 2; }} " for at in range(30))
    with pytest.raises(ExpressionError, match="more than 10000 parts"):
        columns_of(parse_proto(f"{messages} message M30 {{ int32 n = 1; }}"))


def planned(read: dict[str, Any], *select: str, **written: Any) -> Any:
    fields = {"key": None, "schema": None, "eventTime": None}
    streams = [stream("in", 4, **(fields | {"format": "protobuf"} | read)), stream("out", 4, **(fields | written))]
    return plan_of(streams, [step("picked", "in", select=list(select or ["*"])), step("w", "picked", to="out")])


def text(fields: str, message: str = "M") -> dict[str, Any]:
    return {"protobuf": {"schema": f'syntax = "proto3"; message {message} {{ {fields} }}'}}


def test_streams_have_the_columns_of_the_message() -> None:
    plan = planned(text("string id = 1; int64 n = 2;"), format="protobuf", **text("string id = 1; int64 n = 2;"))
    assert plan.valid, plan.problems
    assert [column.name for column in plan.stream("in").rows.columns] == ["id", "n"]
    assert planned(text("string id = 1; A a = 2; } message A { A a = 1;") | {"schema": "id STRING"}).valid


REFUSED: list[tuple[dict[str, Any], Reason, str]] = [
    ({"protobuf": {"schema": "{"}}, Reason.SCHEMA_INVALID, "has { in line 1 where a message should be"),
    (text("string id = 1;") | {"schema": "id BIGINT"}, Reason.SCHEMA_MISMATCH, "schema and protobuf.schema differ: id"),
    (text("string id = 1;") | {"schema": "ids STRING"}, Reason.SCHEMA_MISMATCH, "did you mean id?"),
    ({"protobuf": {"schema": "message M {}", "message": "N"}}, Reason.SCHEMA_INVALID, "has no message N"),
    ({"schema": "id STRING"}, Reason.SCHEMA_MISSING, "neither a schema nor a registry: set protobuf.schema"),
]


@pytest.mark.parametrize(("read", "reason", "why"), REFUSED)
def test_a_schema_that_fills_no_columns_is_refused(read: dict[str, Any], reason: Reason, why: str) -> None:
    problem = only(planned(read))
    assert (problem.reason, problem.stream) == (reason, "in")
    assert why in problem.message


def test_rows_fit_the_message_they_are_written_as() -> None:
    read = text("string id = 1; int64 n = 2;")
    problem = only(planned(read, "id", "n AS m", format="protobuf", **read))
    assert problem.message == (
        "the rows do not fit protobuf.schema of stream out: column m is no field of M (there are: id, n)"
    )
