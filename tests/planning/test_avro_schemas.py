"""Avro schemas: which are none, which columns their records have, and which columns and fields fit each other."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.planning.problems import ExpressionError
from holdfast.planning.types.avro.columns import avro_of, columns_of
from holdfast.planning.types.avro.reading import reading
from holdfast.planning.types.avro.schema import AvroKind, AvroSchema, parse_avro
from holdfast.planning.types.avro.values import default_bytes, whole
from holdfast.planning.types.avro.writing import writing
from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.types.misfits import Misfit, MisfitKind
from holdfast.planning.types.spark_types import RowType


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": tree} for name, tree in fields.items()]}


def parsed(tree: Any) -> AvroSchema:
    return parse_avro(json.dumps(tree))


def ddl(rows: RowType) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in rows.columns)


def logical(base: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": kind, **more}


def fixed(size: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size}


def enum(symbols: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": symbols}


INNER = record(x="int") | {"name": "Inner"}
NO_SCHEMAS = [
    (7, "the Avro schema has 7 where a type should be"),
    ({"name": "x"}, "where a type should be"),
    ("Unknown", "has the type Unknown, which is neither a type of Avro nor a name that stands before"),
    (record(a="Later", b=INNER | {"name": "Later"}), "field a of R has the type Later, which is neither"),
    ({"type": "record", "name": "1R", "fields": []}, "has a type named 1R; names are letters, digits and _"),
    ({"type": "record", "name": "R"}, "record R has no list of fields"),
    ({"type": "record", "name": "R", "fields": [{"name": "a-b", "type": "int"}]}, "record R has a field a-b"),
    ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2}, "record R has a field a"),
    (record(a={"type": "array"}), "field a of R, items has None where a type should be"),
    (record(a=["int", ["null"]]), "a union inside of a union"),
    (record(a=["int", "int"]), "a union of int, int; each type may stand there once"),
    (record(a=[]), "a union of nothing"),
    (record(a=INNER, b=INNER), "field b of R defines Inner, which stands before; refer to it by its name"),
    (record(a=fixed(-1)), "the size of fixed F is -1"),
    (record(a=fixed(1 << 31)), "the size of fixed F is 2147483648"),
    (record(a=fixed(True)), "the size of fixed F is True"),
    (record(a=enum([])), "enum E has no list of symbols"),
    (record(a=enum(["A", 1])), "enum E has no list of symbols"),
    (record(a=enum(["\ud800"])), "enum E has a symbol with half a surrogate pair, which is no character"),
]


@pytest.mark.parametrize(("tree", "why"), NO_SCHEMAS)
def test_what_is_no_schema_is_refused(tree: Any, why: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        parsed(tree)
    assert why in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 10_000, " " * (1 << 20), '{"type": NaN}'])
def test_a_text_that_is_no_bounded_json_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_avro(text)


def chained(count: int, *names: str) -> list[str]:
    """Records that each have fields of the one before."""
    first = record(a="int") | {"name": "R0"}
    behind = (record(**dict.fromkeys(names, f"R{at}")) | {"name": f"R{at + 1}"} for at in range(count - 1))
    return [json.dumps(tree) for tree in (first, *behind)]


def test_records_may_not_be_nested_without_end_by_their_names() -> None:
    assert parse_avro('"R98"', chained(99, "r")).root.name == "R98"
    with pytest.raises(ExpressionError, match="has types inside of each other on more than 100 levels"):
        parse_avro('"R2999"', chained(3000, "r"))


def test_columns_that_double_at_each_level_are_refused() -> None:
    schema = parse_avro('"R50"', chained(51, "a", "b"))
    with pytest.raises(
        ExpressionError, match="the columns of R50 have more than 10000 parts; give the stream a schema"
    ):
        columns_of(schema)
    assert not reading(schema, parse_schema("a STRUCT<b: STRUCT<a: STRUCT<c: INT>>>")).misfits


def test_columns_are_nested_no_deeper_than_types_may_be() -> None:
    assert ddl(columns_of(parse_avro('"R49"', chained(50, "r")))).count("STRUCT") == 49
    with pytest.raises(ExpressionError, match="r is nested too deeply, or has too many parts, for a column"):
        columns_of(parse_avro('"R60"', chained(61, "r")))


def test_a_default_that_contains_itself_is_none() -> None:
    tree = record(r="R")
    tree["fields"][0]["default"] = {}
    (misfit,) = writing(parsed(tree), parse_schema("r STRUCT<x: INT>")).misfits[:1]
    assert "a default that does not fit it" in misfit.why


def test_a_primitive_may_stand_without_quotes() -> None:
    assert parse_avro("string").root.kind is AvroKind.STRING


def test_names_are_found_in_their_namespace_and_without() -> None:
    tree = record(a=INNER | {"namespace": "n"}, b="n.Inner", c=INNER | {"name": "m.Other"}, d="m.Other")
    tree["namespace"] = "top"
    assert parsed(tree).named.keys() == {"top.R", "n.Inner", "m.Other"}
    assert ddl(columns_of(parsed(tree))) == ", ".join(f"{name} STRUCT<x: INT>" for name in "abcd")


def test_a_schema_may_use_names_of_those_it_refers_to() -> None:
    schema = parse_avro(json.dumps(record(a="Inner")), [json.dumps(INNER)])
    assert ddl(columns_of(schema)) == "a STRUCT<x: INT>"


COLUMNS = [
    ("null", "VOID"), ("boolean", "BOOLEAN"), ("int", "INT"), ("long", "BIGINT"), ("float", "FLOAT"),
    ("double", "DOUBLE"), ("bytes", "BINARY"), ("string", "STRING"), (fixed(3), "BINARY"), (enum(["A"]), "STRING"),
    ({"type": {"type": "int"}}, "INT"),
    (logical("int", "date"), "DATE"), (logical("int", "time-millis"), "TIME(6)"),
    (logical("long", "time-micros"), "TIME(6)"), (logical("long", "timestamp-nanos"), "TIMESTAMP"),
    (logical("long", "local-timestamp-millis"), "TIMESTAMP_NTZ"),
    (logical("string", "date"), "STRING"), (logical("string", "uuid"), "STRING"),
    (logical("int", "timestamp-millis"), "INT"), (logical("bytes", "decimal", precision=9, scale=2), "DECIMAL(9,2)"),
    (logical("bytes", "decimal", precision=9), "DECIMAL(9,0)"),
    (fixed(9) | logical("fixed", "decimal", precision=20, scale=20), "DECIMAL(20,20)"),
    (logical("bytes", "decimal", precision=2, scale=3), "BINARY"), (logical("bytes", "decimal", precision=0), "BINARY"),
    (["null", "string"], "STRING"), (["int"], "INT"), (["double", "null"], "DOUBLE"),
    ({"type": "array", "items": ["null", "int"]}, "ARRAY<INT>"),
    ({"type": "map", "values": INNER}, "MAP<STRING, STRUCT<x: INT>>"),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "column"), COLUMNS)
def test_a_field_has_the_column_of_its_type(tree: Any, column: str) -> None:
    assert ddl(columns_of(parsed(record(a=tree)))) == f"a {column}"


def test_a_schema_of_one_value_has_one_column() -> None:
    assert ddl(columns_of(parsed(["null", "int"]))) == "value INT"


NO_COLUMNS = [
    (["int", "string"], "a is [int, string], for which there is no one type; give the stream a schema"),
    (["null"], "a is [null], for which there is no one type"),
    (logical("bytes", "decimal", precision=39), "a is decimal(39,0) in bytes, which no column can hold"),
    (["null", "R"], "a is record R again, inside of itself, which no column can hold"),
]


@pytest.mark.parametrize(("tree", "why"), NO_COLUMNS)
def test_a_field_without_one_type_has_no_column(tree: Any, why: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        columns_of(parsed(record(a=tree)))
    assert why in str(refused.value)


LEAVES = [
    "BOOLEAN", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIME(6)",
    "DECIMAL(7,3)",
]  # fmt: skip
NAMES = st.sampled_from(["a", "b", "a_b", "b_a", "a_b_a"])
TYPES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        inner.map("ARRAY<{}>".format),
        inner.map("MAP<STRING, {}>".format),
        st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(
            lambda parts: f"STRUCT<{', '.join(f'{name}: {kind}' for name, kind in parts.items())}>"
        ),
    ),
)
ROWS = st.dictionaries(NAMES, TYPES, min_size=1, max_size=4).map(
    lambda columns: parse_schema(", ".join(f"{name} {kind}" for name, kind in columns.items()))
)


@given(ROWS)
def test_the_schema_of_columns_has_these_columns(rows: RowType) -> None:
    schema = parse_avro(avro_of(rows, "1-app/stream"))
    assert columns_of(schema) == rows
    assert not reading(schema, rows).misfits
    assert not reading(schema, rows).absent
    assert not writing(schema, rows).misfits


def test_records_inside_of_records_have_names_of_their_own() -> None:
    rows = parse_schema("a STRUCT<b: STRUCT<x: INT>>, a_b STRUCT<y: INT>, a_b_ STRUCT<z: INT>")
    schema = parse_avro(avro_of(rows, "r"))
    assert columns_of(schema) == rows
    assert schema.named.keys() == {"r", "r_a", "r_a_b", "r_a_b_", "r_a_b__"}


NOT_WRITTEN = [
    ("`a b` INT", "column a b can't be a field of an Avro record, whose names are letters, digits and _; rename it"),
    ("s STRUCT<`é`: INT>", "column é can't be a field"),
    ("m MAP<INT, INT>", "is MAP<INT, INT>, which Avro has no type for; leave it out, or CAST it in a select step"),
    ("v VOID", "is VOID, which Avro has no type for"),
    ("i INTERVAL DAY", "which Avro has no type for"),
]


@pytest.mark.parametrize(("columns", "why"), NOT_WRITTEN)
def test_columns_without_a_type_in_avro_are_refused(columns: str, why: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        avro_of(parse_schema(columns), "r")
    assert why in str(refused.value)


MISREAD = [
    ("string", "INT", "a is string, and column a is INT; declare it as STRING"),
    ("long", "INT", "a is long, and column a is INT; declare it as BIGINT"),
    ("double", "FLOAT", "declare it as DOUBLE"),
    (logical("long", "timestamp-millis"), "DATE", "declare it as TIMESTAMP"),
    (logical("bytes", "decimal", precision=6, scale=2), "DECIMAL(6,3)", "declare it as DECIMAL(6,2)"),
    (logical("bytes", "decimal", precision=6, scale=2), "STRING", "declare it as DECIMAL(6,2)"),
    (logical("bytes", "decimal", precision=40), "DECIMAL(38,0)", "a is decimal(40,0) in bytes, and column a is"),
    ({"type": "array", "items": "string"}, "ARRAY<INT>", "a[] is string, and column a[] is INT"),
    ({"type": "map", "values": "string"}, "MAP<INT, STRING>", "a is map of string, and column a is MAP<INT, STRING>"),
    (INNER, "STRUCT<x: STRING>", "a.x is int, and column a.x is STRING; declare it as INT"),
    (["null", "string"], "INT", "a is string, and column a is INT; declare it as STRING"),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "column", "why"), MISREAD)
def test_a_column_that_can_not_take_its_field_misfits(tree: Any, column: str, why: str) -> None:
    (misfit,) = reading(parsed(record(a=tree)), parse_schema(f"a {column}")).misfits
    assert why in str(misfit)


def test_a_union_fits_if_one_of_its_branches_does() -> None:
    schema = parsed(record(a=["null", "string", "int", INNER]))
    for column in ("STRING", "INT", "STRUCT<x: BIGINT>", "STRUCT<y: INT>", "BINARY"):
        assert not reading(schema, parse_schema(f"a {column}")).misfits
    assert reading(schema, parse_schema("a BOOLEAN")).misfits


def test_columns_that_a_schema_lacks_are_named() -> None:
    schema = parsed(record(user=["null", INNER], ids={"type": "array", "items": "Inner"}))
    columns = parse_schema("usr INT, user STRUCT<x: INT, y: INT>, ids ARRAY<STRUCT<x: INT, z: INT>>")
    absent = reading(schema, columns).absent
    assert tuple(map(str, absent)) == (
        "user.y (there are: x)",
        "ids[].z (there are: x)",
        "usr; did you mean user?",
    )


def test_what_only_one_branch_lacks_is_not_absent() -> None:
    other = record(y="int") | {"name": "Other"}
    schema = parsed(record(a=["null", "string", INNER, other]))
    assert reading(schema, parse_schema("a STRUCT<x: INT, y: INT, z: INT>")).absent == (
        Misfit("a.z", "a.z (there are: x)", MisfitKind.NO_FIELD),
    )


MISWRITTEN = [
    (record(b="int"), "a INT, b INT", "column a is no field of R (there are: b)"),
    (record(a="int", b="int"), "a INT", "field b is int, and has no default: no column is called b"),
    (record(a="int"), "a BIGINT", "column a is BIGINT, and field a is int, which does not take all of it"),
    (record(a="float"), "a DOUBLE", "column a is DOUBLE, and field a is float, which does not take all of it"),
    (record(a="string"), "a BINARY", "column a is BINARY, and field a is string, which does not take all of it"),
    (record(a=["null", "int"]), "a STRING", "column a is STRING, and no branch of field a, [null, int], takes all"),
    (record(a=logical("bytes", "decimal", precision=6, scale=2)), "a DECIMAL(7,2)", "does not take all of it"),
    (record(a=INNER), "a STRUCT<x: INT, w: INT>", "column a.w is no field of Inner"),
    ("int", "a INT", "records are a single int, which is written from one column with the name value"),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "columns", "why"), MISWRITTEN)
def test_a_field_that_can_not_take_its_column_misfits(tree: Any, columns: str, why: str) -> None:
    misfits = writing(parsed(tree), parse_schema(columns)).misfits
    assert [misfit for misfit in misfits if why in str(misfit)], misfits


DEFAULTS = [
    ("null", None, b""), ("boolean", True, b"\1"), ("int", -1, b"\1"), ("long", 1 << 40, whole(1 << 40)),
    ("double", 1, b"\0\0\0\0\0\0\xf0?"), ("bytes", "\u00ff", b"\2\xff"), ("string", "é", b"\4\xc3\xa9"),
    (fixed(2), "ab", b"ab"), (enum(["A", "B"]), "B", b"\2"), (["null", "int"], None, b"\0"),
    (["null", "int"], 3, b"\2\6"),
    ({"type": "array", "items": "int"}, [1], b"\2\2\0"), ({"type": "map", "values": "int"}, {"k": 1}, b"\2\2k\2\0"),
    ({"type": "array", "items": "int"}, [], b"\0"), (INNER, {"x": 5}, b"\n"),
    ("null", 0, None), ("boolean", 1, None), ("int", 1 << 31, None), ("int", True, None), ("long", 1.5, None),
    ("float", "1", None), ("bytes", "\u0100", None), ("string", "\ud800", None),
    (fixed(2), "abc", None), (enum(["A"]), "B", None),
    (["null", "int"], "x", None), ({"type": "array", "items": "int"}, {}, None), (INNER, {}, None), (INNER, [], None),
    ({"type": "map", "values": "int"}, [], None), ("float", 1e300, None),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "default", "written"), DEFAULTS)
def test_a_default_is_written_if_it_is_one(tree: Any, default: Any, written: bytes | None) -> None:
    schema = parsed(tree)
    assert default_bytes(schema, schema.root, default) == written
    field = {"name": "a", "type": tree, "default": default}
    fits = not writing(parsed({"type": "record", "name": "T", "fields": [field]}), RowType(())).misfits
    assert fits == (written is not None)


@pytest.mark.parametrize(
    "number", [0, -1, 1, 63, -64, 64, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63)],
)  # fmt: skip
def test_whole_numbers_have_as_few_bytes_as_they_need(number: int) -> None:
    written = whole(number)
    value = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(written))
    assert (value >> 1) ^ -(value & 1) == number
    assert len(written) == max(1, -(-value.bit_length() // 7))


def test_ways_that_double_with_each_level_are_bounded() -> None:
    def branches(level: int) -> list[Any]:
        inner = [f"R{level - 1}a", f"R{level - 1}b"] if level else "int"
        return [{"type": "record", "name": f"R{level}{x}", "fields": [{"name": "x", "type": inner}]} for x in "ab"]

    schema = parsed(record(**{f"k{level}": branches(level) for level in range(40)}))
    rows = parse_schema(f"k39 {'STRUCT<x: ' * 40}STRING{'>' * 40}")
    for meet in (reading, writing):
        with pytest.raises(ExpressionError, match="ways to meet; declare fewer columns"):
            meet(schema, rows)
