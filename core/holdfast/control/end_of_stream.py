"""The ends of a task's partitions: a task may flush and finish only when no more rows can come.

Ends are collected in sets and never revoked, so replays and any order of messages give the same result. Must not
decide what a task does at its end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from holdfast.control.messages import ControlMessage, EndOfStreamMessage
from holdfast.control.producers import SOURCE, Delivery, Producers, UntrackedPartitionError
from holdfast.control.runs import NO_RUNS, WriterRuns
from holdfast.tasks.partitions import StreamPartition


@dataclass(frozen=True, slots=True)
class PartitionEnd:
    """Whether one partition has ended, and which of its producers have."""

    ended: bool = False
    tasks: frozenset[str] = frozenset()
    """Producers that have ended; empty once all have."""
    said: int = 0
    """The largest number of producers any message has named."""
    runs: WriterRuns = NO_RUNS

    def after(self, messages: Iterable[ControlMessage], rule: Producers) -> "PartitionEnd":
        """Return the partition's end after these messages. It stays ended, also if its app is run anew."""
        if self.ended:
            return self
        end = self
        for message in messages:
            if (runs := end.runs.after(message.run, rule.named_by(message))) is None:
                continue
            if end.runs.replaced_by(runs):
                if (end := end.judged(rule)).ended:
                    return end
                end = PartitionEnd(runs=runs)
            end = end._with(message, runs, rule)
            if end.ended:
                return end
        return end.judged(rule)

    def _with(self, message: ControlMessage, runs: WriterRuns, rule: Producers) -> "PartitionEnd":
        """Return the same object if there is nothing to write."""
        tasks, named_count = self.tasks, self.said
        if isinstance(message, EndOfStreamMessage):
            if message.task is None:
                return PartitionEnd(ended=True, runs=runs)
            if rule.knows(message.task):
                tasks, named_count = tasks | {message.task}, max(named_count, message.task_count or 0)
        if (tasks, named_count, runs) == (self.tasks, self.said, self.runs):
            return self
        return PartitionEnd(tasks=tasks, said=named_count, runs=runs)

    def judged(self, rule: Producers) -> "PartitionEnd":
        """Return the partition's end under these producers, which may differ from those of the last attempt."""
        if self.ended:
            return self
        tasks = frozenset(filter(rule.knows, self.tasks))
        expected = rule.expected(self.said)
        if expected and len(tasks) >= expected:
            return PartitionEnd(ended=True, runs=self.runs)
        return self if tasks == self.tasks else replace(self, tasks=tasks)

    def missing(self, rule: Producers) -> tuple[str, ...]:
        """Return the producers that have not ended, if the plan names them."""
        return () if self.ended else tuple(sorted(rule.names - self.tasks))


OPEN = PartitionEnd()
ENDED = PartitionEnd(ended=True)


@dataclass(frozen=True, slots=True)
class EndOfStream:
    """The ends of all partitions of a task."""

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
        """Return the ends for what an attempt reads: partitions may be new or gone, or have other producers.

        A new partition must end by its own messages: producers that ended before it existed send it their end too,
        after their rows (`ControlSender` does). A partition that appears after its stream has ended counts as ended,
        since all its producers had finished; the stream stays ended, as its results are already written.
        """
        already = self.ended_streams
        tracked = {}
        for partition in partitions:
            born = ENDED if partition.stream in already else OPEN
            tracked[partition] = self.partitions.get(partition, born).judged(producers.get(partition.stream, SOURCE))
        return EndOfStream(tracked, producers, frozenset(side_inputs))

    def apply(self, deliveries: Iterable[Delivery]) -> "EndOfStream":
        """Return the ends after the control messages of a batch."""
        touched: dict[StreamPartition, list[ControlMessage]] = {}
        for partition, message in deliveries:
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
        """Whether all partitions of a stream in this task have ended; true for a stream without partitions here."""
        return all(end.ended for partition, end in self.partitions.items() if partition.stream == stream)

    @property
    def ended_streams(self) -> frozenset[str]:
        """Streams all of whose partitions in this task have ended."""
        still_open = {partition.stream for partition, end in self.partitions.items() if not end.ended}
        return frozenset(partition.stream for partition in self.partitions) - still_open

    @property
    def all_ended(self) -> bool:
        """Whether nothing more will come to this task except changes of tables."""
        return all(end.ended for partition, end in self.partitions.items() if partition.stream not in self.side_inputs)


def no_ends() -> EndOfStream:
    """Return the ends of a new task, without partitions: `tracking` adds those it reads."""
    return EndOfStream({}, {})
