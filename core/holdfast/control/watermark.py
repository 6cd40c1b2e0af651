"""The watermarks of a task over all its partitions, of an operator's input, and which producer holds them back.

Windows close and buffers shrink by these watermarks. `apply` takes all messages of a batch at once, `tick` applies the
clock; both return a new value that shares unchanged partitions, which makes storing a batch cheap. `held_back_by`
answers "Why does my window not close?" in one sentence: it names the producer that is waited for. Must not read clocks
or records itself, nor decide which producers are idle.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from holdfast.control.messages import ControlMessage
from holdfast.control.partition_watermark import PartitionWatermark
from holdfast.control.producers import SOURCE, Delivery, Producers, UntrackedPartitionError
from holdfast.control.runs import app_of
from holdfast.tasks.partitions import StreamPartition
from holdfast.times import event_moment, time_span


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The watermarks of all partitions of a task."""

    partitions: Mapping[StreamPartition, PartitionWatermark]
    producers: Mapping[str, Producers]

    def tracking(
        self, partitions: Iterable[StreamPartition], producers: Mapping[str, Producers], now: int
    ) -> "Watermarks":
        """Return the watermarks for what an attempt reads: partitions may be new or gone, or have other producers.

        A new partition of a known stream starts at the watermark of its stream: so the stream's watermark does not go
        back, and does not advance until the new partition has got messages.
        """
        streams, tracked = self.streams(), {}
        for partition in partitions:
            watermark = self.partitions.get(partition)
            if watermark is None:
                floor = streams.get(partition.stream)
                watermark = PartitionWatermark(since=now, value=floor, moved_at=None if floor is None else now)
            tracked[partition] = watermark.known_to(producers.get(partition.stream, SOURCE))
        return Watermarks(tracked, producers)

    def apply(self, deliveries: Iterable[Delivery], now: int) -> "Watermarks":
        """Return the watermarks after the control messages of a batch; `now` applies to partitions that got one."""
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
        """Return the watermarks at this clock: idle producers are left out also in partitions without messages."""
        return self._with(
            {name: watermark.weighed(self.rule(name), now) for name, watermark in self.partitions.items()}
        )

    def resumed(self, now: int) -> "Watermarks":
        """Return the watermarks at the start of an attempt: the time in which the task did not run is not silence.

        Otherwise all producers would be idle after a long stop, and the first message would move the watermark past the
        rows of the other producers. Call this once per attempt, not at each restore.
        """
        stopped = now - max((watermark.heard_at for watermark in self.partitions.values()), default=now)
        if stopped <= 0:
            return self
        return self._with({name: watermark.later(stopped) for name, watermark in self.partitions.items()})

    def believed(self, limits: Mapping[str, int], now: int) -> "Watermarks":
        """Return the watermarks without those beyond `limits`, the latest plausible event time of each stream.

        The one case in which a watermark goes back: with a watermark far in the future, all rows would be late until
        the clock gets there.
        """
        return self._with(
            {
                name: watermark.believed(limits[name.stream], now)
                for name, watermark in self.partitions.items()
                if name.stream in limits
            }
        )

    def idle(self, partition: StreamPartition) -> bool:
        """Whether the producers of a partition have said that they are idle."""
        return self.partitions[partition].idle(self.rule(partition))

    def of(self, partition: StreamPartition) -> int | None:
        """Return the watermark of a partition; None: none yet."""
        watermark = self.partitions.get(partition)
        return None if watermark is None else watermark.value

    def stream(self, stream: str) -> int | None:
        """Return the watermark of a stream in this task; None: none yet, or this task does not read it."""
        return self.streams().get(stream)

    def streams(self) -> dict[str, int | None]:
        """Return stream -> watermark: the minimum over its partitions.

        Partitions that have ended hold nothing back. When all have ended, the stream keeps its last watermark.
        """
        running: dict[str, list[int | None]] = {}
        ended: dict[str, list[int | None]] = {}
        for partition, watermark in self.partitions.items():
            group = ended if watermark.ended(self.rule(partition)) else running
            group.setdefault(partition.stream, []).append(watermark.value)
        lasts = {
            stream: max((value for value in values if value is not None), default=None)
            for stream, values in ended.items()
        }
        return lasts | {stream: lowest(values) for stream, values in running.items()}

    def rule(self, partition: StreamPartition) -> Producers:
        """Return the producers of this partition's stream."""
        return self.producers.get(partition.stream, SOURCE)

    def _with(self, changed: Mapping[StreamPartition, PartitionWatermark]) -> "Watermarks":
        moved = {name: watermark for name, watermark in changed.items() if watermark is not self.partitions[name]}
        return replace(self, partitions={**self.partitions, **moved}) if moved else self


