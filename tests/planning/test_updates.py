"""Which rows are updates, what may follow them, and aggregates whose results would never come out."""

from typing import Any

import pytest

from holdfast.planning.plan import Plan
from holdfast.planning.plan_json import plan_json
from holdfast.reasons import Reason
from tests.planning.apps import lookup, only, plan_of, reasons, step, stream

OUT = stream("out", schema=None, eventTime=None)
TOTALS = {"by": ["k"], "compute": ["sum(v) AS v"]}
WINDOWS = TOTALS | {"window": "1m"}


def planned(*steps: dict[str, Any], totals: dict[str, Any] | None = None, **spec: Any) -> Plan:
    return plan_of([stream("in"), OUT], [step("totals", "in", aggregate=totals or TOTALS), *steps], **spec)


def updates(result: Plan) -> dict[str, list[str] | None]:
    assert result.problems == ()
    return {one["name"]: one["updatesBy"] for one in plan_json(result)["steps"]}


@pytest.mark.parametrize(
    ("verb", "key"),
    [
        (TOTALS, ["k"]),
        (TOTALS | {"by": ["K"]}, ["k"]),
        (WINDOWS, None),
        (WINDOWS | {"emit": "Final"}, None),
        (WINDOWS | {"emit": "Update"}, ["k", "window_start", "window_end"]),
        (TOTALS | {"session": "1m"}, None),
    ],
)
def test_an_aggregate_makes_updates_by_setting_or_without_a_window(verb: dict[str, Any], key: list[str] | None) -> None:
    assert updates(planned(step("last", "totals", to="out"), totals=verb))["totals"] == key


@pytest.mark.parametrize(
    ("verb", "key"),
    [
        ({"filter": "v > 1"}, ["k"]),
        ({"select": ["v", "k AS campaign"]}, ["campaign"]),
        ({"select": ["upper(k) AS k", "v"]}, []),
        ({"merge": {}}, ["k"]),
        ({"apply": {"function": "a:b", "keeps": ["k"]}}, ["k"]),
        ({"apply": {"function": "a:b"}}, []),
        ({"repartition": {"by": ["v"]}}, ["k"]),
        ({"broadcast": {}}, ["k"]),
        ({"toTable": "kept"}, ["k"]),
        ({"process": {"function": "a:b", "by": ["k"], "keeps": ["k"]}}, None),
    ],
)
def test_updates_pass_through_steps_that_look_at_each_row_alone(verb: dict[str, Any], key: list[str] | None) -> None:
    tables = [{"name": "kept", "key": ["k"]}] if "toTable" in verb else []
    result = planned(step("next", "totals", **verb), step("last", "next", filter="true"), tables=tables)
    assert updates(result) == {"totals": ["k"], "next": key, "last": key}


def test_a_look_up_passes_updates_on() -> None:
    tables = [{"name": "kept", "key": ["k"], "schema": "k STRING, name STRING"}]
    look_up = step("found", "totals", lookup={"table": "kept", "by": ["k"], "select": ["k", "right.name AS name"]})
    writes = step("writes", "in2", toTable="kept")
    streams = [stream("in"), stream("in2", schema="k STRING, name STRING", eventTime=None), OUT]
    result = plan_of(streams, [step("totals", "in", aggregate=TOTALS), writes, look_up], tables=tables)
    assert updates(result)["found"] == ["k"]


def test_only_updates_of_one_key_stay_so_when_merged() -> None:
    other = step("other", "in", aggregate=TOTALS)
    rows = step("rows", "in", select=["k", "v"])
    per_value = step("per-value", "in", aggregate={"by": ["k", "v"], "compute": ["max(ts) AS ts"]})
    without = step("without", "per-value", select=["k", "v"])
    merges = [step(f"with-{name}", "totals", name, merge={}) for name in ("other", "rows", "without")]
    result = updates(planned(other, rows, per_value, without, *merges))
    assert [result[one["name"]] for one in merges] == [["k"], [], []]


def test_rows_read_back_from_a_stream_are_as_written() -> None:
    back = stream("back", schema="k STRING, v BIGINT", eventTime=None)
    steps = [
        step("a-reader", "back", filter="v > 1"),
        step("totals", "in", aggregate=TOTALS),
        step("writer", "totals", to="back"),
    ]
    assert updates(plan_of([stream("in"), back], steps))["a-reader"] == ["k"]


@pytest.mark.parametrize(
    "verb",
    [{"aggregate": {"by": ["k"], "compute": ["count(*) AS n"]}}, {"deduplicate": {"by": ["k"]}}],
)
@pytest.mark.parametrize("between", [{"filter": "v > 1"}, {"repartition": {"by": ["k"]}}])
def test_a_step_that_counts_rows_is_refused_behind_updates(verb: dict[str, Any], between: dict[str, Any]) -> None:
    problem = only(planned(step("between", "totals", **between), step("last", "between", **verb)))
    assert (problem.reason, problem.step) == (Reason.UPDATE_ROWS_NOT_ALLOWED, "last")
    assert "would take each update of totals for one more row; let totals emit: Final" in problem.message


def test_a_join_is_refused_behind_updates() -> None:
    join = step("both", "totals", "in", join={"by": ["k"], "within": "1m", "select": ["k", "left.v AS v"]})
    assert reasons(planned(join, totals=WINDOWS | {"emit": "Update"})) == [Reason.UPDATE_ROWS_NOT_ALLOWED]
    assert reasons(planned(join, totals=WINDOWS)) == []


def test_a_process_step_makes_rows_that_any_step_may_count() -> None:
    process = step("judged", "totals", process={"function": "a:b", "by": ["k"], "keeps": ["k"]})
    assert reasons(planned(process, step("first", "judged", deduplicate={"by": ["k"]}))) == []


def test_final_results_without_a_window_need_inputs_that_end() -> None:
    final = TOTALS | {"emit": "Final"}
    problem = only(planned(step("last", "totals", to="out"), totals=final))
    assert (problem.reason, problem.step) == (Reason.NEVER_FINAL, "totals")
    assert "and in has no end; set window or session, or emit: Update, or bounded: true there" in problem.message
    for field in ("bounded", "control"):
        streams = [stream("in", **{field: True}), OUT]
        assert (
            reasons(plan_of(streams, [step("totals", "in", aggregate=final), step("last", "totals", to="out")])) == []
        )


def test_one_endless_input_anywhere_before_is_too_many() -> None:
    steps = [
        step("both", "in", "endless", merge={}),
        step("moved", "both", repartition={"by": ["k"]}),
        step("totals", "moved", aggregate=TOTALS | {"emit": "Final"}),
    ]
    problem = only(plan_of([stream("in", bounded=True), stream("endless")], steps))
    assert "endless has no end" in problem.message


def test_lookups_are_no_inputs_of_updates() -> None:
    tables = [{"name": "kept", "key": ["k"]}]
    steps = [
        step("totals", "in", aggregate=WINDOWS),
        step("keep", "in2", toTable="kept"),
        lookup("found", "in2", "kept"),
    ]
    assert updates(plan_of([stream("in"), stream("in2")], steps, tables=tables))["found"] is None
