"""The plan of one batch: what each task does in it, in the form that the driver sends to the slots.

Made from the durable offsets alone (`loop.next_batch`), so that a replay makes the same plan. Must not read streams.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.tasks.partitions import StreamPartition, parse_partition
from holdfast_runtime.streams.records import OffsetRange


class SettledPartition(NamedTuple):
    """A partition that gave keys to new partitions, after the grace period: producers should know the new count."""

    since: int
    """The offset from which on this holds."""
    partitions: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One task's part of a batch."""

    number: int
    """In how many batches the task has taken part, including this one: the batch number of its state."""
    ranges: tuple[OffsetRange, ...]
    ended: tuple[StreamPartition, ...] = ()
    """Partitions of bounded streams that this batch reads to their end."""
    jumped: Mapping[StreamPartition, int] = field(default_factory=dict)
    """Partition -> its position before a jump, where a user has set where the range begins."""
    settled: Mapping[StreamPartition, SettledPartition] = field(default_factory=dict)
    """Partitions read in this turn that gave keys to new partitions."""

    @property
    def fetched(self) -> tuple[OffsetRange, ...]:
        """The ranges that are not empty; one is empty after a jump to where nothing is left to read."""
        return tuple(wanted for wanted in self.ranges if wanted.start < wanted.end)


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The plan of one batch."""

    batch: int
    epoch: int
    """The attempt that runs it."""
    now: int
    """The batch clock."""
    first: bool
    """Whether it is the attempt's first batch: control messages were not heard before it."""
    turns: Mapping[str, Turn]
    """Task that takes part -> its turn."""
    skew: int = 0
    """How far the batch clock is ahead of the host's clock."""

    @property
    def wall(self) -> int:
        """The host's clock: the time of day outside of the engine."""
        return self.now - self.skew

    def text(self) -> str:
        """Return the plan as JSON."""
        turns = {
            task: [
                turn.number,
                [[str(wanted.partition), wanted.start, wanted.end] for wanted in turn.ranges],
                [str(partition) for partition in turn.ended],
                {str(partition): at for partition, at in turn.jumped.items()},
                [[str(partition), *one] for partition, one in turn.settled.items()],
            ]
            for task, turn in self.turns.items()
        }
        return json.dumps([self.batch, self.epoch, self.now, self.skew, self.first, turns], separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> "BatchPlan":
        """Return the plan from the text that `text` made."""
        batch, epoch, now, skew, first, tree = json.loads(text)
        turns = {
            task: Turn(
                number,
                tuple(OffsetRange(parse_partition(name), start, end) for name, start, end in ranges),
                tuple(parse_partition(name) for name in ended),
                {parse_partition(name): at for name, at in jumped.items()},
                {parse_partition(name): SettledPartition(start, count) for name, start, count in gave},
            )
            for task, (number, ranges, ended, jumped, gave) in tree.items()
        }
        return cls(batch, epoch, now, first, turns, skew)
