"""What holds for every app there is: invariants 1, 2, 3 and 9 of docs/architecture.md, and the rules told once more."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.planning.checks import MENDABLE
from holdfast.planning.plan import Plan, PlanningFacts, apply_all_repairs, plan
from holdfast.planning.plan_json import plan_json
from holdfast.planning.problems import apply_repair
from holdfast.spec.app import StreamApp
from holdfast.spec.parse import parse_app
from tests.planning.reference import reference_counts, reference_sets
from tests.planning.specs import app_tree, specs


def parsed(spec: dict[str, Any]) -> StreamApp:
    return parse_app(app_tree(spec))


@given(specs(), st.randoms(use_true_random=False))
def test_the_order_of_a_spec_never_changes_the_plan(spec: dict[str, Any], pick: random.Random) -> None:
    shuffled = {**spec, **{name: pick.sample(spec[name], len(spec[name])) for name in ("streams", "steps", "tables")}}
    ordered, reordered = plan_json(plan(parsed(spec))), plan_json(plan(parsed(shuffled)))
    assert without_yaml(ordered) == without_yaml(reordered)


def without_yaml(tree: dict[str, Any]) -> dict[str, Any]:
    """A repair shows changed steps in the order of the file; all else must not depend on it."""
    for problem in tree["problems"]:
        problem["repair"] = None if problem["repair"] is None else sorted(problem["repair"].splitlines())
    return tree


@given(specs())
def test_an_accepted_plan_has_equal_counts_in_each_set(spec: dict[str, Any]) -> None:
    result = plan(parsed(spec))
    if result.valid:
        for join_set in result.sets:
            assert len({result.stream(name).count for name in join_set.streams} - {None}) <= 1 or result.partitions_of(
                join_set
            )
            assert not join_set.streams or result.partitions_of(join_set) is not None


@given(specs())
def test_a_proposed_repair_makes_its_problem_disappear(spec: dict[str, Any]) -> None:
    app = parsed(spec)
    for problem in plan(app).problems:
        if problem.repair is None:
            continue
        repaired = app.model_copy(update={"spec": apply_repair(app.spec, problem.repair)})
        left = [(other.reason, other.step) for other in plan(repaired).problems]
        assert (problem.reason, problem.step) not in left, problem.repair.yaml


def beyond_repair(spec: dict[str, Any], result: Plan) -> set[str]:
    """Look-ups in side inputs that broadcast rows are looked up in too.

    A side input can't be repartitioned, and in a Broadcast table every task would let the broadcast rows out.
    """
    fed = {table["name"] for table in spec["tables"] if "sources" in table}
    spreads = {step.name: step.spread for step in result.steps}
    looked_up = {
        step["name"]: (step["lookup"]["table"], step["from"][0])
        for step in spec["steps"]
        if "lookup" in step and step["lookup"]["table"] in fed
    }
    by_all = {table for table, source in looked_up.values() if source in spreads and spreads[source].everywhere}
    return {name for name, (table, _) in looked_up.items() if table in by_all}


@given(specs())
def test_mendable_problems_have_a_repair(spec: dict[str, Any]) -> None:
    result = plan(parsed(spec))
    for problem in result.problems:
        mendable = problem.reason in MENDABLE and problem.step not in beyond_repair(spec, result)
        assert not mendable or problem.repair is not None, problem.message


@given(specs())
def test_fixing_all_that_can_be_mended_leaves_no_such_problems(spec: dict[str, Any]) -> None:
    result = apply_all_repairs(parsed(spec), PlanningFacts())
    beyond = beyond_repair(spec, result.plan)
    assert not [one for one in result.plan.problems if one.reason in MENDABLE and one.step not in beyond]


@given(specs())
def test_sets_and_counts_are_those_of_a_plain_walk(spec: dict[str, Any]) -> None:
    app = parsed(spec)
    result = plan(app)
    spreads = {step.name: step.spread for step in result.steps}
    if any(
        step.verb == "lookup" and step.inputs[0] in spreads and spreads[step.inputs[0]].everywhere
        for step in result.steps
    ):
        return  # side inputs flow on from there, which the plain walk does not know
    sets = reference_sets(app.spec)
    assert {one.step: set(one.streams) for one in result.sets if one.is_join} == sets
    if all(one.is_join for one in result.sets):
        counts = {stream.name: stream.count.partitions for stream in result.streams if stream.count}
        assert counts == reference_counts(app.spec, sets)


@given(specs())
def test_every_path_runs_from_its_stream_to_the_step(spec: dict[str, Any]) -> None:
    for problem in plan(parsed(spec)).problems:
        for stream, path in zip(problem.streams, problem.paths, strict=False):
            assert (path[0], path[-1]) == (stream.name, problem.step)


@given(specs(any_keys=False))
def test_every_partition_that_is_read_belongs_to_exactly_one_task(spec: dict[str, Any]) -> None:
    result = plan(parsed(spec))
    if not result.valid:
        return
    broadcast = {stream.name for stream in result.streams if stream.count and stream.count.decided_by == "broadcast"}
    inputs = [part for task in result.tasks for part in task.inputs if part.stream not in broadcast]
    assert len(inputs) == len(set(inputs))


@settings(max_examples=50)
@given(specs())
def test_planning_twice_gives_the_same_plan(spec: dict[str, Any]) -> None:
    app = parsed(spec)
    assert plan(app) == plan(app)
