"""Why: the coordinator of a single host: the same decisions as on a cluster, remembered in files.

Numbers attempts, keeps the placement record of each run, and assigns tasks to the processors there are. Must not know
Spark: processors come in by name.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.placement.assignment import Assignment, assign
from holdfast.placement.file_store import FileStore
from holdfast.placement.metadata_store import MetadataStore
from holdfast.placement.record_store import RecordStore
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import ParentEnd, Record
from holdfast_runtime.streams.pace import Pace

_ATTEMPT, _PACES = "attempt", "paces"


@dataclass(frozen=True, slots=True)
class Ran:
    """Where tasks ran: what the next attempt is told."""

    grouping: Mapping[str, tuple[StreamPartition, ...]]
    processors: Mapping[str, str]
    """Processor -> location."""
    assignment: Assignment
    child_after: Mapping[StreamPartition, ParentEnd]


class LocalCoordinator:
    """One run of one app on this host."""

    def __init__(self, directory: Path, app: str, run_id: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
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

    def next_attempt(self) -> int:
        """A number no attempt of this run had, larger than all before it: its fencing epoch."""
        stored = self._store.get(_ATTEMPT)
        attempt = 1 if stored is None else int(stored.value) + 1
        self._store.put(_ATTEMPT, b"%d" % attempt, None if stored is None else stored.version)
        return attempt

    def record(self) -> Record | None:
        """What the last attempt looked like; None: there was none."""
        return self._records.load(self._run)

    def assign(self, tasks: Sequence[str], processors: Mapping[str, str]) -> Assignment:
        """The best assignment after the last attempt."""
        record = self.record()
        if record is None:
            return assign(tasks, processors, {}, {})
        return assign(tasks, processors, record.task_location, record.task_processor)

    def ran(self, what: Ran) -> None:
        """Remember where tasks ran."""
        processor_of = what.assignment.processor_of()
        locations = {task: what.processors[processor] for task, processor in processor_of.items()}
        self.record()  # a saver replaces what it has seen
        self._records.save(Record(self._run, what.grouping, locations, processor_of, what.child_after))

    def paces(self, rates: Mapping[str, int], now: int) -> dict[str, Pace]:
        """Generator system -> how much it has made by when: begun once, and changed when its rate is."""
        stored = self._store.get(_PACES)
        known = {} if stored is None else {name: Pace(*one) for name, one in json.loads(stored.value).items()}
        paces = {
            name: known[name].changed(rate, now) if name in known else Pace(rate, now) for name, rate in rates.items()
        }
        if paces != known:
            tree = {name: [one.rows_per_second, one.since, one.before] for name, one in (known | paces).items()}
            self._store.put(_PACES, json.dumps(tree).encode(), None if stored is None else stored.version)
        return paces
