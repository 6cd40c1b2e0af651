"""Which side of a join is not read on, because it is far ahead of the other."""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.loop.joined_sides import (
    JoinedSide,
    JoinedSides,
    JoinedTasks,
    held_partitions,
    may_hold,
    spread_of,
)
from holdfast_runtime.loop.next_batch import AttemptInputs, LoopSnapshot, next_offsets
from holdfast_runtime.loop.ranges import BatchLimits
from holdfast_runtime.streams.records import OffsetBounds

A0, B0, A1, B1, C0 = (
    StreamPartition(stream, number) for stream, number in (("a", 0), ("b", 0), ("a", 1), ("b", 1), ("c", 0))
)
INPUTS = {"t-0": (A0, B0), "t-1": (A1, B1)}
JOIN = JoinedSides(
    "pairs",
    (
        JoinedSide(frozenset("a"), frozenset("a"), frozenset("a")),
        JoinedSide(frozenset("b"), frozenset("bc"), frozenset("b")),
    ),
    100,
    frozenset("ab"),
)


def held(marks: Mapping[str, int | None], *unread: StreamPartition) -> set[StreamPartition]:
    return set(held_partitions([JOIN], INPUTS, JoinedTasks({"t-0": marks}), set(unread)))


def test_a_side_too_far_ahead_waits_while_others_have_records() -> None:
    assert held({"a": 301, "b": 200}, A0, B0) == {A0}
    assert held({"a": 300, "b": 200}, A0, B0) == set()
    assert held({"a": 200, "b": 301}, A0, B0) == {B0}


def test_it_waits_for_records_on_their_way_too() -> None:
    """`c` is written on into `b`, whoever reads it."""
    assert held({"a": 301, "b": 200}, A0, C0) == {A0}


def test_nobody_waits_for_a_side_without_records_or_elsewhere() -> None:
    assert held({"a": 301, "b": 200}, A0) == set()
    assert held({"a": 301, "b": 200}, A0, B1) == set()


def test_nobody_waits_before_both_sides_have_event_time() -> None:
    assert held({"a": 301, "b": None}, A0, B0) == set()
    assert held({"a": 301}, A0, B0) == set()
    assert held({}, A0, B0) == set()


def test_the_reason_names_the_join_and_both_sides() -> None:
    far = JoinedTasks({"t-0": {"a": 7_200_000, "b": 0}})
    assert held_partitions([JOIN], INPUTS, far, {B0}) == {
        A0: "step pairs: a is 2 h ahead of b, and waits until that is read"
    }


def test_a_task_with_rows_put_aside_reads_no_more_yet() -> None:
    aside = JoinedTasks(unjoined={"t-0": {"pairs": 70}, "t-1": {}})
    reason = (
        "step pairs: 70 rows wait to be joined, because rows of their keys make very many pairs; a, b wait until "
        "they are"
    )
    assert held_partitions([JOIN], INPUTS, aside, {A0, B0, A1}) == {A0: reason, B0: reason}


def test_a_stream_joined_with_itself_is_never_ahead() -> None:
    self_join = replace(JOIN, sides=(JoinedSide(frozenset(), frozenset("a"), frozenset()),) * 2, reads=frozenset("a"))
    assert held_partitions([self_join], INPUTS, JoinedTasks({"t-0": {"a": 10**9}}), {A0}) == {}


def test_a_side_does_not_wait_for_what_derives_from_it() -> None:
    """`b` is `a` by another key: on the way to it `a` itself is unread, in this task alone, or others that are read."""
    join = replace(JOIN, sides=(JOIN.sides[0], JoinedSide(frozenset("b"), frozenset("abc"), frozenset("b"))))
    far = JoinedTasks({"t-0": {"a": 301, "b": 200}})
    assert held_partitions([join], INPUTS, far, {A0}) == {}
    for other in (A1, C0):
        assert set(held_partitions([join], INPUTS, far, {A0, other})) == {A0}


def test_sides_do_not_wait_for_each_other_but_chains_do() -> None:
    """`d` is `b` after long windows, and `e` is `a`; both are far behind, and nothing is on its way."""
    inputs = {"t": tuple(StreamPartition(stream, 0) for stream in "abcde")}
    (a, b, c, _, _) = inputs["t"]
    first = replace(JOIN, sides=(JOIN.sides[0], JoinedSide(frozenset("d"), frozenset("bd"), frozenset("d"))))
    second = replace(
        JOIN,
        sides=(
            JoinedSide(frozenset("b"), frozenset("b"), frozenset("b")),
            JoinedSide(frozenset("e"), frozenset("ae"), frozenset("e")),
        ),
    )
    third = replace(
        JOIN,
        sides=(
            JoinedSide(frozenset("b"), frozenset("b"), frozenset("b")),
            JoinedSide(frozenset("c"), frozenset("c"), frozenset("c")),
        ),
    )
    marks = JoinedTasks({"t": {"a": 900, "b": 900, "c": 100, "d": 100, "e": 100}})
    assert held_partitions([first, second], inputs, marks, {a, b}) == {}
    assert set(held_partitions([first, third], inputs, marks, {a, b, c})) == {a, b}


def test_a_batch_leaves_the_side_out_and_the_next_resumes() -> None:
    reading = AttemptInputs(INPUTS, frozenset(), BatchLimits(10), joins=(JOIN,))
    snapshot = LoopSnapshot(dict.fromkeys((A0, B0, A1, B1), OffsetBounds(0, 100)), 1000, first=False)
    far = replace(snapshot, joined=JoinedTasks({"t-0": {"a": 301, "b": 200}, "t-1": {"a": 301, "b": 250}}))
    first = next_offsets(Offsets(), reading, far)
    assert set(first.starts) == {B0, A1, B1}
    assert (first.positions[A0], first.positions[A1]) == (0, 10)
    near = replace(snapshot, joined=JoinedTasks({"t-0": {"a": 301, "b": 201}}))
    assert set(next_offsets(first, reading, near).starts) == {A0, B0, A1, B1}


UNREAD = sorted({partition for partitions in INPUTS.values() for partition in partitions})
MARKS = st.dictionaries(st.sampled_from("ab"), st.none() | st.integers(0, 10**9))


@given(st.lists(MARKS, min_size=len(INPUTS), max_size=len(INPUTS)), st.sets(st.sampled_from(UNREAD)))
def test_looking_only_at_tasks_far_apart_holds_the_same(
    marks: list[dict[str, int | None]], unread: set[StreamPartition]
) -> None:
    of_task = dict(zip(INPUTS, marks, strict=True))
    spreads = {task: spread_of(known) for task, known in of_task.items()}
    held = held_partitions([JOIN], INPUTS, JoinedTasks(of_task), unread)
    tasks = JoinedTasks(of_task, spreads=spreads)
    assert held_partitions([JOIN], INPUTS, tasks, unread) == held
    assert may_hold([JOIN], tasks) or not held
