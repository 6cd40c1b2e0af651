"""Positions and leader epochs, drawn: a log that loses its end and is written on is never read on as if it had not."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.offsets import Jump, Offsets
from holdfast_runtime.loop.leader_epochs import PositionChecks
from holdfast_runtime.loop.lost_positions import PositionLostError
from holdfast_runtime.loop.next_batch import AttemptInputs, LoopSnapshot, batch_to, check_replay, next_offsets
from holdfast_runtime.loop.ranges import BatchLimits
from holdfast_runtime.slot.batch_plan import BatchPlan
from holdfast_runtime.streams.records import EpochPosition, LogCut, OffsetBounds

A, B = StreamPartition("a", 0), StreamPartition("b", 0)
READING = AttemptInputs({"partition-0": (A, B)}, frozenset(), BatchLimits(4))


def seen(
    *, first: bool = False, cut: Mapping[StreamPartition, LogCut] | None = None, **bounds: OffsetBounds
) -> LoopSnapshot:
    """`a=...`: the bounds of its only partition; a stream that is not named is empty."""
    named = {StreamPartition(name, 0): bound for name, bound in bounds.items()}
    return LoopSnapshot({**dict.fromkeys((A, B), OffsetBounds(0, 0, 0)), **named}, 1000, first, cut=cut or {})


@dataclass
class Partition:
    """A partition as its brokers have it: each replica's records, as (epoch, id), and who leads in which epoch."""

    replicas: list[list[tuple[int, int]]] = field(default_factory=lambda: [[], []])
    leader: int = 0
    epoch: int = 0
    written: int = 0

    @property
    def log(self) -> list[tuple[int, int]]:
        return self.replicas[self.leader]

    def write(self, count: int, *, in_sync: bool) -> None:
        """Write to the leader, and to the other one if it keeps up."""
        if in_sync:
            self.replicas[1 - self.leader] = list(self.log)
        for log in self.replicas if in_sync else [self.log]:
            log += [(self.epoch, self.written + one) for one in range(count)]
        self.written += count

    def elect(self, *, lost: bool, other: bool) -> None:
        """Elect a leader, whatever it has; `lost`: nothing any more."""
        self.leader, self.epoch = 1 - self.leader if other else self.leader, self.epoch + 1
        if lost:
            self.replicas[self.leader] = []

    def bounds(self) -> OffsetBounds:
        return OffsetBounds(0, len(self.log), self.epoch)

    def cut(self, positions: Mapping[StreamPartition, EpochPosition]) -> dict[StreamPartition, LogCut]:
        """What librdkafka makes of a broker's answer: where the records of later epochs begin."""
        end = sum(epoch <= positions[A].epoch for epoch, _ in self.log)
        return {A: LogCut(end, "cut")} if end < positions[A].offset else {}


STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 6), st.booleans()),
    st.tuples(st.just("elect"), st.booleans(), st.booleans()),
    st.tuples(st.just("look"), st.booleans()),
)


@given(st.lists(STEPS, max_size=25))
def test_reading_goes_on_in_one_log_or_an_older_leaders(steps: list[tuple[str, int, bool]]) -> None:
    """A leader that comes back with records of an epoch before the position's is all that brokers can't tell."""
    partition, offsets, checks = Partition(), Offsets(), PositionChecks(lambda _: {})
    checks.ask = partition.cut
    first, read = True, list[tuple[int, int]]()
    reading = AttemptInputs({"partition-0": (A,)}, frozenset(), BatchLimits(4))
    for step in steps:
        if step[0] == "write":
            partition.write(step[1], in_sync=step[2])
        elif step[0] == "elect":
            partition.elect(lost=bool(step[1]), other=step[2])
        else:
            if step[1]:
                checks, first, offsets = PositionChecks(partition.cut), True, Offsets.parse(offsets.text())
            bounds = {A: partition.bounds()}
            try:
                world = LoopSnapshot(bounds, 1000, first, cut=checks.cut(offsets, bounds))
                offsets = next_offsets(offsets, reading, world)
            except PositionLostError:
                assert partition.log[: len(read)] != read, "nothing is lost"
                return
            at = offsets.positions[A]
            if partition.log[: len(read)] != read:
                assert partition.log[len(read) - 1][0] <= offsets.epochs[A]
                assert partition.log[len(read) - 1][0] < partition.epoch
                return
            first, read = False, partition.log[:at]


