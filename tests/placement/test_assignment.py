"""What an assignment looks like, told by example: each test is one sentence of the rule."""

import pytest

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.placement.assignment import assign
from tests.error_codes import has_code
from tests.placement.assignment_cases import Locality, locality


def assigned(tasks: str, processors: dict[str, str], task_location: str = "", ran_on: str = "") -> dict[str, str]:
    """Names are words; `task_location` and `ran_on` are words like `a:L1`. The parts come back as words too."""
    parts = assign(tasks.split(), processors, pairs(task_location), pairs(ran_on)).tasks_of
    return {processor: " ".join(part) for processor, part in parts.items()}


def pairs(text: str) -> dict[str, str]:
    return dict(word.split(":") for word in text.split())


def test_without_tasks_the_error_says_so_and_needs_a_user() -> None:
    with pytest.raises(UserActionError, match="no tasks", check=has_code("NoTasksError")) as caught:
        assign([], {"P1": "L1"}, {}, {})
    assert isinstance(caught.value, UserActionError)


def test_without_processors_the_error_says_so_and_waits_for_them() -> None:
    with pytest.raises(
        WorldChangeError, match="no processors for 2 tasks", check=has_code("NoProcessorsError")
    ) as caught:
        assign(["a", "b"], {}, {}, {})
    assert isinstance(caught.value, WorldChangeError)


def test_without_both_the_error_names_the_tasks() -> None:
    with pytest.raises(UserActionError, check=has_code("NoTasksError")):
        assign([], {}, {}, {})


def test_a_first_run_deals_tasks_in_the_order_of_numbers() -> None:
    tasks = " ".join(f"partition-{i}" for i in (10, 2, 0, 1))
    assert assigned(tasks, {"exec-10": "L", "exec-9": "L"}) == {
        "exec-9": "partition-0 partition-2",
        "exec-10": "partition-1 partition-10",
    }


def test_names_of_equal_number_are_still_told_apart() -> None:
    two = {"exec-1": "L", "exec-01": "L"}
    assert assigned("t-1 t-01", two) == assigned("t-01 t-1", dict(reversed(two.items())))


def test_a_task_named_twice_is_one_task() -> None:
    assert assigned("a a", {"P1": "L1"}) == {"P1": "a"}


def test_a_processor_without_tasks_is_in_the_assignment() -> None:
    assert assigned("a", {"P1": "L1", "P2": "L2"}) == {"P1": "a", "P2": ""}


def test_more_processors_than_tasks_keeps_those_that_hold_state() -> None:
    processors = {"P1": "L1", "P2": "L2", "P3": "L3", "P4": "L3"}
    assert assigned("a b", processors, "a:L3 b:L2", "a:P4 b:P2") == {"P1": "", "P2": "b", "P3": "", "P4": "a"}


def test_the_remainder_stays_where_it_is_whatever_the_names() -> None:
    record = "a:L1 b:L1 c:L2 d:L2 e:L2", "a:P1 b:P1 c:P2 d:P2 e:P2"
    assert assigned("a b c d e", {"P1": "L1", "P2": "L2"}, *record) == {"P1": "a b", "P2": "c d e"}
    swapped = "a:L1 b:L1 c:L1 d:L2 e:L2", "a:P1 b:P1 c:P1 d:P2 e:P2"
    assert assigned("a b c d e", {"P1": "L1", "P2": "L2"}, *swapped) == {"P1": "a b c", "P2": "d e"}


def test_processors_of_one_location_do_not_swap_tasks() -> None:
    processors = {"P1": "L1", "P2": "L1"}
    assert assigned("a b c d", processors, "a:L1 b:L1 c:L1 d:L1", "a:P2 b:P1 c:P2 d:P1") == {"P1": "b d", "P2": "a c"}


def test_a_task_stays_with_its_state_when_its_processor_moved() -> None:
    assert assigned("a b", {"P1": "L2", "P2": "L1"}, "a:L1 b:L2", "a:P1 b:P2") == {"P1": "b", "P2": "a"}


def test_a_task_without_known_location_goes_back_to_its_processor() -> None:
    assert assigned("a b", {"P1": "L1", "P2": "L2"}, "", "a:P2 b:P1") == {"P1": "b", "P2": "a"}
    assert assigned("a b", {"P1": "L1", "P2": "L2"}, "a:gone b:gone", "a:P2 b:P1") == {"P1": "b", "P2": "a"}


