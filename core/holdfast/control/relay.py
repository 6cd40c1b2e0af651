"""The relay of control messages: one aggregating partition listens to all producers, and its task tells the others.

Otherwise n producers tell n x m times what m partitions could hear from one. The relay looks at that partition
alone, never at the whole stream: its task may read other partitions of it too, and those wait for the relay. Must
not aggregate itself: that is what `Watermarks` and `EndOfStream` of its task do.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from zlib import crc32

from holdfast.control.bookkeeping import Bookkeeping
from holdfast.control.sending import ControlSender, Emission, SenderProgress
from holdfast.tasks.partitions import StreamPartition

DEFAULT_LIMIT = 4096
"""64 producers x 64 partitions: about half a megabyte each time a watermark moves. A relay costs one more batch of
delay, which is not worth it below that."""


def relays(producers: int, partitions: int, limit: int = DEFAULT_LIMIT) -> bool:
    """Whether producers should write to one aggregating partition instead of to all."""
    return partitions > 1 and producers * partitions > limit


def aggregating_partition(stream: str, partitions: int) -> StreamPartition:
    """The partition that listens for all: by name, so that the relays of an app's streams sit in different tasks."""
    return StreamPartition(stream, crc32(stream.encode()) % partitions)


@dataclass(frozen=True, slots=True)
class Relay:
    """What the owner of an aggregating partition has passed on."""

    partition: StreamPartition
    sender: ControlSender

    @classmethod
    def at(cls, partition: StreamPartition) -> "Relay":
        """A relay that has passed on nothing yet."""
        return cls(partition, ControlSender(partition.stream, None, None))

    def follow(self, known: Bookkeeping, partitions: int, batch: int) -> tuple["Relay", tuple[Emission, ...]]:
        """The relay after a batch, and what to write to the other partitions: each advance once, and the end."""
        view = SenderProgress(known.watermarks.of(self.partition), known.ends.partitions[self.partition].ended)
        sender, emissions = self.sender.follow(view, self._others(partitions), batch)
        return replace(self, sender=sender), emissions

    def _others(self, partitions: int) -> Iterable[int]:
        """All but its own, which has the producers' own messages."""
        return (number for number in range(partitions) if number != self.partition.partition)
