"""The plan of one batch, what each task does in it, as it travels from the driver to the slots.

Made from the durable offsets alone (`loop.next_batch`), so that a replay makes the same. Must not read streams.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.tasks.partitions import StreamPartition, parse_partition
from holdfast_runtime.streams.records import OffsetRange


class SettledPartition(NamedTuple):
    """A partition whose producers should know how many there are now."""

    since: int
    """From this offset on."""
    partitions: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One task's part of a batch."""

    number: int
    """In how many batches the task has taken part, this one included: the batch number of its state."""
    ranges: tuple[OffsetRange, ...]
    ended: tuple[StreamPartition, ...] = ()
    """Partitions of bounded streams that are read to their end with this batch."""
    jumped: Mapping[StreamPartition, int] = field(default_factory=dict)
    """Where partitions stood whose range begins elsewhere, because a user has set it."""
    settled: Mapping[StreamPartition, SettledPartition] = field(default_factory=dict)
    """What gave keys away to new partitions, among what is read."""

    @property
    def fetched(self) -> tuple[OffsetRange, ...]:
        """Ranges that hold records: at a jump to where nothing is there to read, one is empty."""
        return tuple(wanted for wanted in self.ranges if wanted.start < wanted.end)


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One batch."""

    batch: int
    epoch: int
    """The attempt that runs it."""
    now: int
    """The batch clock."""
    first: bool
    """The attempt's first: nobody listened before it."""
    turns: Mapping[str, Turn]
    """Tasks that take part."""
    skew: int = 0
    """How far the batch clock is ahead of the host's."""

    @property
    def wall(self) -> int:
        """The host's clock: what is called now outside of the engine."""
        return self.now - self.skew

    def text(self) -> str:
        """As JSON."""
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
        """The plan in this text, which `text` made."""
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