def test_a_task_whose_location_and_processor_are_gone_goes_anywhere() -> None:
    assert assigned("a b", {"P1": "L1", "P2": "L2"}, "a:gone b:L1", "a:gone b:gone") == {"P1": "b", "P2": "a"}


def test_tasks_whose_processor_left_leave_a_location_first() -> None:
    processors = {"P1": "L1", "P2": "L2", "P3": "L3"}
    task_location, ran_on = "a:L1 b:L1 c:L1", "a:P3 b:P1 c:P2"
    assert assigned("a b c", processors, task_location, ran_on) == {"P1": "b", "P2": "c", "P3": "a"}


def test_a_seat_at_the_location_goes_before_following_a_processor() -> None:
    processors = {"P1": "L1", "P2": "L2"}
    assert assigned("a b", processors, "a:L1", "a:P2") == {"P1": "a", "P2": "b"}


def test_a_task_at_home_goes_before_one_that_follows() -> None:
    processors = {"P1": "L1", "P2": "L2"}
    assert assigned("a b c d", processors, "c:L1 d:L1", "a:P1 b:P1 c:P1 d:P1") == {"P1": "c d", "P2": "a b"}


def test_an_extra_seat_keeps_a_task_on_its_processor() -> None:
    processors = {"P1": "L1", "P2": "L1", "P3": "L2"}
    task_location, ran_on = "a:L1 b:L1 c:L1 d:L2", "a:P1 b:P2 c:P2 d:P3"
    assert assigned("a b c d", processors, task_location, ran_on) == {"P1": "a", "P2": "b c", "P3": "d"}


def test_an_extra_seat_lets_a_task_follow_its_processor() -> None:
    processors = {"P1": "L1", "P2": "L1"}
    assert assigned("a b c", processors, "a:L1 b:L1", "a:P1 b:P2 c:P2") == {"P1": "a", "P2": "b c"}


def test_a_location_gives_up_its_extra_seat_for_a_follower() -> None:
    # L1 and L2 may each keep a third task; only b's processor has capacity for who leaves.
    processors = {"P1": "L1", "P2": "L2", "P3": "L3"}
    task_location, ran_on = "a:L1 b:L1 c:L2 d:L2", "a:gone b:P3 c:gone d:gone"
    assert assigned("a b c d", processors, task_location, ran_on) == {"P1": "a", "P2": "c d", "P3": "b"}


def test_no_more_tasks_follow_than_locations_must_send_away() -> None:
    # a and c could both follow, and L3 has capacity for both; but then L1 and L2 would be left with some free.
    processors = {"P1": "L1", "P2": "L2", "P3": "L3", "P4": "L3"}
    task_location, ran_on = "a:L1 b:L1 c:L2 d:L2", "a:P3 c:P4"
    assert assigned("a b c d e", processors, task_location, ran_on) == {"P1": "b", "P2": "c d", "P3": "a", "P4": "e"}


def test_following_spares_the_seat_of_a_task_at_home() -> None:
    # One task must leave L0 and one L3. If v leaves with P3, then w can go to P2, and P1 keeps its extra unit.
    processors = {"P0": "L0", "P1": "L1", "P2": "L1", "P3": "L1", "P4": "L2", "P5": "L2", "P6": "L3"}
    tasks_of = {"P0": "ab", "P1": "cde", "P2": "f", "P4": "ghi", "P6": "jk"}
    ran_on = {task: processor for processor, tasks in tasks_of.items() for task in tasks}
    task_location = {task: processors[processor] for task, processor in ran_on.items()}
    task_location |= {"u": "L0", "v": "L0", "w": "L3", "x": "L3"}
    ran_on |= {"u": "P2", "v": "P3", "w": "P2"}
    now = assign("abcdefghijkuvwxyz", processors, task_location, ran_on)
    assert locality(now, processors, task_location, ran_on) == Locality(at_location=13, on_processor=12)


def test_a_free_extra_seat_spares_processors_that_are_full() -> None:
    # 11 tasks on 6 processors, then on 5: one processor must hold 3. The short one takes in tasks anyway.
    names = [f"P{i}" for i in range(6)]
    before = dict.fromkeys(names, 2) | {"P4": 1}
    ran_on = [(f"t-{name}-{i}", name) for name, size in before.items() for i in range(size)]
    record = dict(ran_on)
    now = assign(record, {name: name for name in names[:5]}, record, record).tasks_of
    assert {name: len(part) for name, part in now.items()} == {"P0": 2, "P1": 2, "P2": 2, "P3": 2, "P4": 3}
