"""What an `aggregate` may compute over its groups."""

import pytest

from holdfast.planning.sql.expressions import check_compute
from holdfast.reasons import Reason
from tests.planning.sql.scopes import ONE, outline, reasons, told


def test_an_aggregate_computes_over_its_groups() -> None:
    items = [
        "count(*) AS n",
        "max(v) - min(v) AS spread",
        "user AS who",
        "sum(v) FILTER (WHERE flag) AS flagged",
        "1 AS one",
    ]
    results = check_compute(items, ONE, ("user",))
    assert outline(results) == [
        ("n", "BIGINT"),
        ("spread", "INT"),
        ("who", "STRING"),
        ("flagged", "BIGINT"),
        ("one", "INT"),
    ]
    assert told(results) == []
    assert results[2].source == ("", "user")


@pytest.mark.parametrize("item", ["v AS x", "sum(v) + v AS x", "home.street AS x"])
def test_a_column_that_is_neither_grouped_nor_aggregated_is_refused(item: str) -> None:
    assert reasons(check_compute([item], ONE, ("user",))) == [Reason.AGGREGATE_MISSING]


def test_the_field_of_a_grouped_column_may_stand_alone() -> None:
    assert told(check_compute(["HOME.street AS s"], ONE, ("home",))) == []


def test_the_cure_for_a_loose_column_is_told() -> None:
    ((_, message),) = told(check_compute(["v AS x"], ONE, ("user",)))
    assert message == "v is neither aggregated nor in by (user); add v to by, or write max(v) or any_value(v)"


@pytest.mark.parametrize(
    "item",
    [
        "sum(count(*)) AS x",
        "sum(v) FILTER (WHERE max(v) > 1) AS x",
        "explode(tags) AS user",
        "* AS x",
        "window(ts, '1 minute') AS w",
    ],
)
def test_what_no_aggregate_can_compute_is_refused(item: str) -> None:
    assert Reason.INVALID_EXPRESSION in reasons(check_compute([item], ONE, ("user",)))


def test_a_window_function_is_no_aggregate() -> None:
    assert reasons(check_compute(["sum(v) OVER (ORDER BY ts) AS x"], ONE, ())) == [Reason.AGGREGATE_NOT_ALLOWED]
    assert reasons(check_compute(["rank() AS x"], ONE, ())) == [Reason.AGGREGATE_NOT_ALLOWED]


def test_aggregates_that_go_by_order_are_taken() -> None:
    items = ["first(user) AS f", "last(v) AS l", "any_value(ts) AS a", "collect_list(v) AS c"]
    assert outline(check_compute(items, ONE, ())) == [
        ("f", "STRING"),
        ("l", "INT"),
        ("a", "TIMESTAMP"),
        ("c", "ARRAY<INT>"),
    ]
