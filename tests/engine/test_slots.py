"""From an assignment to slots."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol.assignment import Assignment
from holdfast_runtime.coordination.coordinator import tasks_by_slot


def test_tasks_of_a_processor_are_dealt_to_its_cores() -> None:
    assignment = Assignment({"0": ("a", "b", "c"), "1": ("d",)})
    assert tasks_by_slot(assignment, 2) == {"0/0": ("a", "c"), "0/1": ("b",), "1/0": ("d",)}


@given(st.lists(st.integers(0, 9), max_size=5), st.integers(1, 4))
def test_tasks_are_dealt_once_and_evenly_to_a_processors_slots(sizes: list[int], cores: int) -> None:
    names = {str(at): tuple(f"{at}-{n}" for n in range(size)) for at, size in enumerate(sizes)}
    slots = tasks_by_slot(Assignment(names), cores)
    assert sorted(task for tasks in slots.values() for task in tasks) == sorted(sum(names.values(), ()))
    for processor, tasks in names.items():
        slot_sizes = [len(slot_tasks) for slot, slot_tasks in slots.items() if slot.rpartition("/")[0] == processor]
        assert len(slot_sizes) == min(cores, len(tasks))
        assert not slot_sizes or max(slot_sizes) - min(slot_sizes) <= 1
