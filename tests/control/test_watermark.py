from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.bookkeeping import ControlInputs
from holdfast.control.producers import SOURCE as SOURCE_RULE
from holdfast.control.producers import Delivery, Producers, UntrackedPartitionError
from holdfast.control.watermark import Upstream, Watermarks, input_watermark, no_watermarks
from holdfast.tasks.partitions import StreamPartition
from tests.control.histories import (
    FOREIGN,
    IDLE_AFTER,
    MID,
    PARTITIONS,
    SOURCE,
    TASKS,
    Batch,
    any_inputs,
    ended,
    histories,
    inputs,
    said,
)
from tests.control.model import Model

NEW = StreamPartition("mid", 2)


def fresh(control_inputs: ControlInputs | None = None) -> Watermarks:
    control_inputs = control_inputs or inputs()
    return no_watermarks().tracking(control_inputs.partitions, control_inputs.producers, 0)


def after(state: Watermarks, batch: Batch) -> Watermarks:
    return state.apply(batch.deliveries, batch.now).tick(batch.now)


def at_least(now: int | None, before: int | None) -> bool:
    return before is None or (now is not None and now >= before)


@given(histories(), any_inputs)
def test_each_partitions_watermark_is_what_the_rules_say(history: list[Batch], control_inputs: ControlInputs) -> None:
    state = fresh(control_inputs)
    models = {partition: Model(control_inputs.producers.get(partition.stream, SOURCE_RULE)) for partition in PARTITIONS}
    for batch in history:
        state = after(state, batch)
        for partition, model in models.items():
            messages = [message for receiver, message in batch.deliveries if receiver == partition]
            assert state.of(partition) == model.batch(messages, batch.now), partition


@given(histories(), any_inputs, st.integers(0, 8), st.integers(0, 8))
def test_no_watermark_ever_goes_back_through_growth_and_stops(
    history: list[Batch], control_inputs: ControlInputs, growth: int, stop: int
) -> None:
    state, later = fresh(control_inputs), 0
    for number, batch in enumerate(history):
        before = state
        if number == growth:
            state = state.tracking(
                [*PARTITIONS, NEW, StreamPartition("src", 1)], control_inputs.producers, batch.now + later
            )
        if number == stop:
            later = 10 * IDLE_AFTER
            state = state.resumed(batch.now + later)
        state = after(state, Batch(batch.now + later, batch.deliveries))
        assert all(at_least(state.of(partition), before.of(partition)) for partition in PARTITIONS)
        assert all(at_least(state.stream(stream), value) for stream, value in before.streams().items())


@given(histories(anew=False), any_inputs, st.randoms())
def test_the_order_of_producers_within_a_batch_does_not_matter(
    history: list[Batch], control_inputs: ControlInputs, random: Random
) -> None:
    in_order = shuffled = fresh(control_inputs)
    for batch in history:
        in_order = after(in_order, batch)
        shuffled = after(shuffled, Batch(batch.now, tuple(interleaved(batch.deliveries, random))))
        assert in_order == shuffled


@given(histories(ends=False))
def test_without_idleness_it_does_not_matter_where_batches_are_cut(history: list[Batch]) -> None:
    control_inputs = inputs(idle_after=None)
    by_batch = by_message = fresh(control_inputs)
    for batch in history:
        by_batch = after(by_batch, batch)
        for delivery in batch.deliveries:
            by_message = by_message.apply([delivery], batch.now)
        assert by_batch == by_message


def interleaved(deliveries: tuple[Delivery, ...], random: Random) -> list[Delivery]:
    """Another order in which each producer's own messages keep theirs, as logs do."""
    queues: dict[object, list[Delivery]] = {}
    for delivery in deliveries:
        queues.setdefault((delivery.partition, delivery.message.task), []).append(delivery)
    merged: list[Delivery] = []
    while queues:
        key = random.choice(list(queues))
        merged.append(queues[key].pop(0))
        if not queues[key]:
            del queues[key]
    return merged


def test_all_are_heard_before_any_is_weighed() -> None:
    state = fresh().apply([said(1, task, 0) for task in TASKS], 0)
    late = 10 * IDLE_AFTER
    # Had b been weighed alone, it would have been the only active one, and 50 the watermark.
    assert state.apply([said(50, "b", 1), said(20, "a", 1), said(30, "c", 1)], late).of(MID[0]) == 20


def test_a_producer_is_left_out_exactly_after_enough_silence() -> None:
    state = fresh().apply([said(1, task, 0) for task in TASKS], 0)
    state = state.apply([said(50, "a", 1), said(60, "b", 1)], 10)
    assert state.tick(IDLE_AFTER - 1).of(MID[0]) == 1
    assert state.tick(IDLE_AFTER).of(MID[0]) == 50


def test_a_producer_never_heard_is_silent_from_the_beginning() -> None:
    state = fresh().apply([said(50, "a", 1), said(60, "b", 1)], 10)
    assert state.tick(IDLE_AFTER - 1).of(MID[0]) is None
    assert state.tick(IDLE_AFTER).of(MID[0]) == 50


