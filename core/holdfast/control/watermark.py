"""The watermarks of a task over all its partitions, of an operator's input, and which producer holds them back.

Windows close and buffers shrink when, and only when, they may. `apply` takes the messages of a batch at once, `tick`
looks at the clock; both give a new state that shares all partitions that did not change, which is what makes storing
a batch cheap. "Why does my window not close?" has one answer at any moment, in a sentence: the producer everybody
waits for. Must not read clocks or records itself, nor decide who is idle or whether waiting is right.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from holdfast.control.messages import ControlMessage
from holdfast.control.partition_watermark import PartitionWatermark
from holdfast.control.producers import SOURCE, Delivery, Producers, UntrackedPartitionError
from holdfast.moments import event_moment, time_span
from holdfast.tasks.partitions import StreamPartition


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The watermarks of all partitions of a task."""

    partitions: Mapping[StreamPartition, PartitionWatermark]
    producers: Mapping[str, Producers]

    def tracking(
        self, partitions: Iterable[StreamPartition], producers: Mapping[str, Producers], now: int
    ) -> "Watermarks":
        """The same for what an attempt reads: partitions may have come, gone, or got other producers.

        A new partition of a known stream starts at the watermark its stream has: nothing that was promised downstream
        is taken back, and nothing more is promised until the new partition has spoken.
        """
        streams, tracked = self.streams(), {}
        for partition in partitions:
            known = self.partitions.get(partition)
            if known is None:
                floor = streams.get(partition.stream)
                known = PartitionWatermark(since=now, value=floor, moved_at=None if floor is None else now)
            tracked[partition] = known.known_to(producers.get(partition.stream, SOURCE))
        return Watermarks(tracked, producers)

    def apply(self, deliveries: Iterable[Delivery], now: int) -> "Watermarks":
        """The state after the control messages of a batch; looks at the clock for the partitions that got one."""
        touched: dict[StreamPartition, list[ControlMessage]] = {}
        for partition, message in deliveries:
            touched.setdefault(partition, []).append(message)
        changed = {}
        for partition, messages in touched.items():
            before = self.partitions.get(partition)
            if before is None:
                raise UntrackedPartitionError(partition, self.partitions)
            changed[partition] = before.after(messages, self.rule(partition), now)
        return self._with(changed)

    def tick(self, now: int) -> "Watermarks":
        """The state at this clock: producers that fell silent are left out also where no message comes."""
        return self._with({name: known.weighed(self.rule(name), now) for name, known in self.partitions.items()})

    def resumed(self, now: int) -> "Watermarks":
        """The state when an attempt starts: while nobody listened, nobody was silent.

        Otherwise all producers would be idle after a long stop, and the first one heard would carry the watermark past
        the rows of the others. To be called once per attempt, not at each restore.
        """
        stopped = now - max((known.heard_at for known in self.partitions.values()), default=now)
        if stopped <= 0:
            return self
        return self._with({name: known.later(stopped) for name, known in self.partitions.items()})

    def believed(self, limits: Mapping[str, int], now: int) -> "Watermarks":
        """The state without what goes beyond `limits`, the latest event time of each stream that can be true.

        The one case in which a watermark goes back: by a promise that nobody can have meant, all rows would be late
        until the clock is there.
        """
        return self._with(
            {
                name: known.believed(limits[name.stream], now)
                for name, known in self.partitions.items()
                if name.stream in limits
            }
        )

    def of(self, partition: StreamPartition) -> int | None:
        """The watermark of a partition; None: none yet."""
        known = self.partitions.get(partition)
        return None if known is None else known.value

    def stream(self, stream: str) -> int | None:
        """The watermark of a stream in this task; None: none yet, or nothing of it is read here."""
        return self.streams().get(stream)

    def streams(self) -> dict[str, int | None]:
        """The watermark of each stream: the minimum over its partitions.

        Partitions that have ended hold nothing back. When all have, the stream stays where it was last.
        """
        running: dict[str, list[int | None]] = {}
        ended: dict[str, list[int | None]] = {}
        for partition, known in self.partitions.items():
            group = ended if known.ended(self.rule(partition)) else running
            group.setdefault(partition.stream, []).append(known.value)
        lasts = {
            stream: max((value for value in values if value is not None), default=None)
            for stream, values in ended.items()
        }
        return lasts | {stream: lowest(values) for stream, values in running.items()}

    def rule(self, partition: StreamPartition) -> Producers:
        """Who writes the stream of this partition."""
        return self.producers.get(partition.stream, SOURCE)

    def _with(self, changed: Mapping[StreamPartition, PartitionWatermark]) -> "Watermarks":
        moved = {name: known for name, known in changed.items() if known is not self.partitions[name]}
        return replace(self, partitions={**self.partitions, **moved}) if moved else self


def lowest(watermarks: Iterable[int | None]) -> int | None:
    """The minimum, where any that is missing makes it missing."""
    known = list(watermarks)
    present = [watermark for watermark in known if watermark is not None]
    return min(present) if known and len(present) == len(known) else None


def no_watermarks() -> Watermarks:
    """Where a task begins; `tracking` tells it what it reads."""
    return Watermarks({}, {})


@dataclass(frozen=True, slots=True)
class Upstream:
    """One thing an operator reads."""

    watermark: int | None
    ended: bool = False
    """No row follows from it, so it holds nothing back."""
    idle: bool = False
    """Silent longer than its `idleAfter`: it holds nothing back either, until it speaks again."""


def input_watermark(upstream: Iterable[Upstream], before: int | None = None) -> int | None:
    """The watermark of an operator's input: the minimum upstream, never less than it was `before`.

    If nothing upstream is active it stays: idle is not the end of time, the next row may be as early as ever.
    """
    reached = lowest(one.watermark for one in upstream if not one.ended and not one.idle)
    if reached is None or before is None:
        return before if reached is None else reached
    return max(reached, before)


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
