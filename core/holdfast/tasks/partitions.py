"""Stream partitions, and the one way they are named in files, records and messages: `clicks/3`.

Must not know tasks or offsets.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast.errors import UserActionError

_MOST_DIGITS = 9
"""Far beyond any stream, and far below what Python refuses to read as a number."""


class StreamPartition(NamedTuple):
    """Partition `partition` of a stream; sorts by stream, then by number."""

    stream: str
    partition: int

    def __str__(self) -> str:
        return f"{self.stream}/{self.partition}"


class PartitionNameError(UserActionError):
    """A text that should name a stream partition and does not."""


def parse_partition(text: str) -> StreamPartition:
    """The partition a text like `clicks/3` names."""
    stream, slash, number = text.rpartition("/")
    if not (stream and slash and number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS):
        message = f"{text!r} does not name a stream partition; write stream/number, e.g. clicks/3"
        raise PartitionNameError(message)
    return StreamPartition(stream, int(number))


def partitions_of(counts: Mapping[str, int]) -> list[StreamPartition]:
    """All partitions of streams with these counts."""
    return [StreamPartition(stream, i) for stream in sorted(counts) for i in range(counts[stream])]


def counts_of(partitions: Iterable[StreamPartition]) -> dict[str, int]:
    """How many partitions of each stream there are."""
    return dict(Counter(partition.stream for partition in partitions))
