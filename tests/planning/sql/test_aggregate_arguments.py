"""Which types the arguments of an aggregate may have, and which calls are refused when the app is planned."""

import pytest

from holdfast.planning.sql import functions
from holdfast.planning.sql.expressions import Scope, check_compute
from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.types.spark_types import OPEN
from holdfast.reasons import Reason

SCOPE = Scope.of(
    parse_schema(
        "k STRING, v INT, t STRING, flag BOOLEAN, span INTERVAL DAY TO SECOND, m MAP<STRING, INT>, "
        "p STRUCT<x: INT, m: MAP<STRING, INT>>, day DATE"
    )
)


def told(item: str, scope: Scope = SCOPE) -> list[tuple[Reason, str]]:
    return [
        (finding.reason, finding.message)
        for result in check_compute([f"{item} AS x"], scope, ("k",))
        for finding in result.findings
    ]


REFUSED = {
    "sum(t)": "sum takes numbers, but t is STRING; CAST it to a number type",
    "mean(t || 'x')": "mean takes numbers, but t || 'x' is STRING; CAST it to a number type",
    "stddev(day)": "stddev takes numbers, but day is DATE; CAST it to a number type",
    "every(v)": "every takes true or false, but v is INT; write a comparison",
    "count_if(v)": "count_if takes true or false, but v is INT; write a comparison",
    "sum(v) FILTER (WHERE v)": "FILTER of sum needs true or false, but v is INT; write a comparison",
    "collect_set(m)": "collect_set compares, and m is MAP<STRING, INT>; a MAP has no equality, take to_json of it",
    "count(DISTINCT v, p)": "count compares, and p is STRUCT<x: INT, m: MAP<STRING, INT>>; a MAP has no "
    "equality, take to_json of it",
    "max(m)": "max compares, and m is MAP<STRING, INT>; a MAP has no order, take a part of it",
    "min_by(v, m)": "min_by compares, and m is MAP<STRING, INT>; a MAP has no order, take a part of it",
}


@pytest.mark.parametrize("item", REFUSED)
def test_an_argument_of_the_wrong_type_is_refused_with_cure(item: str) -> None:
    assert told(item) == [(Reason.INVALID_EXPRESSION, REFUSED[item])]


@pytest.mark.parametrize("item", ["sum(span)", "avg(span)"])
def test_intervals_are_not_added_up(item: str) -> None:
    ((reason, message),) = told(item)
    assert reason is Reason.AGGREGATE_NOT_MERGEABLE
    assert "can't add up intervals, and span is INTERVAL DAY TO SECOND" in message


@pytest.mark.parametrize(
    "item", ["max(span)", "min_by(m, v)", "collect_list(m)", "count(m)", "first(p)", "sum(v) + avg(v)"]
)
def test_functions_that_neither_compare_nor_add_take_all_types(item: str) -> None:
    assert told(item) == []


@pytest.mark.parametrize("item", ["sum(t)", "every(v)", "max(m)"])
def test_what_is_not_known_is_not_refused(item: str) -> None:
    assert told(item, Scope.of(OPEN)) == []


@pytest.mark.parametrize("name", sorted(functions.NOT_MERGEABLE))
def test_an_unmergeable_aggregate_is_refused_with_what_to_use(name: str) -> None:
    ((reason, message),) = told(f"{name}(v, v)")
    assert reason is Reason.AGGREGATE_NOT_MERGEABLE
    assert message.startswith(f"{name} is none of the aggregates that a step can merge; ")
    assert message.endswith(functions.NOT_MERGEABLE[name])


def test_all_calls_of_an_item_are_checked() -> None:
    assert [reason for reason, _ in told("median(v) + sum(t)")] == [
        Reason.AGGREGATE_NOT_MERGEABLE,
        Reason.INVALID_EXPRESSION,
    ]


def test_a_call_inside_of_another_is_one_problem() -> None:
    assert [reason for reason, _ in told("median(sum(v))")] == [Reason.INVALID_EXPRESSION]
