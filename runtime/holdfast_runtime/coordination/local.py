"""The coordinator on a single host: the same decisions as on a cluster, stored in files.

Numbers attempts, keeps the placement record of each run, and assigns tasks to the available processors. Must not know
Spark: processors are given by name.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.attempt_number import checked_attempt
from holdfast.placement.file_store import FileStore
from holdfast.placement.record_store import RecordStore
from holdfast.tasks.record import PlacementRecord
from holdfast_runtime.coordination.coordinator import Placement, RunPlacement, best_placement, kept_paces
from holdfast_runtime.progress import Event
from holdfast_runtime.streams.generator import Pace

_ATTEMPT, _PACES = "attempt", "paces"
_HERE = "local"


class LocalCoordinator:
    """The coordinator of one run of one app on this host."""

    def __init__(self, directory: Path, app: str, run_id: str, topics: Mapping[str, int | None] | None = None) -> None:
        """`topics`: stream -> partition count, for streams in Kafka."""
        directory.mkdir(parents=True, exist_ok=True)
        self._topics = topics or {}
        self._run = run_id
        self._store = FileStore(directory)
        self._records = RecordStore(self._store, app)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: the files are complete after each write."""

    @property
    def owner(self) -> str:
        """A constant, so that it stays the same if the data directory is moved or lost."""
        return "holdfast run"

    @property
    def topics(self) -> Mapping[str, int | None]:
        """The counts that brokers gave; other streams have theirs in the spec."""
        return self._topics

    def next_attempt(self) -> int:
        """Return a number larger than those of all attempts of this run: the fencing epoch."""
        stored = self._store.get(_ATTEMPT)
        attempt = checked_attempt(1 if stored is None else int(stored.value) + 1)
        self._store.put(_ATTEMPT, b"%d" % attempt, None if stored is None else stored.version)
        return attempt

    def record(self) -> PlacementRecord | None:
        """Return the placement record of the last attempt; None if there was none."""
        return self._records.load(self._run)

    def placement(self, tasks: Sequence[str], up: Collection[str], expected: int) -> Placement | None:
        """Return the best assignment, given the last attempt's, once all processors are up; None before."""
        if len(up) < expected:
            return None
        # One host has one disk, so state is where it was, whatever the processor.
        return best_placement(tasks, dict.fromkeys(up, _HERE), self.record())

    def newer(self, than: Placement, tasks: Sequence[str], up: Collection[str]) -> Placement | None:  # noqa: ARG002
        """Return None: on one host tasks never move."""
        return None

    def ran(self, run_placement: RunPlacement) -> None:
        """Record where tasks run."""
        self.record()  # a saver replaces what it has seen
        self._records.save(run_placement.record(self._run))

    def applied(self, placement: Placement) -> None:
        """Do nothing: nobody reads it."""

    def paces(self, rates: Mapping[str, int], now: int) -> dict[str, Pace]:
        """Return generator system -> its pace, from the files of the run."""
        return kept_paces(self._store, _PACES, rates, now)

    def listen(self, event: Event) -> None:
        """Do nothing: nobody reads it."""

    def check(self) -> None:
        """Do nothing: the lock of the data directory keeps other attempts out."""
