"""When processors come, go or are replaced, only as many tasks move as balance requires."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.placement.assignment import MovedTask, assign, moved_tasks
from holdfast.protocol.assignment import Assignment
from tests.placement.assignment_cases import (
    Given,
    Locality,
    ProcessorChange,
    first_runs,
    locality,
    processor_changes,
)

LOCATIONS = st.sampled_from(["L1", "L2", "L3", "L4", "elsewhere"])


def moved(before: Given, after: Given) -> list[str]:
    was, now = before.assigned().processor_of(), after.assigned().processor_of()
    return [task for task in before.tasks if was[task] != now[task]]


@given(first_runs(), st.data())
def test_when_processors_go_only_their_tasks_move(run: Given, data: st.DataObject) -> None:
    stay = data.draw(st.sets(st.sampled_from(sorted(run.processors)), min_size=1))
    left = {name: location for name, location in run.processors.items() if name in stay}
    parts = run.assigned().tasks_of
    assert set(moved(run, run.then(left))) == {task for name in parts for task in parts[name] if name not in stay}


@given(first_runs(), LOCATIONS)
def test_a_new_processor_takes_only_the_tasks_it_must(run: Given, location: str) -> None:
    after = run.then({**run.processors, "new": location})
    assert set(moved(run, after)) == set(after.assigned().tasks_of["new"])
    assert len(after.assigned().tasks_of["new"]) == len(run.tasks) // (len(run.processors) + 1)


@given(first_runs(), st.data())
def test_a_replacement_at_the_same_location_takes_the_part_over(run: Given, data: st.DataObject) -> None:
    replaced = data.draw(st.sampled_from(sorted(run.processors)))
    location_of = {"new" if name == replaced else name: location for name, location in run.processors.items()}
    before, after = run.assigned(), run.then(location_of).assigned()
    assert after.tasks_of["new"] == before.tasks_of[replaced]
    assert {name for name, change in processor_changes(before, after).items() if change} <= {replaced, "new"}


@given(first_runs(), st.data())
def test_replacing_a_processor_with_its_disk_moves_its_tasks_alone(run: Given, data: st.DataObject) -> None:
    replaced = data.draw(st.sampled_from(sorted(run.processors)))
    own_disks = Given(run.tasks, {name: name for name in run.processors}, {}, {})
    location_of = {name: name for name in run.processors if name != replaced} | {"new": "new"}
    assert set(moved(own_disks, own_disks.then(location_of))) == set(own_disks.assigned().tasks_of[replaced])


def test_a_task_changes_processors_on_its_disk_so_another_stays() -> None:
    # P2's disk holds b and c; with P3 gone, P2 keeps both only if P1 gives its second task to a neighbour.
    record = {"a": "L1", "d": "L1", "b": "L2", "c": "L2"}, {"a": "P1", "d": "P1", "b": "P2", "c": "P3"}
    assignment = assign("abcd", {"P1": "L1", "P2": "L2", "P9": "L1"}, *record)
    assert assignment.tasks_of == {"P1": ("a",), "P2": ("b", "c"), "P9": ("d",)}
    assert moved_tasks(assignment, {"P1": "L1", "P2": "L2", "P9": "L1"}, record[0]) == ()


@given(first_runs(), st.lists(LOCATIONS, max_size=3), st.data())
def test_a_processor_only_loses_tasks_of_too_large_a_part(run: Given, come: list[str], data: st.DataObject) -> None:
    stay = data.draw(st.sets(st.sampled_from(sorted(run.processors)), min_size=1))
    location_of = {name: location for name, location in run.processors.items() if name in stay}
    location_of |= {f"new-{i}": location for i, location in enumerate(come)}
    after = run.then(location_of).assigned()
    for name, change in processor_changes(run.assigned(), after).items():
        if name in stay and change.lost:
            assert len(run.assigned().tasks_of[name]) > len(run.tasks) // len(location_of)


def test_a_diff_lists_what_each_processor_gains_and_loses() -> None:
    old = Assignment({"P1": ("a", "b"), "P2": ("c",), "P3": ("d",), "P4": ()})
    new = Assignment({"P1": ("a",), "P2": ("b", "c"), "P4": (), "P5": ("d",)})
    changes = processor_changes(old, new)
    assert changes == {
        "P1": ProcessorChange(lost=("b",)),
        "P2": ProcessorChange(gained=("b",)),
        "P3": ProcessorChange(lost=("d",)),
        "P4": ProcessorChange(),
        "P5": ProcessorChange(gained=("d",)),
    }
    assert [name for name, change in changes.items() if not change] == ["P4"]


@given(first_runs(), first_runs())
def test_a_diff_leads_from_one_assignment_to_the_other(first: Given, second: Given) -> None:
    old, new = first.assigned(), second.assigned()
    parts = {name: set(part) for name, part in old.tasks_of.items()}
    for name, change in processor_changes(old, new).items():
        parts[name] = (parts.get(name, set()) - set(change.lost)) | set(change.gained)
    assert {name: part for name, part in parts.items() if part} == {
        name: set(part) for name, part in new.tasks_of.items() if part
    }


def test_a_task_has_moved_if_it_left_its_recorded_state() -> None:
    assignment = Assignment({"P1": ("t-10", "t-2"), "P2": ("t-3", "t-4")})
    recorded = {"t-10": "L2", "t-2": "gone", "t-3": "L2"}
    assert moved_tasks(assignment, {"P1": "L1", "P2": "L2"}, recorded) == (
        MovedTask("t-2", "gone", "L1"),
        MovedTask("t-10", "L2", "L1"),
    )


def test_what_an_assignment_keeps_is_counted() -> None:
    assignment = Assignment({"P1": ("a", "b"), "P2": ("c",)})
    record = {"a": "L1", "b": "L2"}, {"a": "P1", "c": "P2"}
    assert locality(assignment, {"P1": "L1", "P2": "L2"}, *record) == Locality(at_location=1, on_processor=2)
