"""Warnings about state that only grows and about windows of very many panes, with figures."""

from typing import Any

import pytest

from holdfast.planning.plan import Plan
from holdfast.planning.problems import Problem
from holdfast.reasons import Reason
from tests.planning.apps import plan_of, step, stream


def planned(**verb: Any) -> Plan:
    out = stream("out", schema=None, eventTime=None)
    steps = [step("totals", "in", aggregate={"by": ["k"], **verb}), step("last", "totals", to="out")]
    result = plan_of([stream("in", bounded=True), out], steps)
    assert result.problems == ()
    return result


def warning(reason: Reason, **verb: Any) -> Problem:
    (problem,) = [one for one in planned(**verb).warnings if one.reason is reason]
    assert problem.step == "totals"
    return problem


def test_windowless_totals_are_kept_for_ever_with_a_keys_size() -> None:
    problem = warning(Reason.KEPT_FOR_EVER, compute=["count(*) AS n", "sum(v) AS v", "max(ts) AS ts"])
    assert problem.message == (
        "totals keeps the results of each k for ever, in the size of the key and about 44 bytes; set window, e.g. "
        "window: 1h, to forget them when its end has passed"
    )


@pytest.mark.parametrize(
    ("item", "detail"),
    [
        ("max(k) AS x", "about 20 bytes, and results that have a size of their own;"),
        ("approx_count_distinct(v) AS x", "about 540 bytes;"),
        ("approx_count_distinct(v, 0.01) AS x", "about 16412 bytes;"),
        ("count(DISTINCT v) AS x", ". count(DISTINCT v) keeps up to 10000 values of each key, and more stop the app"),
        ("size(collect_set(v)) AS x", ". collect_set(v) keeps up to 10000 values of each key, and more stop the app"),
    ],
)
def test_what_a_key_takes_follows_from_what_is_computed(item: str, detail: str) -> None:
    assert detail in warning(Reason.KEPT_FOR_EVER, compute=[item]).message


@pytest.mark.parametrize(
    "verb", [{"window": "1h"}, {"session": "1h"}, {"emit": "Final"}, {"window": "1h", "emit": "Update"}]
)
def test_what_is_forgotten_some_time_is_no_warning(verb: dict[str, Any]) -> None:
    assert planned(compute=["collect_list(v) AS vs"], **verb).warnings == ()


def test_very_many_panes_are_a_warning_with_a_cure() -> None:
    problem = warning(Reason.MANY_PANES, compute=["count(*) AS n"], window="24h", slide="1s")
    assert "a window of 24h every 1s has 86,400 panes of 1s" in problem.message
    assert "make slide longer, to at least 1m26s400ms" in problem.message


@pytest.mark.parametrize(("window", "slide"), [("1000s", "1s"), ("24h", "2m"), ("24h", None)])
def test_a_thousand_panes_are_none(window: str, slide: str | None) -> None:
    verb = {"window": window} | ({"slide": slide} if slide else {})
    assert planned(compute=["count(*) AS n"], **verb).warnings == ()


def test_a_slide_that_does_not_divide_its_window_adds_panes() -> None:
    assert "panes of 1ms" in warning(Reason.MANY_PANES, compute=["count(*) AS n"], window="10s", slide="3333ms").message


@pytest.mark.parametrize(
    ("key", "table", "warned"),
    [
        (["k"], {"key": ["k"]}, False),
        (["K"], {"key": ["k"], "select": ["k", "v"]}, False),
        (["k"], {"key": ["id"], "select": ["k AS id", "v"]}, False),
        (["k"], {"key": ["v"]}, True),
        (None, {"key": ["k"]}, True),
        (["k"], {"key": ["k", "v"]}, True),
        (["k"], {"key": ["k"], "select": ["concat(k, '!') AS k", "v"]}, True),
        (["k"], {"key": ["v"], "versioned": True}, False),
    ],
)
def test_a_table_keyed_unlike_its_records_is_warned_of(
    key: list[str] | None, table: dict[str, Any], warned: bool
) -> None:
    fed = {"name": "t", "sources": ["changes"], "distribution": "Broadcast", **table}
    find = {"table": "t", "by": table["key"], "select": ["left.ts AS ts"]}
    steps = [
        step("named", "in", select=["k", "v", "ts", "k AS id"]),
        step("found", "named", lookup=find),
        step("last", "found", to="out"),
    ]
    streams = [stream("in"), stream("changes", key=key), stream("out", schema=None, eventTime=None, key=None)]
    result = plan_of(streams, steps, tables=[fed])
    assert result.problems == ()
    warnings = [one for one in result.warnings if one.reason is Reason.TABLE_KEY_DIFFERS]
    assert [one.stream for one in warnings] == (["t"] if warned else [])