def test_an_epoch_stays_with_its_position_or_follows_the_leader() -> None:
    first = next_offsets(Offsets(), READING, seen(first=True, a=OffsetBounds(0, 9, 3), b=OffsetBounds(0, 2, 5)))
    assert (first.positions, first.epochs) == ({A: 4, B: 2}, {A: 3, B: 5})
    second = next_offsets(first, READING, seen(a=OffsetBounds(0, 9, 4), b=OffsetBounds(0, 2, 7)))
    assert (second.positions, second.epochs) == ({A: 8, B: 2}, {A: 4, B: 5})
    assert Offsets.parse(second.text()) == second
    plan = batch_to(second, READING.inputs, 1, first=False)
    assert [one.epoch for one in plan.turns["partition-0"].ranges] == [4]
    assert BatchPlan.parse(plan.text()) == plan


def test_a_position_without_an_epoch_gets_one_unasked() -> None:
    old = replace(next_offsets(Offsets(), READING, seen(first=True, a=OffsetBounds(0, 9))), epochs={})
    assert "epochs" not in old.text()
    queries: list[Mapping[StreamPartition, EpochPosition]] = []
    checks = PositionChecks(lambda due: queries.append(due) or {})  # type: ignore[func-returns-value]
    bounds = {A: OffsetBounds(0, 9, 3), B: OffsetBounds(0, 0, 5)}
    assert checks.cut(old, bounds) == {}
    after = next_offsets(old, READING, LoopSnapshot(bounds, 1000, first=True))
    assert after.epochs == {A: 3, B: 5}
    checks.cut(after, bounds)
    checks.cut(after, bounds)
    assert queries == [{A: EpochPosition(8, 3)}], "asked once, and for nothing where nothing was read"
    checks.cut(after, {**bounds, A: OffsetBounds(0, 9, 4)})
    assert len(queries) == 2, "asked again of the next leader"


def test_a_lost_position_is_refused_with_all_that_is_known() -> None:
    first = next_offsets(Offsets(), READING, seen(first=True, a=OffsetBounds(0, 4, 3)))
    world = seen(a=OffsetBounds(0, 9, 6), cut={A: LogCut(1, "the broker's words")})
    with pytest.raises(PositionLostError) as stopped:
        next_offsets(first, READING, world)
    message = str(stopped.value)
    assert "of a/0 is 4, of leader epoch 3, but its leader of epoch 6 has other records from offset 1 on" in message
    assert "the broker's words" in message
    assert "3 records that were read are gone" in message
    assert stopped.value.settings == ("a/0=1",)
    with pytest.raises(PositionLostError, match="Batch 1 was planned to read up to there"):
        check_replay(first, world)


def test_a_jump_leads_to_a_position_of_the_present_log() -> None:
    first = next_offsets(Offsets(), READING, seen(first=True, a=OffsetBounds(0, 4, 3)))
    world = seen(a=OffsetBounds(0, 9, 6), cut={A: LogCut(1, "cut")})
    after = next_offsets(first, READING, world, Jump("jump", {A: 4}, {A: 1}))
    assert (after.jumped, after.epochs[A]) == ({A: 4}, 6)


def test_a_batch_of_a_recreated_topic_is_not_repeated() -> None:
    planned = next_offsets(Offsets(), READING, replace(seen(first=True, a=OffsetBounds(0, 4)), ids={"a": "one"}))
    with pytest.raises(PositionLostError, match="its id is two"):
        check_replay(planned, replace(seen(a=OffsetBounds(0, 9)), ids={"a": "two"}))
