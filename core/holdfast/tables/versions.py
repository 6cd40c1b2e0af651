"""The versions of a table whose data set is replaced as a whole: never half of the old and half of the new is seen.

Each source partition goes from version to version by itself, at the marker that ends its part of a data set; a
version is sealed when the last partition has left it. What is served changes only at a batch boundary, so all
look-ups of a batch see one version. A growth of the sources makes the store invalid (`validity`), so the partitions
here never change. Must not move rows: it says which version a row goes to, which is read and which may be removed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from holdfast.errors import HoldfastError
from holdfast.tasks.partitions import StreamPartition

FIRST = 1


class MarkerOrderError(HoldfastError):
    """Markers that come from a partition the table is not fed from: an error of whoever routed them."""


@dataclass(frozen=True, slots=True)
class PartitionVersion:
    """How far one source partition is."""

    version: int = FIRST
    """What its next record belongs to."""
    marker: int | None = None
    """The offset of its last end-of-dataset marker."""


@dataclass(frozen=True, slots=True)
class VersionSwitch:
    """What happens at a batch boundary."""

    versions: "Versions"
    removed: tuple[int, ...]
    """Versions nobody reads any more, those that were never served among them."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of one table's store."""

    parts: Mapping[StreamPartition, PartitionVersion]
    serving: int | None = None
    """What look-ups read; None: no data set is complete yet, so they find nothing."""

    @classmethod
    def empty(cls, partitions: Iterable[StreamPartition]) -> "Versions":
        """Of a store that was just created."""
        return cls({partition: PartitionVersion() for partition in partitions})

    def version_for(self, partition: StreamPartition) -> int:
        """The version that the next record of this partition is stored in."""
        return self._part(partition).version

    def marked(self, partition: StreamPartition, offset: int) -> "Versions":
        """With the end-of-dataset marker at this offset: the records behind it are of the next version.

        A marker that was read before changes nothing, so a batch may be read again.
        """
        part = self._part(partition)
        if part.marker is not None and offset <= part.marker:
            return self
        return replace(self, parts={**self.parts, partition: PartitionVersion(part.version + 1, offset)})

    @property
    def sealed(self) -> int | None:
        """The newest version that is complete."""
        newest = min((part.version for part in self.parts.values()), default=FIRST) - 1
        return newest if newest >= FIRST else None

    def at_boundary(self) -> VersionSwitch:
        """Between two batches: from here on the newest sealed version is served, and older ones may go.

        A version sealed and followed by another within one batch is never served.
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
            raise MarkerOrderError(message)
        return part
