from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.end_of_stream import EndOfStream, no_ends
from holdfast.control.messages import EndOfStreamMessage, MessageNumber
from holdfast.control.producers import Delivery, Producers, UntrackedPartitionError
from holdfast.tasks.partitions import StreamPartition
from tests.control.histories import MID, SIDE, SOURCE, TASKS, ended, inputs, said

GIVEN = inputs()
FOREIGN = StreamPartition("foreign", 0)


def fresh() -> EndOfStream:
    return no_ends().tracking([*MID, SOURCE, SIDE], GIVEN.producers, GIVEN.side_inputs)


def end_of(task: str, count: int, partition: StreamPartition = FOREIGN) -> Delivery:
    return Delivery(partition, EndOfStreamMessage(partition.stream, MessageNumber(0, 0), task, count))


EVERY_END = [ended(task, 3, partition) for task, partition in product(TASKS, MID)] + [ended(None, 3, SOURCE)]


@given(st.permutations(EVERY_END * 2), st.data())
def test_inputs_end_exactly_with_the_last_message_in_any_interleaving(
    messages: list[Delivery], data: st.DataObject
) -> None:
    state, heard = fresh(), set[Delivery]()
    while messages:
        size = data.draw(st.integers(1, len(messages)))
        batch, messages = messages[:size], messages[size:]
        state = state.apply(batch)
        heard.update(batch)
        assert state.all_ended == (heard == set(EVERY_END))
        for partition in (*MID, SOURCE):
            ends = {end for end in EVERY_END if end.partition == partition}
            assert state.partitions[partition].ended == (ends <= heard)
    assert state.all_ended


@given(st.lists(st.sampled_from(EVERY_END)), st.randoms())
def test_the_order_and_number_of_messages_does_not_matter(messages: list[Delivery], random: Random) -> None:
    shuffled = sorted([*messages, *messages], key=lambda _: random.random())
    assert fresh().apply(messages) == fresh().apply(shuffled)


def test_side_inputs_are_followed_but_not_waited_for() -> None:
    state = fresh().apply(EVERY_END)
    assert state.all_ended
    assert not state.ended("side")
    assert state.apply([ended(None, 4, SIDE)]).ended("side")


def test_an_ended_partition_stays_ended_whatever_is_said_later() -> None:
    state = no_ends().tracking([FOREIGN], {}).apply([end_of("a", 1)])
    assert state.ended("foreign")
    assert state.apply([end_of("b", 5)]) is state


def test_another_apps_stream_ends_by_the_largest_count_ever_said() -> None:
    state = no_ends().tracking([FOREIGN], {}).apply([end_of("a", 3), end_of("b", 2)])
    assert not state.ended("foreign")
    assert state.apply([end_of("c", 2)]).ended("foreign")


def test_one_producer_too_many_ends_it_no_less() -> None:
    state = no_ends().tracking([FOREIGN], {"foreign": Producers(2)})
    assert state.apply([end_of(task, 2) for task in TASKS]).ended("foreign")


def test_tasks_the_plan_does_not_know_end_nothing() -> None:
    state = fresh().apply([end_of(task, 3, MID[0]) for task in ("x", "y", "z")])
    assert state == fresh()


def test_a_change_of_producers_between_attempts_can_complete_a_set() -> None:
    state = fresh().apply([ended(task, 1, partition) for task, partition in product("ab", MID)])
    assert not state.ended("mid")
    assert state.tracking([*MID, SOURCE], {"mid": Producers.of("ab")}).ended("mid")


def test_a_partition_that_appears_before_the_end_must_end_too() -> None:
    new = StreamPartition("src", 1)
    state = fresh().tracking([*MID, SOURCE, new], GIVEN.producers, GIVEN.side_inputs)
    state = state.apply(EVERY_END)
    assert not state.ended("src")
    assert state.apply([ended(None, 4, new)]).all_ended


def test_a_partition_after_the_end_of_its_stream_reopens_nothing() -> None:
    state = fresh().apply([ended(None, 3, SOURCE)])
    state = state.tracking([*MID, SOURCE, StreamPartition("src", 1)], GIVEN.producers, GIVEN.side_inputs)
    assert state.ended("src")


def test_a_stream_without_a_partition_here_has_ended_here() -> None:
    assert fresh().ended("elsewhere")


def test_watermarks_leave_it_untouched() -> None:
    state = fresh()
    assert state.apply([said(5, "a", 0)]) is state


def test_a_message_of_a_partition_not_read_is_an_error() -> None:
    with pytest.raises(UntrackedPartitionError, match="mid/7 came to a task that reads mid/0, mid/1, side/0, src/0"):
        fresh().apply([ended("a", 0, StreamPartition("mid", 7))])


def test_what_is_missing_is_named() -> None:
    end = fresh().apply([ended("b", 0)]).partitions[MID[0]]
    assert end.missing(GIVEN.producers["mid"]) == ("a", "c")