def lowest(watermarks: Iterable[int | None]) -> int | None:
    """Return the minimum; None if any watermark is None or there are none."""
    values = list(watermarks)
    present = [watermark for watermark in values if watermark is not None]
    return min(present) if values and len(present) == len(values) else None


def no_watermarks() -> Watermarks:
    """Return the watermarks of a new task, without partitions: `tracking` adds those it reads."""
    return Watermarks({}, {})


@dataclass(frozen=True, slots=True)
class Upstream:
    """The watermark and end of one input of an operator."""

    watermark: int | None
    ended: bool = False
    """No row follows from it, so it holds nothing back."""
    idle: bool = False
    """Silent for longer than its `idleAfter`, or said to be: it holds nothing back until it sends something again."""


def input_watermark(upstream: Iterable[Upstream], before: int | None = None) -> int | None:
    """Return the watermark of an operator's input: the minimum upstream, never less than `before`.

    If nothing upstream is active, only what all have promised counts: idle is not ended, so the next row may be early.
    """
    running = [one for one in upstream if not one.ended]
    reached = lowest(one.watermark for one in [one for one in running if not one.idle] or running)
    if reached is None or before is None:
        return before if reached is None else reached
    return max(reached, before)


@dataclass(frozen=True, slots=True)
class HeldBack:
    """The partition and producer that hold a watermark back."""

    partition: StreamPartition
    producer: str | None
    """The task that is waited for; None: the source or a relay, or a task whose name is not known yet."""
    watermark: int | None
    """The partition's watermark; None: none yet."""
    since: int
    """The clock since when it has that value."""
    heard_at: int | None
    """The clock of the producer's last message; None: there was none."""
    reported: int
    """How many producers have sent messages."""
    expected: int
    app: str | None = None
    """The app that writes the stream; None: this one, or unknown."""

    def sentence(self, now: int) -> str:
        """Return it as a sentence for people."""
        standing = (
            "no watermark yet" if self.watermark is None else f"the watermark stands at {event_moment(self.watermark)}"
        )
        return f"{self.partition}: {standing}, for {time_span(now - self.since)}: {self._because(now)}"

    def _because(self, now: int) -> str:
        heard = None if self.heard_at is None else f"last heard {time_span(now - self.heard_at)} ago"
        of = "" if self.app is None else f" of app {self.app}"
        if self.producer is not None and heard is not None:
            return f"waiting for task {self.producer}{of}, {heard}"
        if heard is not None or not self.expected:
            return f"waiting for its source or relay{of}, {heard or 'never heard'}"
        whom = f" (next: task {self.producer})" if self.producer is not None else ""
        return f"waiting for {self.expected - self.reported} of {self.expected} producers{of}, never heard{whom}"


def held_back_by(
    watermarks: Watermarks, now: int, streams: Iterable[str] | None = None, idle: Collection[StreamPartition] = ()
) -> HeldBack | None:
    """Return what holds back the minimum over these streams (default: all); None if all have ended.

    `idle`: partitions that hold nothing back as long as others do.
    """
    stream_names = None if streams is None else set(streams)
    candidates = [
        (partition in idle, watermark.value is not None, watermark.value or 0, partition)
        for partition, watermark in watermarks.partitions.items()
        if (stream_names is None or partition.stream in stream_names)
        and not watermark.ended(watermarks.rule(partition))
    ]
    if not candidates:
        return None
    *_, partition = min(candidates)
    return _holder(partition, watermarks.partitions[partition], watermarks.rule(partition), now)


def _holder(partition: StreamPartition, watermark: PartitionWatermark, rule: Producers, now: int) -> HeldBack:
    counted, expected = watermark.counted(rule, now), rule.expected(watermark.said)
    producer, heard_at = min(rule.names.difference(watermark.producers), default=None), None
    if counted:
        producer = min(counted, key=lambda task: (counted[task].watermark, task))
        heard_at = counted[producer].at
    elif watermark.nameless is not None:
        producer, heard_at = None, watermark.nameless.at
    since = watermark.since if watermark.moved_at is None else watermark.moved_at
    app = None if rule.names or watermark.runs.current is None else app_of(watermark.runs.current)
    return HeldBack(partition, producer, watermark.value, since, heard_at, len(watermark.producers), expected, app)
