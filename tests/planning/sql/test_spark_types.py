"""Every expression of the golden corpus has Spark's type here, or none; schemas are taken and refused as Spark does."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.planning.problems import ExpressionError
from holdfast.planning.sql import functions
from holdfast.planning.sql.aggregate_calls import CANONICAL
from holdfast.planning.sql.expressions import CheckedExpression, Scope, check_compute, check_select
from holdfast.planning.types.ddl import parse_schema, parse_type
from holdfast.planning.types.function_types import TYPED
from holdfast.planning.types.spark_types import UNKNOWN
from holdfast.reasons import Reason

ANSWERS: dict[str, Any] = json.loads(Path(__file__).with_name("spark_types.json").read_text(encoding="utf-8"))
SCOPE = Scope.of(parse_schema(ANSWERS["schema"]))
CORPUS = {**ANSWERS["row"], **ANSWERS["group"]}
UNKNOWN_SHARE = 0.08


def checked(expression: str) -> CheckedExpression:
    item = f"{expression} AS v"
    (only,) = check_compute([item], SCOPE, ()) if expression in ANSWERS["group"] else check_select([item], SCOPE)
    return only


@pytest.mark.parametrize(("expression", "spark"), CORPUS.items())
def test_an_expression_spark_takes_is_taken_and_never_typed_otherwise(expression: str, spark: str) -> None:
    result = checked(expression)
    assert {finding.reason for finding in result.findings} <= {Reason.AGGREGATE_NOT_MERGEABLE}
    assert result.type in (spark, UNKNOWN)


def test_every_aggregate_that_runs_has_a_type() -> None:
    assert set(CANONICAL) <= TYPED
    computed = [result for one in ANSWERS["group"] if not (result := checked(one)).findings]
    assert UNKNOWN not in {result.type for result in computed}


def test_few_expressions_are_left_without_a_type() -> None:
    unknown = [expression for expression in CORPUS if checked(expression).type == UNKNOWN]
    assert len(unknown) / len(CORPUS) < UNKNOWN_SHARE, unknown


@pytest.mark.parametrize(("ddl", "spark"), ANSWERS["ddl"].items())
def test_a_schema_is_read_or_refused_as_spark_does(ddl: str, spark: list[list[str]] | None) -> None:
    if spark is None:
        with pytest.raises(ExpressionError):
            parse_schema(ddl)
    else:
        assert [[column.name, column.type] for column in parse_schema(ddl).columns] == spark


@pytest.mark.parametrize("spark", sorted(set(CORPUS.values())))
def test_every_type_spark_spells_is_read_back(spark: str) -> None:
    assert str(parse_type(spark)) == spark


def test_no_function_is_typed_that_the_corpus_does_not_cover() -> None:
    words = {word for expression in CORPUS for word in expression.lower().replace("(", " ( ").split()}
    assert TYPED - words == set()


def test_every_function_the_planner_knows_something_about_exists_in_spark() -> None:
    known = {*TYPED, *functions.UNREPEATABLE, *functions.ELSEWHERE, *functions.UNIT_FIRST, *functions.WITHOUT_BRACKETS}
    assert known - set(functions.kinds()) == set()
