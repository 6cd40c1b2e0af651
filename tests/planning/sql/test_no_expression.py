"""Texts that are no expression are told so, whatever they are."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.planning.sql.expressions import Scope, check_compute, check_filter, check_select
from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.types.spark_types import OPEN, UNKNOWN
from holdfast.reasons import Reason
from tests.planning.sql.scopes import ONE, TWO, reasons, told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the expression is empty"),
        ("-- all", "-- all holds nothing but a comment"),
        ("v +", "v + is not a Spark SQL expression: it goes wrong at its end, at + (character 3)"),
        ("v > 1 1 AND flag", "v > 1 1 AND flag is not a Spark SQL expression: it goes wrong at 1 (character 7)"),
        ("lower(user", "in lower(user the ( at character 6 is never closed"),
        ("flag)", "in flag) the ) at character 5 closes nothing"),
        ("v IN (1, 2,)", "in v IN (1, 2,) the comma at character 11 is one too many"),
        ("v IN ()", "IN needs its values in brackets, as in IN (1, 2)"),
        ("flag; DROP TABLE t", "flag; DROP TABLE t has a ; at character 5; write one expression without ;"),
        ("SELECT v", "SELECT v is a statement; write only an expression, like user IS NOT NULL"),
        ("user = 'x", "user = 'x can't be cut into words; is a quote or comment left open?"),
        ("(v AS x) > 1", "x names a part of an expression; put AS at the end, for the whole of it"),
        ("v = :limit", "Spark SQL has no expression like this (placeholder in it)"),
    ],
)
def test_a_text_that_is_no_expression_shows_where_it_breaks(text: str, message: str) -> None:
    assert told(check_filter(text, ONE)) == [(Reason.INVALID_EXPRESSION, message)]


def test_a_column_named_like_a_keyword_is_told_its_backquotes() -> None:
    ((_, message),) = told(check_filter("values > 1", Scope.of(parse_schema("`values` INT"))))
    assert message.endswith("the column values is named like a word of SQL, so write `values`")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "(" * 39 + "v" + ")" * 39,
        "struct(" * 39 + "v" + ")" * 39,
        "NOT " * 4_000 + "flag",
        "- " * 9_000 + "v",
        "case when " * 1_500,
        "x -> " * 3_000,
        " AND ".join(["flag"] * 2_000),
        "+".join(["v"] * 9_000),
        ".".join(["v"] * 5_000),
        "a" * 9_000,
        "a" * 9_000 + "(v)",
        "home." + "a" * 9_000,
        "\x00",
        "v\x00",
        "😀 = 1",
        "'\ud800'",
        "9" * 19_000,
        "\\" * 1_000,
        "`" * 999,
        "cast(v as " + "array<" * 2_000,
    ],
)
def test_a_monstrous_text_gives_findings_or_a_type(text: str) -> None:
    for result in (check_filter(text, ONE), *check_select([text], ONE), *check_compute([text], ONE, ())):
        assert all(len(message) < 400 for _, message in told(result))
        assert "\x1b" not in "".join(message for _, message in told(result))


@pytest.mark.parametrize("text", ["v -> 5.", "user:a", "user ->> '$[1.5]' = 1"])
def test_a_refused_text_is_told_by_findings_without_a_log(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert Reason.INVALID_EXPRESSION in reasons(check_filter(text, ONE))
    assert caplog.records == []


WORDS = st.sampled_from(
    [
        "v",
        "user",
        "home.at",
        "tags[0]",
        "counts",
        "1",
        "1.5",
        "'x'",
        "NULL",
        "(",
        ")",
        "[",
        "]",
        ",",
        ".",
        "->",
        "=>",
        "=",
        "<",
        "+",
        "-",
        "*",
        "/",
        "%",
        "||",
        "&&",
        "!",
        "~",
        ":",
        "::",
        "?",
        "@",
        "$",
        "#",
        "{",
        "}",
        ";",
        "--",
        "/*",
        "*/",
        "AS",
        "AND",
        "OR",
        "NOT",
        "IS",
        "IN",
        "LIKE",
        "BETWEEN",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "CAST(",
        "AS",
        "INT",
        "SELECT",
        "FROM",
        "WHERE",
        "ORDER",
        "BY",
        "OVER",
        "FILTER",
        "WITHIN",
        "GROUP",
        "INTERVAL",
        "DAY",
        "DATE",
        "TIMESTAMP",
        "EXCEPT",
        "explode(",
        "sum(",
        "count(*",
        "transform(",
        "struct(",
        "x",
        "left.",
        "right.",
        "*",
        "`",
        "'",
        '"',
        "EXISTS",
        "extract(",
        "DISTINCT",
        "VALUES",
        "LATERAL",
        "VIEW",
        "ARRAY<",
        "STRUCT<",
        ">",
        "trim(",
        "BOTH",
        "overlay(",
        "PLACING",
        "AT",
        "TIME",
        "ZONE",
        "COLLATE",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=14).map(" ".join) | st.text(max_size=30))
def test_any_text_gives_findings_or_a_type_and_nothing_else(text: str) -> None:
    for scope in (ONE, TWO, Scope.of(OPEN)):
        results = (
            check_filter(text, scope),
            *check_select([text, "*"], scope),
            *check_compute([text], scope, ("user",)),
        )
        assert all(result.type == UNKNOWN or result.type for result in results)
