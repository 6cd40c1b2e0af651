"""The relay of control messages: one aggregating partition gets those of all producers, its task informs the others.

Without it, n producers would send n x m messages to m partitions. The relay uses that partition alone, never the whole
stream: its task may read other partitions of it too, and those wait for the relay. Must not aggregate itself:
`Watermarks` and `EndOfStream` of its task do.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from zlib import crc32

from holdfast.control.bookkeeping import Bookkeeping
from holdfast.control.sending import ControlSender, Emission, SenderProgress
from holdfast.tasks.partitions import StreamPartition

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
    def at(cls, partition: StreamPartition) -> "Relay":
        """Return a relay that has sent nothing yet."""
        return cls(partition, ControlSender(partition.stream, None, None))

    def follow(self, known: Bookkeeping, partitions: int, batch: int) -> tuple["Relay", tuple[Emission, ...]]:
        """Return the relay after a batch, and what to send to the other partitions: each advance once, and the end."""
        view = SenderProgress(known.watermarks.of(self.partition), known.ends.partitions[self.partition].ended)
        sender, emissions = self.sender.follow(view, self._others(partitions), batch)
        return replace(self, sender=sender), emissions

    def _others(self, partitions: int) -> Iterable[int]:
        """All partitions except its own, which gets the producers' messages directly."""
        return (number for number in range(partitions) if number != self.partition.partition)
