"""The promise of a log that processes share: what is kept in one needs no more, what offers one no less."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class LogRecord(NamedTuple):
    """One record of a partition."""

    offset: int
    at: int
    """When it was written, in milliseconds since 1970."""
    key: bytes
    value: bytes


class RecordsForgottenError(Exception):
    """Records that were wanted have been deleted meanwhile."""


class SharedLog(Protocol):
    """Partitions of records, in an order that all processes see alike. A plain value, which travels."""

    @property
    def title(self) -> str:
        """What it is, for people to read."""
        ...

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        ...

    def append(self, partition: int, key: bytes, value: bytes) -> LogRecord:
        """Write a record for good, and return it as it stands there."""
        ...

    def bounds(self, partition: int) -> tuple[int, int]:
        """Return the offset of the oldest record, and then the one behind the newest.

        In this order: what was moved before the oldest was forgotten lies before the end.
        """
        ...

    def records(self, partition: int, start: int, end: int) -> Sequence[LogRecord]:
        """Return the records of these offsets; raise `RecordsForgottenError` if some of them are gone."""
        ...

    def forget(self, partition: int, before: int) -> None:
        """Delete the records before an offset."""
        ...
