from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.bookkeeping import Bookkeeping, ControlInputs
from holdfast.control.watermark import held_back_by, lowest
from tests.control.histories import (
    FOREIGN,
    IDLE_AFTER,
    MID,
    SOURCE,
    TASKS,
    Batch,
    any_inputs,
    ended,
    histories,
    inputs,
    lived,
    said,
)
from tests.control.test_watermark import fresh

ALL = [said(1_700_000_000_000 + number, task, 0) for number, task in enumerate(TASKS)]


def explained(state: Bookkeeping, now: int, *streams: str) -> str:
    held = held_back_by(state.watermarks, now, streams)
    assert held is not None
    return held.sentence(now)


def started(idle_after: int | None = None, *, named: bool = True) -> Bookkeeping:
    return Bookkeeping.started(inputs(idle_after, named=named), 0)


def test_the_lowest_producer_holds_back_since_it_last_moved() -> None:
    state = started().batch([*ALL, said(5, None, 0, MID[1])], 1_000).batch([*ALL, said(2**41, None, 1, MID[1])], 2_000)
    state = state.batch([said(1_700_000_000_000, "a", 1)], 3_000)
    assert explained(state, 42_000, "mid") == (
        "mid/0: the watermark stands at 2023-11-14T22:13:20.000Z, for 41 s: waiting for task a, last heard 39 s ago"
    )


def test_a_producer_never_heard_is_named_if_planned() -> None:
    state = started().batch([said(5, "a", 0), said(5, None, 0, MID[1])], 0)
    assert explained(state, 7_300_000, "mid") == (
        "mid/0: no watermark yet, for 2 h: waiting for 2 of 3 producers, never heard (next: task b)"
    )


def test_an_unplanned_producer_never_heard_is_counted() -> None:
    state = started(named=False).batch([said(5, "a", 0), said(5, None, 0, MID[1])], 0)
    assert explained(state, 130_000, "mid") == (
        "mid/0: no watermark yet, for 2 min: waiting for 2 of 3 producers, never heard"
    )


def test_a_source_that_is_silent_is_named() -> None:
    state = started()
    assert (
        explained(state, 9_000, "src")
        == "src/0: no watermark yet, for 9 s: waiting for its source or relay, never heard"
    )
    state = state.batch([said(10**17, None, 0, SOURCE)], 10_000)
    assert explained(state, 12_000, "src") == (
        "src/0: the watermark stands at the year 3,170,843, for 2 s: "
        "waiting for its source or relay, last heard 2 s ago"
    )


def test_producers_left_out_as_idle_are_not_blamed() -> None:
    state = started(IDLE_AFTER).batch([*ALL, said(2**41, None, 0, MID[1])], 0)
    state = state.batch([said(1_700_000_000_001, "b", 1), said(1_700_000_000_009, "c", 1)], IDLE_AFTER)
    held = held_back_by(state.watermarks, IDLE_AFTER, ["mid"])
    assert held is not None
    assert held.producer == "b"


def test_the_stream_that_holds_others_back_is_found() -> None:
    ticking = [said(2**41, None, 0, partition) for partition in (*MID, SOURCE)]
    state = started().batch(ticking, 0)
    held = held_back_by(state.watermarks, 0, ["mid", "src", "foreign"])
    assert held is not None
    assert held.partition == FOREIGN


def test_nothing_holds_back_what_has_ended() -> None:
    state = started().batch([ended(None, 0, partition) for partition in MID], 0)
    assert held_back_by(state.watermarks, 0, ["mid"]) is None


@given(histories(), any_inputs, st.integers(0, 5_000))
def test_what_is_blamed_stands_at_the_minimum(history: list[Batch], control_inputs: ControlInputs, later: int) -> None:
    state = lived(history, Bookkeeping(fresh(control_inputs), Bookkeeping.started(control_inputs, 0).ends))
    now = history[-1].now + later
    held = held_back_by(state.watermarks, now)
    running = [
        known.value
        for partition, known in state.watermarks.partitions.items()
        if not known.ended(state.watermarks.rule(partition))
    ]
    if held is None:
        assert not running
        return
    assert held.watermark == lowest(running)
    assert str(held.partition) in held.sentence(now)
