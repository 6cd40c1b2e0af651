"""The watermark of one partition: the promise that no earlier row follows, derived from its producers' watermarks.

The clock is an argument. Must not know other partitions, nor how the watermark is stored.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from holdfast.control.messages import EARLIEST, END_OF_TIME, ControlMessage, EndOfStreamMessage, MessageNumber
from holdfast.control.producers import Producers
from holdfast.control.runs import NO_RUNS, WriterRuns


class ProducerWatermark(NamedTuple):
    """The last control message that a partition got from one producer."""

    watermark: int
    """`END_OF_TIME` once the producer has ended: then it holds nothing back."""
    at: int
    """The clock when the message was read, in milliseconds."""
    batch: int
    sequence: int
    idle: bool = False
    """Whether it has said that all it reads is silent: it is not waited for."""

    def knows(self, number: MessageNumber) -> bool:
        """Whether the message of this number has been read already."""
        return (self.batch, self.sequence) >= number

    def newer(self, message: ControlMessage, now: int) -> "ProducerWatermark | None":
        """Return the value after this message; None if the message is a replay or goes back, and so is ignored."""
        if self.knows(message.at):
            return None
        if isinstance(message, EndOfStreamMessage):
            return ProducerWatermark(END_OF_TIME, now, *message.at)
        if message.idle and self.watermark != END_OF_TIME:
            # It says nothing about event time, and may have had no row yet.
            return ProducerWatermark(max(self.watermark, message.timestamp), now, *message.at, idle=True)
        # An equal watermark is a heartbeat. A smaller one comes from a producer that contradicts itself.
        return None if message.timestamp < self.watermark else ProducerWatermark(message.timestamp, now, *message.at)


@dataclass(frozen=True, slots=True)
class PartitionWatermark:
    """The watermark of one partition, and the messages of its producers that it is derived from."""

    since: int
    """The clock when this task began to read the partition: producers without a message are silent since then."""
    value: int | None = None
    """The watermark; None: none yet."""
    moved_at: int | None = None
    """The clock when `value` last moved."""
    producers: Mapping[str, ProducerWatermark] = field(default_factory=dict)
    nameless: ProducerWatermark | None = None
    """The last message of the source itself or of a relay, which sends for all producers."""
    said: int = 0
    """The largest number of producers any message has named."""
    runs: WriterRuns = NO_RUNS

    def after(self, messages: Iterable[ControlMessage], rule: Producers, now: int) -> "PartitionWatermark":
        """Return the watermark after these messages; those of one run and its tasks are applied before it is derived.

        Otherwise, after a silence of all producers, the first message would make its producer look like the only active
        one, and the watermark would pass the others although their messages are in the same batch.
        """
        watermark, before = self, list[ControlMessage]()
        for message in messages:
            if (runs := watermark.runs.after(message.run, rule.named_by(message))) is None:
                continue
            if watermark.runs.replaced_by(runs):
                watermark = watermark._told(before, rule, now).weighed(rule, now)
                if watermark.ended(rule):
                    return watermark
                watermark, before = watermark.anew(runs, now), []
            elif runs is not watermark.runs:
                watermark = replace(watermark, runs=runs)
            before.append(message)
        return watermark._told(before, rule, now).weighed(rule, now)  # noqa: SLF001 - of the same class

    def path(self, messages: Iterable[ControlMessage], rule: Producers, now: int) -> list[int | None]:
        """Return the watermark behind each of these messages, as if they came one by one.

        Silence leaves no producer out: the clock says nothing about the time between two messages.
        """
        watermark, waiting, reached = self, replace(rule, idle_after=None), list[int | None]()
        for message in messages:
            watermark = (
                watermark.after((message,), waiting, now)
                if watermark._waits_for(message, rule)
                else watermark._told((message,), waiting, now)
            )
            reached.append(watermark.value)
        return reached

    def _waits_for(self, message: ControlMessage, rule: Producers) -> bool:
        """Whether this message could move the watermark. To weigh all producers takes long where there are many."""
        if self.value is None or message.task is None:
            return True
        heard = self.producers.get(message.task)
        if heard is None or heard.idle or heard.watermark <= self.value:
            return True
        return self.runs.after(message.run, rule.named_by(message)) is not self.runs

    def anew(self, runs: WriterRuns, now: int) -> "PartitionWatermark":
        """Return the partition as a new run or other tasks find it: nobody has been heard, and its watermark stays."""
        return PartitionWatermark(now, self.value, self.moved_at, runs=runs)

    def _told(self, messages: Iterable[ControlMessage], rule: Producers, now: int) -> "PartitionWatermark":
        producers, nameless, named_count = dict(self.producers), self.nameless, self.said
        watermark, changed = self, False
        for message in messages:
            task = message.task
            if task is not None and not rule.knows(task):
                continue
            heard = (nameless if task is None else producers.get(task, _NOTHING)) or _NOTHING
            newer = heard.newer(message, now)
            if newer is None:
                continue
            changed = True
            if task is not None:
                producers[task] = newer
                named_count = max(named_count, message.task_count or 0)
                continue
            nameless = newer
            if EARLIEST < newer.watermark < END_OF_TIME:
                watermark = watermark.raised(newer.watermark, now)
        return replace(watermark, producers=producers, nameless=nameless, said=named_count) if changed else watermark

    def weighed(self, rule: Producers, now: int) -> "PartitionWatermark":
        """Return the watermark derived from the producers at `now`; the same object if it does not move."""
        counted = self.counted(rule, now)
        least = min((heard.watermark for heard in counted.values()), default=EARLIEST)
        return self.raised(least, now) if least > EARLIEST else self

    def counted(self, rule: Producers, now: int) -> dict[str, ProducerWatermark]:
        """Return the producers whose minimum is the watermark; empty: some have sent nothing yet, or all ended."""
        unended = self._unended()
        # What the idle ones have promised holds if all are.
        running = {task: heard for task, heard in unended.items() if not heard.idle} or unended
        unheard = self._unheard(rule)
        # Silent producers are left out while enough others are active; without a message they are silent since `since`.
        if rule.idle_after is not None and (not unheard or now - self.since >= rule.idle_after):
            active = {task: heard for task, heard in running.items() if now - heard.at < rule.idle_after}
            if len(active) >= rule.needed(len(running) + unheard):
                return active
        return {} if unheard else running

    def idle(self, rule: Producers) -> bool:
        """Whether all producers that have not ended have said that they are idle, or their relay has."""
        if self.nameless is not None:
            return self.nameless.idle
        unended = self._unended().values()
        return bool(unended) and not self._unheard(rule) and all(heard.idle for heard in unended)

    def _unended(self) -> dict[str, ProducerWatermark]:
        return {task: heard for task, heard in self.producers.items() if heard.watermark != END_OF_TIME}

    def _unheard(self, rule: Producers) -> int:
        return max(rule.expected(self.said) - len(self.producers), 0)

    def raised(self, watermark: int, now: int) -> "PartitionWatermark":
        """Return the partition with at least this watermark; it never goes back."""
        if self.value is not None and watermark <= self.value:
            return self
        return replace(self, value=watermark, moved_at=now)

    def believed(self, limit: int, now: int) -> "PartitionWatermark":
        """Return the partition without watermarks beyond this event time; their producers count as not heard yet."""

        def true(heard: ProducerWatermark | None) -> bool:
            return heard is None or heard.watermark <= limit or heard.watermark == END_OF_TIME

        raised = self.value is not None and self.value > limit
        if not raised and true(self.nameless) and all(map(true, self.producers.values())):
            return self
        return replace(
            self,
            since=now,
            value=None if raised else self.value,
            moved_at=None if raised else self.moved_at,
            producers={task: heard for task, heard in self.producers.items() if true(heard)},
            nameless=self.nameless if true(self.nameless) else None,
        )

    def ended(self, rule: Producers) -> bool:
        """Whether all producers have ended, so that the partition holds nothing back any more."""
        if self.nameless is not None and self.nameless.watermark == END_OF_TIME:
            return True
        expected = rule.expected(self.said)
        return 0 < expected <= sum(heard.watermark == END_OF_TIME for heard in self.producers.values())

    def known_to(self, rule: Producers) -> "PartitionWatermark":
        """Return the partition without producers that the plan no longer has: their watermarks would never move."""
        producers = {task: heard for task, heard in self.producers.items() if rule.knows(task)}
        return self if len(producers) == len(self.producers) else replace(self, producers=producers)

    @property
    def heard_at(self) -> int:
        """The clock when the last message was read; `since` if there was none."""
        nameless = self.since if self.nameless is None else self.nameless.at
        return max(nameless, self.since, *(heard.at for heard in self.producers.values()))

    def later(self, by: int) -> "PartitionWatermark":
        """Return the partition with all clocks moved `by` later, so that downtime of the reader is not silence."""
        return replace(
            self,
            since=self.since + by,
            producers={task: heard._replace(at=heard.at + by) for task, heard in self.producers.items()},
            nameless=None if self.nameless is None else self.nameless._replace(at=self.nameless.at + by),
        )


_NOTHING = ProducerWatermark(-(2**63), 0, -1, -1)
