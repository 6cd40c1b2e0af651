"""No assignment is better: held against two oracles. And nothing but names decides among equally good ones."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.placement.optimal import Network
from tests.placement.assignment_cases import Given, any_given, givens
from tests.placement.assignment_oracles import best_by_least_cost, best_of_all

MANY = max(1_000, settings().max_examples)


@settings(max_examples=MANY)
@given(givens())
def test_nothing_is_better_among_all_small_assignments(run: Given) -> None:
    assert run.score(run.assigned()) == best_of_all(run.tasks, run.processors, run.task_location, run.ran_on)


@given(givens(tasks=11, processors=5, locations=4))
def test_nothing_is_better_among_all_assignments_of_some_more(run: Given) -> None:
    assert run.score(run.assigned()) == best_of_all(run.tasks, run.processors, run.task_location, run.ran_on)


@pytest.mark.parametrize("seed", range(24))
def test_a_general_flow_of_least_cost_finds_nothing_better(seed: int) -> None:
    pick = random.Random(seed)  # noqa: S311 - the same cases at each run
    run = any_given(seed, pick.randint(50, 300), pick.randint(5, 60), pick.randint(2, 20))
    assert run.score(run.assigned()) == best_by_least_cost(run.tasks, run.processors, run.task_location, run.ran_on)


@given(givens(tasks=4))
def test_the_oracles_agree(run: Given) -> None:
    parts = run.tasks, run.processors, run.task_location, run.ran_on
    assert best_by_least_cost(*parts) == best_of_all(*parts)


@given(givens(tasks=30, processors=8, locations=5))
def test_parts_differ_by_at_most_one_and_share_no_task(run: Given) -> None:
    tasks_of = run.assigned().tasks_of
    sizes = [len(part) for part in tasks_of.values()]
    assert max(sizes) - min(sizes) <= 1
    assert sorted(task for part in tasks_of.values() for task in part) == sorted(run.tasks)
    assert set(tasks_of) == set(run.processors)


@given(givens(tasks=20, processors=6, locations=4), st.randoms(use_true_random=False))
def test_the_order_of_the_input_never_changes_an_assignment(run: Given, pick: random.Random) -> None:
    assigned, shuffled = run.assigned(), run.shuffled(pick).assigned()
    assert list(assigned.tasks_of.items()) == list(shuffled.tasks_of.items())


@given(givens(tasks=20, processors=6, locations=4))
def test_a_second_run_on_the_same_processors_changes_nothing(run: Given) -> None:
    assert run.then(run.processors).assigned() == run.assigned()


@given(
    st.integers(2, 6).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(0, 5)), max_size=14),
        )
    )
)
def test_a_maximum_flow_is_as_large_as_the_smallest_cut(drawn: tuple[int, list[tuple[int, int, int]]]) -> None:
    nodes, arcs = drawn
    network = Network()
    for _ in range(nodes):
        network.vertex()
    flows = [(tail, head, network.arc(tail, head, capacity)) for tail, head, capacity in arcs]
    network.maximise(0, 1)
    out = [0] * nodes
    for tail, head, arc in flows:
        out[tail] += network.flow(arc)
        out[head] -= network.flow(arc)
    cuts = [{0, *(i + 2 for i in range(nodes - 2) if mask >> i & 1)} for mask in range(2 ** (nodes - 2))]
    smallest = min(sum(size for tail, head, size in arcs if tail in cut and head not in cut) for cut in cuts)
    assert out == [smallest, -smallest, *[0] * (nodes - 2)]
    assert all(0 <= network.flow(arc) <= arcs[i][2] for i, (_, _, arc) in enumerate(flows))