def test_a_producer_that_has_ended_holds_nothing_back() -> None:
    state = fresh().apply([*(said(10, task, 0) for task in TASKS), said(40, "a", 1), said(50, "b", 1)], 0)
    assert state.of(MID[0]) == 10
    assert state.apply([ended("c", 2)], 0).of(MID[0]) == 40


def test_a_quorum_is_of_producers_that_have_not_ended() -> None:
    state = fresh(inputs(quorum=0.67)).apply([*(said(10, task, 0) for task in TASKS), ended("a", 1)], 0)
    # One of two is two thirds rounded down; one of three would not be.
    assert state.apply([said(40, "b", 1)], IDLE_AFTER).of(MID[0]) == 40


def test_an_ended_partition_neither_holds_back_nor_moves_its_stream() -> None:
    state = fresh().apply([said(10, None, 0, MID[0]), said(50, None, 0, MID[1])], 0)
    assert state.stream("mid") == 10
    state = state.apply([ended(None, 1, MID[0])], 0)
    assert state.stream("mid") == 50
    assert state.apply([ended(None, 1, MID[1])], 0).stream("mid") == 50


def test_a_stop_is_no_silence() -> None:
    state = fresh().apply([said(10, task, 0) for task in TASKS], 0)
    late = 1000 * IDLE_AFTER
    assert state.tick(late).apply([said(99, "a", 1)], late).of(MID[0]) == 99
    assert state.resumed(late).apply([said(99, "a", 1)], late).of(MID[0]) == 10


def test_a_new_partition_starts_at_and_holds_its_streams_watermark() -> None:
    state = fresh().apply([said(10, None, 0, MID[0]), said(20, None, 0, MID[1])], 0)
    state = state.tracking([*PARTITIONS, NEW], inputs().producers, 5)
    state = state.apply([said(30, None, 1, MID[0]), said(30, None, 1, MID[1])], 5)
    assert state.stream("mid") == 10
    assert state.apply([said(25, None, 1, NEW)], 5).stream("mid") == 25


def test_a_task_that_left_the_plan_holds_nothing_back() -> None:
    state = fresh().apply([said(1, "a", 0), said(50, "b", 0), said(60, "c", 0)], 0)
    state = state.tracking(PARTITIONS, {"mid": Producers.of("bc")}, 5).apply([said(2, "a", 1)], 5)
    assert state.tick(5).of(MID[0]) == 50


def test_another_apps_stream_waits_for_as_many_as_messages_name() -> None:
    state = fresh().apply([said(5, "a", 0, FOREIGN), said(6, "b", 0, FOREIGN)], 0)
    assert state.of(FOREIGN) is None
    assert state.apply([said(7, "c", 0, FOREIGN)], 0).of(FOREIGN) == 5


def test_where_nothing_changes_nothing_is_copied() -> None:
    state = fresh(inputs(idle_after=None)).apply([said(10, task, 0) for task in TASKS], 0)
    assert state.tick(5) is state
    assert state.apply([said(10, "a", 0), said(9, "a", 1)], 5) is state
    moved = state.apply([said(11, "a", 2)], 5)
    assert all(moved.partitions[other] is state.partitions[other] for other in (MID[1], SOURCE))


def test_a_message_of_a_partition_not_read_is_an_error() -> None:
    with pytest.raises(UntrackedPartitionError, match="mid/2 came to a task that reads"):
        fresh().apply([said(5, "a", 0, NEW)], 0)


@pytest.mark.parametrize(
    ("share", "running", "needed"), [(0.5, 5, 2), (0.5, 1, 1), (0.0, 9, 1), (1.0, 7, 7), (0.29, 100, 29)]
)
def test_a_quorum_is_a_share_rounded_down_at_least_one(share: float, running: int, needed: int) -> None:
    assert Producers(quorum=share).needed(running) == needed


@pytest.mark.parametrize(
    ("upstream", "before", "watermark"),
    [
        ([Upstream(5), Upstream(3)], None, 3),
        ([Upstream(5), Upstream(None)], None, None),
        ([Upstream(5), Upstream(None)], 4, 4),
        ([Upstream(5), Upstream(3)], 4, 4),
        ([Upstream(5), Upstream(3, ended=True)], 4, 5),
        ([Upstream(5), Upstream(None, idle=True)], 4, 5),
        ([Upstream(5, idle=True), Upstream(9, ended=True)], 4, 5),
        ([Upstream(3, idle=True), Upstream(9, idle=True)], 4, 4),
        ([Upstream(5, idle=True), Upstream(None, idle=True)], 4, 4),
        ([], None, None),
    ],
)
def test_an_operator_believes_its_active_minimum_and_never_goes_back(
    upstream: list[Upstream], before: int | None, watermark: int | None
) -> None:
    assert input_watermark(upstream, before) == watermark
