"""Writers and the markers of their batches: who writes, whether a batch is written already, whose history it is of.

There is one rule for all systems. A batch is written if its marker has the digest of what is to be written. Any other
marker that is not of an earlier batch was left by a writer this checkpoint does not know, and skipping the batch would
lose its rows. Also names the writer (an attempt, a slot of it), so that the batch loop and its slots need not import a
system. Must not read or write streams.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.records import Marker

TaskMarkers = Mapping[str, Marker]
"""Task -> the marker of its last written batch."""
_CURES = (
    "Nothing more was written. Bring back the checkpoint that these outputs were written with, or start under a new "
    "spec.runId, which begins without state (docs/operations.md, Backup)"
)


class PlacedMarker(NamedTuple):
    """A marker and the partition or the Kafka system that holds it."""

    holder: str
    marker: Marker


@dataclass(frozen=True, slots=True)
class EarlierWrites:
    """What earlier attempts of a run have written."""

    kafka: Mapping[str, TaskMarkers] = field(default_factory=dict)
    """The markers by Kafka system."""
    log: tuple[PlacedMarker, ...] = ()
    """The markers in each partition of the embedded log."""

    @property
    def markers(self) -> list[PlacedMarker]:
        """All markers."""
        kafka = (
            PlacedMarker(f"Kafka system {name}", marker)
            for name, turns in self.kafka.items()
            for marker in turns.values()
        )
        return [*kafka, *self.log]

    @property
    def last(self) -> dict[str, PlacedMarker]:
        """Task -> the marker of the last batch of which anything is written."""
        last_markers: dict[str, PlacedMarker] = {}
        for placed in sorted(self.markers, key=lambda placed: placed.marker.batch):
            last_markers[placed.marker.task] = placed
        return last_markers


def newest(markers: Iterable[Marker]) -> dict[str, Marker]:
    """Return the marker of each task's last batch."""
    newest_markers: dict[str, Marker] = {}
    for marker in markers:
        if marker.task not in newest_markers or marker.batch > newest_markers[marker.task].batch:
            newest_markers[marker.task] = marker
    return newest_markers


def is_written(marker: Marker, last_marker: Marker | None, holder: str) -> bool:
    """Whether the batch is written, judged by the task's last marker; raises `OutputsAheadError`."""
    if last_marker is None or (last_marker.life == marker.life and last_marker.batch < marker.batch):
        return False
    if (last_marker.life, last_marker.batch, last_marker.digest) == (marker.life, marker.batch, marker.digest):
        return True
    why = "of another checkpoint" if last_marker.life != marker.life else "with other content"
    if last_marker.batch > marker.batch:
        why = f"up to batch {last_marker.batch}"
    raise outputs_ahead(
        PlacedMarker(holder, last_marker), f"and batch {marker.batch} is to be written, {why} there already"
    )


def outputs_ahead(placed: PlacedMarker, why: str) -> UserActionError:
    """Return the error for a marker that the checkpoint's history can't have produced."""
    holder, marker = placed
    return UserActionError(
        f"{holder} holds batch {marker.batch} of {marker.task} of {marker.owner} by attempt {marker.epoch}, {why}. "
        f"{_CURES}",
        code="OutputsAheadError",
    )


def outputs_behind(holder: str, last: Marker, turn: int) -> UserActionError:
    """Return the error for a partition whose last marker is older than what the task has written there."""
    return UserActionError(
        f"{holder} holds what {last.task} of {last.owner} wrote up to its batch {last.batch}, and it had written "
        f"batch {turn} there: an older copy was put back, and rows would be missing. Nothing more was written. Bring "
        f"back the newer files, or remove the stream if nobody needs what was in it, or start under a new spec.runId",
        code="OutputsBehindError",
    )


def marker_topic(app: str) -> str:
    """Return the name of an app's marker topic. The dot keeps it apart from streams that an app makes for itself."""
    return f"{app}.holdfast"


@dataclass(frozen=True, order=True, slots=True)
class AttemptId:
    """One attempt of one run."""

    app: str
    run: str
    number: int

    @property
    def owner(self) -> str:
        """The owner of its batches."""
        return f"{self.app}/{self.run}"

    def transactional_id(self, slot: int) -> str:
        """Return the transactional id under which a slot writes."""
        return f"{marker_topic(self.app)}/{self.run}/{self.number}/{slot}"


Writes = Mapping[StreamPartition, Sequence[tuple[pa.RecordBatch, Marker]]]
"""Partition of a topic -> what tasks write there, in order."""
WriteHook = Callable[[str], None]
Decided = Callable[[], None]
"""Returns once what is written is decided, and would be written again as it is. Called before anybody can read it."""


@dataclass(frozen=True, slots=True)
class AttemptSlot:
    """A slot of an attempt, as a writer."""

    who: AttemptId
    slot: int
