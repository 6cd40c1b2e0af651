"""Which slots there are, and where, when executors come and go."""

from holdfast.protocol.assignment import Assignment
from holdfast_runtime.coordination.coordinator import Placement
from holdfast_runtime.driver.slot_placement import SlotPlacement
from holdfast_runtime.spark.located import Executor, by_processor

FIRST = Placement(1, {"pod-0": "claim-0", "pod-1": "claim-1"}, Assignment({"pod-0": ("a", "b"), "pod-1": ("c",)}))
SWAPPED = Placement(2, FIRST.locations, Assignment({"pod-0": ("a", "c"), "pod-1": ("b",)}))
UP = {"pod-0": "10.0.0.1_1", "pod-1": "10.0.0.2_2"}
NOW = SlotPlacement(FIRST, UP, 2)


def test_an_executor_goes_by_its_pod_else_by_its_id() -> None:
    executors = [Executor("1", "h_1", "pod-0"), Executor("2", "h_2")]
    assert by_processor(executors) == {"pod-0": "h_1", "2": "h_2"}


def test_of_two_executors_in_one_pod_the_younger_one_counts() -> None:
    executors = [Executor("10", "h_10", "pod-0"), Executor("9", "h_9", "pod-0")]
    assert by_processor(executors) == {"pod-0": "h_10"}


def test_slots_are_where_their_processor_is() -> None:
    assert NOW.slots == {"pod-0/0": ("a",), "pod-0/1": ("b",), "pod-1/0": ("c",)}
    assert NOW.slot_executors == {"pod-0/0": "10.0.0.1_1", "pod-0/1": "10.0.0.1_1", "pod-1/0": "10.0.0.2_2"}


def test_nothing_new_changes_nothing() -> None:
    assert NOW.followed(None, UP) is NOW
    assert NOW.followed(None, {**UP, "pod-2": "10.0.0.3_3"}) is NOW, "a processor without tasks is no news"


def test_a_pod_back_as_another_executor_keeps_its_tasks_elsewhere() -> None:
    after = NOW.followed(None, {**UP, "pod-0": "10.0.0.9_7"})
    assert after.slots == NOW.slots
    assert after.placement is FIRST
    assert after.slot_executors == {"pod-0/0": "10.0.0.9_7", "pod-0/1": "10.0.0.9_7", "pod-1/0": "10.0.0.2_2"}


def test_slots_of_a_missing_processor_stay_until_it_is_back() -> None:
    assert NOW.followed(None, {"pod-1": UP["pod-1"]}) is NOW


def test_a_newer_placement_moves_only_what_differs() -> None:
    after = NOW.followed(SWAPPED, UP)
    assert after.placement is SWAPPED
    assert after.slots == {"pod-0/0": ("a",), "pod-0/1": ("c",), "pod-1/0": ("b",)}
    assert (after.slots["pod-0/0"], after.slot_executors["pod-0/0"]) == (
        NOW.slots["pod-0/0"],
        NOW.slot_executors["pod-0/0"],
    )
