"""The versions of a table whose data set is replaced as a whole: look-ups never see a mix of old and new.

Each source partition moves to the next version on its own, at the marker that ends its part of a data set; a version
is sealed when the last partition has left it. The version that look-ups read changes only at a batch boundary, so all
look-ups of a batch see the same one. If the sources grow, the store becomes invalid (`recovery`), so the partitions
here never change. Must not move rows: it says which version a row goes to, which is read and which may be removed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from holdfast.errors import HoldfastError
from holdfast.tasks.partitions import StreamPartition

FIRST = 1


@dataclass(frozen=True, slots=True)
class PartitionVersion:
    """The current version of one source partition."""

    version: int = FIRST
    """The version that its next record belongs to."""
    marker: int | None = None
    """The offset of its last end-of-dataset marker."""


@dataclass(frozen=True, slots=True)
class VersionSwitch:
    """The change of versions at a batch boundary."""

    versions: "Versions"
    removed: tuple[int, ...]
    """Versions that nothing reads any more, including those that were never served."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of one table's store."""

    parts: Mapping[StreamPartition, PartitionVersion]
    serving: int | None = None
    """The version that look-ups read; None: no data set is complete yet, so they find nothing."""

    @classmethod
    def empty(cls, partitions: Iterable[StreamPartition]) -> "Versions":
        """Return the versions of a new store."""
        return cls({partition: PartitionVersion() for partition in partitions})

    def version_for(self, partition: StreamPartition) -> int:
        """Return the version in which the next record of this partition is stored."""
        return self._part(partition).version

    def marked(self, partition: StreamPartition, offset: int) -> "Versions":
        """Return the versions after the end-of-dataset marker at this offset: later records are of the next version.

        A marker that was read before changes nothing, so a batch may be read again.
        """
        part = self._part(partition)
        if part.marker is not None and offset <= part.marker:
            return self
        return replace(self, parts={**self.parts, partition: PartitionVersion(part.version + 1, offset)})

    @property
    def sealed(self) -> int | None:
        """The newest complete version; None: no version is complete."""
        newest = min((part.version for part in self.parts.values()), default=FIRST) - 1
        return newest if newest >= FIRST else None

    def at_boundary(self) -> VersionSwitch:
        """Return the switch between two batches: the newest sealed version is served, older ones may be removed.

        A version that is sealed and followed by another within one batch is never served.
        """
        sealed = self.sealed
        if sealed is None or sealed == self.serving:
            return VersionSwitch(self, ())
        oldest = FIRST if self.serving is None else self.serving
        return VersionSwitch(replace(self, serving=sealed), tuple(range(oldest, sealed)))

    def _part(self, partition: StreamPartition) -> PartitionVersion:
        part = self.parts.get(partition)
        if part is None:
            fed_from = ", ".join(map(str, sorted(self.parts)))
            message = f"a record of {partition} came to a table that is fed from {fed_from}"
            raise HoldfastError(message, code="MarkerOrderError")
        return part
