"""Why: what a step needs of a task's store, so that steps can be tried without a disk. Must not hold any logic."""

from collections.abc import Iterator, Sequence
from typing import Protocol


class KeyValueTable(Protocol):
    """One table: keys to values, as bytes, in order of keys."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys, None where there is none."""

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write these values; None deletes."""

    def forget(self) -> None:
        """Take back what this batch has written."""

    def scan(self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Rows in key order, from `start` to before `stop`, as they were when it was called."""


class TaskTables(Protocol):
    """The tables of one task."""

    def table(self, name: str) -> KeyValueTable:
        """A table by name; one nothing was written to is empty."""
