"""The ends of a task's partitions: a task may flush and finish only when every row that will ever come has come.

Ends are collected in sets and stay once reached, so replays and any order of messages come to the same. Must not
decide what a task does at its end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from holdfast.control.messages import ControlMessage, EndOfStreamMessage
from holdfast.control.producers import SOURCE, Delivery, Producers, UntrackedPartitionError
from holdfast.tasks.partitions import StreamPartition


@dataclass(frozen=True, slots=True)
class PartitionEnd:
    """How far one partition is from its end."""

    ended: bool = False
    tasks: frozenset[str] = frozenset()
    """Producers that have ended; forgotten when all have."""
    said: int = 0
    """The largest number of producers any message has named."""

    def after(self, messages: Iterable[ControlMessage], rule: Producers) -> "PartitionEnd":
        """The partition when these messages are read."""
        if self.ended:
            return self
        tasks, said = set(self.tasks), self.said
        for message in messages:
            if not isinstance(message, EndOfStreamMessage):
                continue
            if message.task is None:
                return PartitionEnd(ended=True)
            if rule.knows(message.task):
                tasks.add(message.task)
                said = max(said, message.task_count or 0)
        if len(tasks) == len(self.tasks) and said == self.said:
            return self  # the same object: nothing to write
        return PartitionEnd(tasks=frozenset(tasks), said=said).judged(rule)

    def judged(self, rule: Producers) -> "PartitionEnd":
        """The partition under these producers, which may be others than in the last attempt."""
        if self.ended:
            return self
        tasks = frozenset(filter(rule.knows, self.tasks))
        expected = rule.expected(self.said)
        if expected and len(tasks) >= expected:
            return PartitionEnd(ended=True)
        return self if tasks == self.tasks else replace(self, tasks=tasks)

    def missing(self, rule: Producers) -> tuple[str, ...]:
        """Producers that have not ended, where the plan names them."""
        return () if self.ended else tuple(sorted(rule.names - self.tasks))


OPEN = PartitionEnd()
ENDED = PartitionEnd(ended=True)


@dataclass(frozen=True, slots=True)
class EndOfStream:
    """Which partitions of a task have ended."""

    partitions: Mapping[StreamPartition, PartitionEnd]
    producers: Mapping[str, Producers]
    side_inputs: frozenset[str] = frozenset()
    """Streams that feed tables: a task does not wait for them to end."""

    def tracking(
        self,
        partitions: Iterable[StreamPartition],
        producers: Mapping[str, Producers],
        side_inputs: Iterable[str] = (),
    ) -> "EndOfStream":
        """The same for what an attempt reads: partitions may have come, gone, or got other producers.

        A new partition has to end on its own: producers that had ended before it was there tell it too (`Sender`
        sees to that), and only behind their rows. A partition that appears after its stream has ended is born ended,
        since whoever could have written to it had finished; the stream stays ended, as its results are out.
        """
        already = self.ended_streams
        tracked = {}
        for partition in partitions:
            born = ENDED if partition.stream in already else OPEN
            tracked[partition] = self.partitions.get(partition, born).judged(producers.get(partition.stream, SOURCE))
        return EndOfStream(tracked, producers, frozenset(side_inputs))

    def apply(self, deliveries: Iterable[Delivery]) -> "EndOfStream":
        """The state after the control messages of a batch."""
        touched: dict[StreamPartition, list[ControlMessage]] = {}
        for partition, message in deliveries:
            if isinstance(message, EndOfStreamMessage):
                touched.setdefault(partition, []).append(message)
        changed = {}
        for partition, messages in touched.items():
            before = self.partitions.get(partition)
            if before is None:
                raise UntrackedPartitionError(partition, self.partitions)
            after = before.after(messages, self.producers.get(partition.stream, SOURCE))
            if after is not before:
                changed[partition] = after
        return replace(self, partitions={**self.partitions, **changed}) if changed else self

    def ended(self, stream: str) -> bool:
        """Whether all its partitions in this task have ended; a stream without one here has nothing to come."""
        return all(end.ended for partition, end in self.partitions.items() if partition.stream == stream)

    @property
    def ended_streams(self) -> frozenset[str]:
        """Streams all of whose partitions in this task have ended."""
        still_open = {partition.stream for partition, end in self.partitions.items() if not end.ended}
        return frozenset(partition.stream for partition in self.partitions) - still_open

    @property
    def all_ended(self) -> bool:
        """Whether nothing more will come to this task but changes of tables."""
        return all(end.ended for partition, end in self.partitions.items() if partition.stream not in self.side_inputs)


def no_ends() -> EndOfStream:
    """Where a task begins; `tracking` tells it what it reads."""
    return EndOfStream({}, {})
