"""How the items of an aggregate become calls over columns, and Spark SQL before and behind them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from holdfast.planning.aggregation import AggregateCall, Aggregation, split_compute
from holdfast.planning.problems import ExpressionError
from holdfast.planning.sql import functions
from holdfast.planning.sql.aggregate_calls import CANONICAL, FUNCTIONS
from holdfast.planning.sql.text import parse
from holdfast.reasons import Reason
from holdfast.spec.steps import Aggregate

COLUMNS = ("k", "a", "B", "ts", "ok", "st")


def split(*items: str, window: str | None = None, by: tuple[str, ...] = ("k",), carry: bool = False) -> Aggregation:
    return split_compute(Aggregate(by=by, compute=items, window=window), COLUMNS, carry=carry)


def only_call(item: str) -> AggregateCall:
    (call,) = split(f"{item} AS x").calls
    return call


CALLS = {
    "count(*)": AggregateCall("count"),
    "count(1)": AggregateCall("count"),
    "count('x', true)": AggregateCall("count"),
    "count(1, a)": AggregateCall("count", ("a",)),
    "count(a, b)": AggregateCall("count", ("a", "B")),
    "count(ALL a)": AggregateCall("count", ("a",)),
    "COUNT(DISTINCT a, b)": AggregateCall("count", ("a", "B"), distinct=True),
    "count_if(ok)": AggregateCall("count_if", ("ok",)),
    "sum(`a`)": AggregateCall("sum", ("a",)),
    "sum((A))": AggregateCall("sum", ("a",)),
    "mean(b)": AggregateCall("avg", ("B",)),
    "every(ok)": AggregateCall("bool_and", ("ok",)),
    "some(ok)": AggregateCall("bool_or", ("ok",)),
    "any(ok)": AggregateCall("bool_or", ("ok",)),
    "std(a)": AggregateCall("stddev_samp", ("a",)),
    "variance(a)": AggregateCall("var_samp", ("a",)),
    "array_agg(a)": AggregateCall("collect_list", ("a",)),
    "max(DISTINCT a)": AggregateCall("max", ("a",)),
    "collect_set(DISTINCT a)": AggregateCall("collect_set", ("a",)),
    "approx_count_distinct(DISTINCT a)": AggregateCall("approx_count_distinct", ("a",)),
    "approx_count_distinct(a, 0.02)": AggregateCall("approx_count_distinct", ("a",), error=0.02),
    "approx_count_distinct(a, 2e-2D)": AggregateCall("approx_count_distinct", ("a",), error=0.02),
    "approx_count_distinct(a, 0.05)": AggregateCall("approx_count_distinct", ("a",)),
    "max_by(a, ts)": AggregateCall("max_by", ("a", "ts")),
    "first(a)": AggregateCall("first", ("a",)),
    "first_value(a, true)": AggregateCall("first", ("a",), ignore_nulls=True),
    "last_value(a, false)": AggregateCall("last", ("a",)),
    "last(a) IGNORE NULLS": AggregateCall("last", ("a",), ignore_nulls=True),
    "last(a) RESPECT NULLS": AggregateCall("last", ("a",)),
    "any_value(a) FILTER (WHERE ok) IGNORE NULLS": AggregateCall("any_value", ("a",), "ok", ignore_nulls=True),
    "sum(a) FILTER (WHERE (ok))": AggregateCall("sum", ("a",), "ok"),
}


@pytest.mark.parametrize("item", CALLS)
def test_a_call_over_columns_needs_no_spark(item: str) -> None:
    assert split(f"{item} AS x") == Aggregation((), (CALLS[item],), ("x",), ())


@pytest.mark.parametrize(
    ("item", "expression"),
    [
        ("sum(a * 2)", "`a` * 2"),
        ("sum(st.f)", "`st`.`f`"),
        ("count(NULL)", "NULL"),
        ("max(-1)", "-1"),
        ("max(struct(ts, a))", "struct(`ts`, `a`)"),
        ("sum(try_cast(a AS INT))", "TRY_CAST(`a` AS INT)"),
        ("max(date_add(DAY, 1, ts))", "date_add(DAY, 1, `ts`)"),
        ("max(aggregate(a, 0, (s, x) -> s + x))", "aggregate(`a`, 0, (`s`, `x`) -> `s` + `x`)"),
        ("max('it\\'s')", "'it\\'s'"),
    ],
)
def test_an_argument_that_is_no_column_is_computed_before(item: str, expression: str) -> None:
    parts = split(f"{item} AS x")
    assert parts.before[0] == "`k`"
    assert parts.before[-1] == f"{expression} AS `__a0`"
    assert parts.calls[0].arguments == ("__a0",)
    assert (parts.results, parts.after) == (("x",), ())


def test_before_has_keys_columns_of_calls_and_what_is_computed() -> None:
    parts = split("sum(a) AS x", "max(b + 1) FILTER (WHERE ok AND a > 1) AS y", "min(b + 1) AS z")
    assert parts.before == ("`k`", "`a`", "`b` + 1 AS `__a0`", "`ok` AND `a` > 1 AS `__a1`")
    assert parts.calls[1:] == (AggregateCall("max", ("__a0",), "__a1"), AggregateCall("min", ("__a0",)))


def test_before_carries_all_columns_where_rows_may_become_letters() -> None:
    assert split("sum(a + 1) AS x", carry=True).before == (*(f"`{name}`" for name in COLUMNS), "`a` + 1 AS `__a0`")
    assert split("sum(a) AS x", carry=True).before == ()


@pytest.mark.parametrize(
    ("items", "results", "after"),
    [
        (["sum(a) / count(*) AS m"], ("__r0", "__r1"), ("`__r0` / `__r1` AS `m`",)),
        (["round(avg(a), 2) AS r"], ("__r0",), ("round(`__r0`, 2) AS `r`",)),
        (["max(struct(ts, a)).a AS x"], ("__r0",), ("`__r0`.`a` AS `x`",)),
        (["count(*) AS n", "count(*) AS m"], ("n",), ("`n` AS `n`", "`n` AS `m`")),
        (["avg(a) AS x", "mean(A) + 1 AS y"], ("x",), ("`x` AS `x`", "`x` + 1 AS `y`")),
        (["mean(a) + 1 AS y", "avg(a) AS x"], ("__r0",), ("`__r0` + 1 AS `y`", "`__r0` AS `x`")),
        (["upper(K) AS u"], (), ("upper(`K`) AS `u`",)),
        (["sum(a) AS x", "transform(collect_list(b), x -> x + 1) AS y"], ("x", "__r0"),
         ("`x` AS `x`", "transform(`__r0`, `x` -> `x` + 1) AS `y`")),
        (["date_add(DAY, count(*), max(ts)) AS d"], ("__r0", "__r1"), ("date_add(DAY, `__r0`, `__r1`) AS `d`",)),
        (["sum(a) AS `odd ``name`", "sum(a) + 1 AS x"], ("odd `name",),
         ("`odd ``name` AS `odd ``name`", "`odd ``name` + 1 AS `x`")),
    ],
)  # fmt: skip
def test_items_that_are_more_than_a_call_are_computed_behind(
    items: list[str], results: tuple[str, ...], after: tuple[str, ...]
) -> None:
    parts = split(*items)
    assert (parts.results, parts.after) == (results, ("`k`", *after))


def test_behind_a_window_its_bounds_follow_the_keys() -> None:
    assert split("count(*) AS n", window="1m").after == ()
    assert split("count(*) + 1 AS n", window="1m").after[:3] == ("`k`", "`window_start`", "`window_end`")


def test_keys_have_the_names_of_the_columns() -> None:
    assert split("count(*) + sum(a + 1) AS n", by=("K", "b")).after[:2] == ("`k`", "`B`")


def test_generated_names_are_nobody_elses() -> None:
    verb = Aggregate(by=("__R0",), compute=("sum(__a0 + 1) + 1 AS __r1",))
    parts = split_compute(verb, ("__a0", "__A1", "__R0"))
    assert parts.before[-1] == "`__a0` + 1 AS `__a2`"
    assert parts.results == ("__r2",)


NAMES = st.sampled_from(["__a0", "__A1", "__a2", "__r0", "__R1", "a"])


@given(st.lists(NAMES, unique_by=str.casefold, min_size=1), st.lists(NAMES, unique_by=str.casefold, min_size=1))
def test_no_names_collide_whatever_columns_and_items_are_called(columns: list[str], names: list[str]) -> None:
    items = tuple(f"sum(`{columns[0]}` + {at}) + count(*) AS `{name}`" for at, name in enumerate(names))
    parts = split_compute(Aggregate(by=(columns[0],), window="1m", compute=items), columns)
    before = [columns[0], *(name for call in parts.calls for name in call.arguments)]
    behind = [columns[0], "window_start", "window_end", *parts.results]
    for together in (before, behind):
        assert len({name.casefold() for name in together}) == len(together)
    made = {name.casefold() for name in before[1:]}
    assert not made & {name.casefold() for name in columns}


REFUSED = {
    "sum(DISTINCT a)": Reason.AGGREGATE_NOT_MERGEABLE,
    "avg(DISTINCT a)": Reason.AGGREGATE_NOT_MERGEABLE,
    "collect_list(DISTINCT a)": Reason.AGGREGATE_NOT_MERGEABLE,
    "median(a)": Reason.AGGREGATE_NOT_MERGEABLE,
    "max(a) WITHIN GROUP (ORDER BY a)": Reason.AGGREGATE_NOT_MERGEABLE,
    "array_agg(a ORDER BY ts)": Reason.AGGREGATE_NOT_MERGEABLE,
    "count()": Reason.INVALID_EXPRESSION,
    "count(a, *)": Reason.INVALID_EXPRESSION,
    "count(DISTINCT)": Reason.INVALID_EXPRESSION,
    "sum()": Reason.INVALID_EXPRESSION,
    "sum(a, b)": Reason.INVALID_EXPRESSION,
    "max_by(a)": Reason.INVALID_EXPRESSION,
    "max_by(a, ts, 3)": Reason.AGGREGATE_NOT_MERGEABLE,
    "first(a, ok)": Reason.INVALID_EXPRESSION,
    "first(a IGNORE NULLS)": Reason.INVALID_EXPRESSION,
    "max(a) IGNORE NULLS": Reason.INVALID_EXPRESSION,
    "approx_count_distinct(a, b)": Reason.INVALID_EXPRESSION,
    "approx_count_distinct(a, 0.0005)": Reason.INVALID_EXPRESSION,
    "approx_count_distinct(a, 0.4)": Reason.INVALID_EXPRESSION,
    "approx_count_distinct(a, '0.02')": Reason.INVALID_EXPRESSION,
    "transform(st, x -> x + sum(a))": Reason.AGGREGATE_NOT_MERGEABLE,
}


@pytest.mark.parametrize("item", REFUSED)
def test_a_call_without_meaning_for_partial_results_is_refused(item: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        split(f"{item} AS x")
    assert [finding.reason for finding in caught.value.findings] == [REFUSED[item]]


def test_every_aggregate_of_spark_is_mergeable_or_has_an_alternative() -> None:
    aggregates = {name for name, kind in functions.kinds().items() if kind == functions.AGGREGATE}
    sorts = [set(CANONICAL), set(functions.NOT_MERGEABLE), set(functions.ELSEWHERE) & aggregates]
    assert set.union(*sorts) == aggregates
    assert sum(map(len, sorts)) == len(aggregates)
    assert all(name not in FUNCTIONS for aliases in FUNCTIONS.values() for name in aliases)


@pytest.mark.parametrize(
    "text", ["a IS NOT DISTINCT FROM ts", "st.f[0].g", "X'1F'", "'\\n\\\\'", "CAST(a AS STRUCT<f: INT>)"]
)
def test_what_is_generated_means_the_same(text: str) -> None:
    (*_, computed) = split(f"max({text}) AS x").before
    again = parse(computed).this
    for name in again.find_all(exp.Identifier):
        name.args["quoted"] = False
    assert again == parse(text)
