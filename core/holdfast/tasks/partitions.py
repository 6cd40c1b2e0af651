"""Stream partitions, and their one notation in files, records and messages: `clicks/3`.

Must not know tasks or offsets.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast.errors import UserActionError

_MOST_DIGITS = 9
"""More than any partition number has, and fewer than Python refuses to parse."""


class StreamPartition(NamedTuple):
    """Partition `partition` of a stream; sorts by stream, then by number."""

    stream: str
    partition: int

    def __str__(self) -> str:
        return f"{self.stream}/{self.partition}"


class PartitionNameError(UserActionError):
    """A text that does not name a stream partition."""


def parse_partition(text: str) -> StreamPartition:
    """Return the partition that a text like `clicks/3` names."""
    stream, slash, number = text.rpartition("/")
    if not (stream and slash and number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS):
        message = f"{text!r} does not name a stream partition; write stream/number, e.g. clicks/3"
        raise PartitionNameError(message)
    return StreamPartition(stream, int(number))


def partitions_of(counts: Mapping[str, int]) -> list[StreamPartition]:
    """Return all partitions of streams with these counts."""
    return [StreamPartition(stream, i) for stream in sorted(counts) for i in range(counts[stream])]


def counts_of(partitions: Iterable[StreamPartition]) -> dict[str, int]:
    """Return stream -> number of its partitions."""
    return dict(Counter(partition.stream for partition in partitions))
