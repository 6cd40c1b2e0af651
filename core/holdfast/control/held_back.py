"""Why: "why does my window not close?" has one answer at any moment: the producer that everybody waits for.

Finds it and says it in a sentence. Must not change anything, nor decide whether waiting is right.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.control.partition_watermark import PartitionWatermark
from holdfast.control.producers import Producers
from holdfast.control.watermark import Watermarks
from holdfast.moments import event_moment, time_span
from holdfast.tasks.partitions import StreamPartition


@dataclass(frozen=True, slots=True)
class HeldBack:
    """What keeps a watermark where it is."""

    partition: StreamPartition
    producer: str | None
    """The task waited for; None: the source or a relay, or a task whose name nobody knows yet."""
    watermark: int | None
    """Where the partition's watermark stands; None: none yet."""
    since: int
    """The clock since when it stands there."""
    heard_at: int | None
    """The clock when the producer was last heard; None: never."""
    reported: int
    """How many producers have been heard."""
    expected: int

    def sentence(self, now: int) -> str:
        """The same for people."""
        where = (
            "no watermark yet" if self.watermark is None else f"the watermark stands at {event_moment(self.watermark)}"
        )
        return f"{self.partition}: {where}, for {time_span(now - self.since)}: {self._because(now)}"

    def _because(self, now: int) -> str:
        heard = None if self.heard_at is None else f"last heard {time_span(now - self.heard_at)} ago"
        if self.producer is not None and heard is not None:
            return f"waiting for task {self.producer}, {heard}"
        if heard is not None or not self.expected:
            return f"waiting for its source or relay, {heard or 'never heard'}"
        whom = f" (next: task {self.producer})" if self.producer is not None else ""
        return f"waiting for {self.expected - self.reported} of {self.expected} producers, never heard{whom}"


def held_back_by(watermarks: Watermarks, now: int, streams: Iterable[str] | None = None) -> HeldBack | None:
    """What holds back the minimum over these streams (default: all); None if nothing does, as all have ended."""
    wanted = None if streams is None else set(streams)
    candidates = [
        (known.value is not None, known.value or 0, partition)
        for partition, known in watermarks.partitions.items()
        if (wanted is None or partition.stream in wanted) and not known.ended(watermarks.rule(partition))
    ]
    if not candidates:
        return None
    partition = min(candidates)[2]
    return _holder(partition, watermarks.partitions[partition], watermarks.rule(partition), now)


def _holder(partition: StreamPartition, known: PartitionWatermark, rule: Producers, now: int) -> HeldBack:
    counted, expected = known.counted(rule, now), rule.expected(known.said)
    producer, heard_at = min(rule.names.difference(known.producers), default=None), None
    if counted:
        producer = min(counted, key=lambda task: (counted[task].watermark, task))
        heard_at = counted[producer].at
    elif known.nameless is not None:
        producer, heard_at = None, known.nameless.at
    since = known.since if known.moved_at is None else known.moved_at
    return HeldBack(partition, producer, known.value, since, heard_at, len(known.producers), expected)
