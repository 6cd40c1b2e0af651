"""The control messages a task still has to send to the partitions of a stream, so that each gets every message once.

The same for a producer, which sends in its own name, and for a relay, which sends for all: where n producers would send
n x m messages to m partitions, they write to one aggregating partition, and its task informs the others. A relay uses
that partition alone, never the whole stream: its task may read other partitions too, and those wait for the relay. Must
not aggregate (`Watermarks` and `EndOfStream` of the task do), encode or write: the caller writes the messages after the
rows of the batch, in the same transaction.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from zlib import crc32

from holdfast.control.bookkeeping import Bookkeeping
from holdfast.control.messages import EARLIEST, ControlMessage, EndOfStreamMessage, MessageNumber, WatermarkMessage
from holdfast.control.runs import WriterRun, WriterTasks
from holdfast.tasks.partitions import StreamPartition


class Emission(NamedTuple):
    """A control message and the partitions it is to be written to."""

    partitions: Sequence[int]
    message: ControlMessage


@dataclass(frozen=True, slots=True)
class SenderProgress:
    """The sender's own watermark and end."""

    watermark: int | None
    ended: bool = False
    alive: bool = False
    """Send the watermark again although it did not move: a task that works on late rows is not silent."""
    idle: bool = False
    """Whether all that the sender reads is idle."""


@dataclass(frozen=True, slots=True)
class ControlSender:
    """What one task has sent to the partitions of one stream."""

    stream: str
    task: str | None
    """The task named in messages; None: a relay."""
    task_count: int | None
    watermark: int | None = None
    ended: bool = False
    told: frozenset[int] = frozenset()
    """The partitions that have got this watermark and, if the task has ended, the end."""
    run: WriterRun | None = None
    """The run that messages name."""
    idle: bool = False
    """Whether it has said that it is idle."""
    task_digest: str = ""
    """A digest of the names of all tasks that produce the stream, which messages name."""

    def among(self, tasks: WriterTasks, run: WriterRun | None) -> "ControlSender":
        """Return the sender in an attempt with these tasks: if they are others than before, it has sent nothing yet.

        Readers forget what the tasks before have said, since some of them may be gone.
        """
        same = tasks == (self.task_count, self.task_digest)
        receivers = self.told if same else frozenset[int]()
        return replace(self, task_count=tasks.number, task_digest=tasks.digest, told=receivers, run=run)

    def follow(
        self, view: SenderProgress, partitions: Iterable[int], batch: int
    ) -> tuple["ControlSender", tuple[Emission, ...]]:
        """Return the sender after a batch, and what to send: news to all, and to new partitions what they missed.

        A watermark is sent before the end, and nothing after the end: an ended stream stays ended. Who is idle says so
        once, behind all its rows, so a reader need not judge from silence how far away rows may still be.
        """
        targets = frozenset(partitions)
        watermark = self.watermark
        if not self.ended and view.watermark is not None and (watermark is None or view.watermark > watermark):
            watermark = view.watermark
        ended = self.ended or view.ended
        idle = view.idle and not ended
        repeat = (view.alive and not ended and not idle) or idle != self.idle
        news = targets if watermark != self.watermark or repeat else targets - self.told
        ending = targets if not self.ended else targets - self.told
        emissions: list[Emission] = []
        if (watermark is not None or idle) and news:
            time = EARLIEST if watermark is None else watermark
            number = MessageNumber(batch, 0)
            message = WatermarkMessage(time, number, self.task, self.task_count, self.run, idle, self.task_digest)
            emissions.append(Emission(sorted(news), message))
        if ended and ending:
            number = MessageNumber(batch, 1)
            end = EndOfStreamMessage(self.stream, number, self.task, self.task_count, self.run, self.task_digest)
            emissions.append(Emission(sorted(ending), end))
        # A partition that is no target now does not get the news, even if it got everything before.
        same = (watermark, ended, idle) == (self.watermark, self.ended, self.idle)
        receivers = self.told | targets if same else targets
        return replace(self, watermark=watermark, ended=ended, told=receivers, idle=idle), tuple(emissions)


DEFAULT_LIMIT = 4096
"""64 producers x 64 partitions: about half a megabyte each time a watermark moves. Below this limit a relay is not
worth its delay of one batch."""


def relays(producers: int, partitions: int, limit: int = DEFAULT_LIMIT) -> bool:
    """Whether producers should write to one aggregating partition instead of to all."""
    return partitions > 1 and producers * partitions > limit


def aggregating_partition(stream: str, partitions: int) -> StreamPartition:
    """Return the aggregating partition, chosen by name so that relays of different streams are in different tasks."""
    return StreamPartition(stream, crc32(stream.encode()) % partitions)


@dataclass(frozen=True, slots=True)
class Relay:
    """What the task of an aggregating partition has sent to the other partitions."""

    partition: StreamPartition
    sender: ControlSender

    @classmethod
    def at(cls, partition: StreamPartition, run: WriterRun | None = None) -> "Relay":
        """Return a relay that has sent nothing yet."""
        return cls(partition, ControlSender(partition.stream, None, None, run=run))

    def follow(self, bookkeeping: Bookkeeping, partitions: int, batch: int) -> tuple["Relay", tuple[Emission, ...]]:
        """Return the relay after a batch, and what to send to the other partitions: each advance once, and the end."""
        view = SenderProgress(
            bookkeeping.watermarks.of(self.partition),
            bookkeeping.ends.partitions[self.partition].ended,
            idle=bookkeeping.watermarks.idle(self.partition),
        )
        sender, emissions = self.sender.follow(view, self._others(partitions), batch)
        return replace(self, sender=sender), emissions

    def _others(self, partitions: int) -> Iterable[int]:
        """All partitions except its own, which gets the producers' messages directly."""
        return (number for number in range(partitions) if number != self.partition.partition)
