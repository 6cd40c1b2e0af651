import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.planning.problems import ExpressionError
from holdfast.planning.types.ddl import parse_schema, parse_type
from holdfast.planning.types.spark_types import Column, RowType
from holdfast.reasons import Reason

NAMES = st.from_regex(r"[a-z_][a-z0-9_ `.]{0,8}", fullmatch=True)
PLAIN = st.sampled_from(["BOOLEAN", "INT", "BIGINT", "STRING", "TIMESTAMP", "DECIMAL(10,2)", "INTERVAL DAY TO SECOND"])


def spelled(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


TYPES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        inner.map(lambda kind: f"ARRAY<{kind}>"),
        st.tuples(inner, inner).map(lambda pair: f"MAP<{pair[0]}, {pair[1]}>"),
        st.dictionaries(st.from_regex(r"[a-z]{1,4}", fullmatch=True), inner, min_size=1, max_size=3).map(
            lambda fields: f"STRUCT<{', '.join(f'{name}: {kind}' for name, kind in fields.items())}>"
        ),
    ),
    max_leaves=6,
)


def refusal(ddl: str) -> str:
    with pytest.raises(ExpressionError) as refused:
        parse_schema(ddl)
    (finding,) = refused.value.findings
    assert finding.reason == Reason.SCHEMA_INVALID
    return finding.message


def test_columns_come_in_their_order_with_types_in_sparks_spelling() -> None:
    rows = parse_schema("ad_id string, price dec(10, 2) NOT NULL COMMENT 'paid', tags map<string,array<long>>")
    assert rows == RowType(
        (Column("ad_id", "STRING"), Column("price", "DECIMAL(10,2)"), Column("tags", "MAP<STRING, ARRAY<BIGINT>>"))
    )


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("", "the schema is empty; write columns like user STRING, ts TIMESTAMP"),
        ("a STRNG", "the type of a is STRNG, which Spark SQL does not know; did you mean STRING?"),
        ("a BOOL", "the type of a is BOOL, which Spark SQL does not know; did you mean BOOLEAN?"),
        ("a", "the type of a is missing, it ends there; write it as in a STRING"),
        ("a INT,,b INT", "the schema should name a column, but there stands ,"),
        ("user INT, User STRING", "the schema names User twice (as user before); names ignore case"),
        ("a STRUCT<x: INT, X: INT>", "the schema names X twice (as x before); names ignore case"),
        ("a: INT", "the column a is followed by a colon; write a and its type with a space between"),
        ("a CHAR", "the type of a needs a length, as in CHAR(10)"),
        ("a INT b", "the schema should end or go on with a comma after INT, but there stands b"),
        ("a INTERVAL SECOND TO DAY", "there is no INTERVAL SECOND TO DAY; write YEAR TO MONTH or DAY TO SECOND"),
        ("a ARRAY", "ARRAY does not say what is in it; write ARRAY<INT>, MAP<STRING, INT> or STRUCT<a: INT>"),
    ],
)
def test_a_refusal_names_the_value_and_the_cure(ddl: str, message: str) -> None:
    assert refusal(ddl) == message


def test_a_name_that_needs_backquotes_is_told_so() -> None:
    assert "'-b INT'; names with anything but letters, digits and _ stand in backquotes" in refusal("a-b INT")


def test_a_refused_schema_is_for_the_user_to_act_upon() -> None:
    assert issubclass(ExpressionError, UserActionError)


@pytest.mark.parametrize(
    "ddl", ["a " + "ARRAY<" * 30_000, "a INT" + ", a INT" * 40_000, "`", "a\x00INT", "a INT COMMENT '"]
)
def test_a_monstrous_schema_is_refused_without_breaking(ddl: str) -> None:
    assert len(refusal(ddl)) < 300


@given(st.lists(st.tuples(NAMES, TYPES), min_size=1, max_size=5, unique_by=lambda pair: pair[0]))
def test_a_schema_written_out_is_read_back(columns: list[tuple[str, str]]) -> None:
    ddl = ", ".join(f"{spelled(name)} {kind}" for name, kind in columns)
    assert parse_schema(ddl).columns == tuple(Column(name, kind) for name, kind in columns)


@given(TYPES)
def test_a_type_is_spelled_as_it_was_read(kind: str) -> None:
    assert str(parse_type(kind)) == kind


@given(st.text(alphabet=st.sampled_from("ab `'\"<>(),:1;-/*\\\x00é😀") | st.sampled_from("INTARYSUC "), max_size=40))
def test_any_text_is_read_or_refused(ddl: str) -> None:
    try:
        columns = parse_schema(ddl).columns
    except ExpressionError:
        columns = ()
    assert all(column.type for column in columns)
