"""The coordinator of a single host: the same decisions as on a cluster, remembered in files.

Numbers attempts, keeps the placement record of each run, and assigns tasks to the processors there are. Must not know
Spark: processors come in by name.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.placement.assignment import assign
from holdfast.placement.file_store import FileStore
from holdfast.placement.metadata_store import MetadataStore
from holdfast.placement.record_store import RecordStore
from holdfast.tasks.record import PlacementRecord
from holdfast_runtime.coordination.coordinator import Placement, RunPlacement, kept_paces
from holdfast_runtime.progress import Event
from holdfast_runtime.streams.generator import Pace

_ATTEMPT, _PACES = "attempt", "paces"
_HERE = "local"


class LocalCoordinator:
    """One run of one app on this host."""

    def __init__(self, directory: Path, app: str, run_id: str, topics: Mapping[str, int | None] | None = None) -> None:
        """`topics`: partition counts of streams that are in Kafka."""
        directory.mkdir(parents=True, exist_ok=True)
        self._topics = topics or {}
        self._run = run_id
        self._files = FileStore(directory)
        self._store: MetadataStore = self._files
        self._records = RecordStore(self._store, app)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()

    @property
    def owner(self) -> str:
        """The same wherever the data directory is moved, and after it was lost."""
        return "holdfast run"

    @property
    def topics(self) -> Mapping[str, int | None]:
        """As the brokers said; streams that run on one host have their counts in the spec."""
        return self._topics

    def next_attempt(self) -> int:
        """A number no attempt of this run had, larger than all before it: its fencing epoch."""
        stored = self._store.get(_ATTEMPT)
        attempt = 1 if stored is None else int(stored.value) + 1
        self._store.put(_ATTEMPT, b"%d" % attempt, None if stored is None else stored.version)
        return attempt

    def record(self) -> PlacementRecord | None:
        """What the last attempt looked like; None: there was none."""
        return self._records.load(self._run)

    def placement(self, tasks: Sequence[str], up: Collection[str], wanted: int) -> Placement | None:
        """The best assignment after the last attempt, when all processors are up."""
        if len(up) < wanted:
            return None
        # One host, one disk: whatever the processor, state is where it was.
        locations = dict.fromkeys(up, _HERE)
        record = self.record()
        was, ran_on = ({}, {}) if record is None else (record.task_location, record.task_processor)
        return Placement(0, locations, assign(tasks, locations, was, ran_on))

    def newer(self, than: Placement, tasks: Sequence[str], up: Collection[str]) -> Placement | None:  # noqa: ARG002
        """Nobody moves tasks here."""
        return None

    def ran(self, what: RunPlacement) -> None:
        """Remember where tasks run."""
        self.record()  # a saver replaces what it has seen
        self._records.save(what.record(self._run))

    def applied(self, placement: Placement) -> None:
        """Nobody asks."""

    def paces(self, rates: Mapping[str, int], now: int) -> dict[str, Pace]:
        """Generator system -> how much it has made by when."""
        return kept_paces(self._store, _PACES, rates, now)

    def listen(self, event: Event) -> None:
        """Nobody asks."""

    def check(self) -> None:
        """The lock of the directory keeps others out."""
