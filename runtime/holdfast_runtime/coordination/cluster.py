"""The coordinator on a cluster: the operator numbers attempts and assigns tasks, the driver writes record and report.

The driver is the record's only writer, because the record must be durable before a new partition is read, even while
the operator is away. Nor does the driver wait for the operator longer than `patience`. Must not know Spark: processors
are given by name.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Self

from holdfast.errors import RetrySoonError, WorldChangeError
from holdfast.placement.config_map_store import ConfigMaps, ConfigMapStore
from holdfast.placement.metadata_store import VersionConflictError
from holdfast.placement.record_store import RecordStore
from holdfast.protocol.assignment import ASSIGNMENT_KEY, AssignmentInvalidError, VersionedAssignment, read_assignment
from holdfast.protocol.attempt import AttemptOrders
from holdfast.tasks.record import PlacementRecord
from holdfast_runtime.clocks import now
from holdfast_runtime.coordination.coordinator import (
    Placement,
    RunPlacement,
    count_in_place,
    kept_paces,
    misfit,
    own_placement,
    paces_key,
)
from holdfast_runtime.coordination.reporter import Reporter, ReportMap, SupersededError, check_newest, owner_reference
from holdfast_runtime.coordination.row_meter import RowMeter
from holdfast_runtime.progress import Event, Progress, TablesLoading
from holdfast_runtime.streams.generator import Pace

_LOG = logging.getLogger("holdfast")
PATIENCE = 60.0
"""Seconds to wait for an assignment after the first executor is up."""


class ClusterCoordinator:
    """The coordinator of one attempt, by the operator's orders."""

    def __init__(
        self,
        orders: AttemptOrders,
        maps: ConfigMaps,
        patience: float = PATIENCE,
        seconds: Callable[[], float] = time.monotonic,
        interval: float = 0.0,
    ) -> None:
        """`interval`: seconds between batches, as the app wants them."""
        self._told, self._maps, self._patience, self._seconds = orders, maps, patience, seconds
        self._store = ConfigMapStore(maps, orders.app, owner_reference(orders))
        self._records = RecordStore(self._store, orders.app)
        self._reporter = Reporter(ReportMap(maps, orders), orders.attempt, now, RowMeter(seconds(), interval), seconds)
        self._known: PlacementRecord | None = None
        self._counts = (0, 0, 0)
        self._first_up: float | None = None
        self._said = ""

    def __enter__(self) -> Self:
        self._reporter.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reporter.close()

    @property
    def owner(self) -> str:
        """The namespace, in which names of apps are unique."""
        return f"namespace {self._told.namespace}"

    @property
    def topics(self) -> Mapping[str, int | None]:
        """The partition counts with which the operator accepted the plan."""
        return self._told.topics

    def next_attempt(self) -> int:
        """Return the number that the operator gave the attempt."""
        return self._told.attempt

    def record(self) -> PlacementRecord | None:
        """Return the run's placement record; None if the run has not begun."""
        self._known = self._records.load(self._told.run)
        return self._known

    def placement(self, tasks: Sequence[str], up: Collection[str], expected: int) -> Placement | None:  # noqa: ARG002
        """Return the operator's assignment, or after `patience` the driver's. The operator decides how many suffice."""
        if not up:
            return None
        if (handed := self._handed(0, tasks, up)) is not None:
            return handed
        self._first_up = self._first_up or self._seconds()
        if self._seconds() - self._first_up < self._patience:
            return None
        _LOG.warning("no assignment came within %g s, the driver assigns %d tasks itself", self._patience, len(tasks))
        return own_placement(tasks, up, self._known)

    def newer(self, than: Placement, tasks: Sequence[str], up: Collection[str]) -> Placement | None:
        """Return the operator's assignment if it is newer; else None."""
        return self._handed(than.version, tasks, up)

    def ran(self, run_placement: RunPlacement) -> None:
        """Save the placement record; raise `SupersededError` if a newer attempt is at work."""
        record = run_placement.record(self._told.run)
        try:
            self._records.save(record)
        except VersionConflictError:
            self._check_newest()
            # An older attempt wrote the record; it is fenced off, so its driver can't do more. Write over it.
            self._records.load(self._told.run)
            self._records.save(record)
        partitions = {partition for inputs in run_placement.grouping.values() for partition in inputs}
        self._counts = len(run_placement.grouping), len(partitions), count_in_place(self._known, run_placement)
        self._known = record

    def applied(self, placement: Placement) -> None:
        """Report that tasks run under this placement."""
        tasks, _, in_place = self._counts
        _LOG.info("assignment %d is applied, %d of %d tasks where their state was", placement.version, in_place, tasks)
        self._reporter.placed(placement.version, *self._counts)

    def paces(self, rates: Mapping[str, int], now: int) -> dict[str, Pace]:
        """Return generator system -> its pace, from the ConfigMaps of the run."""
        if not rates:
            return {}
        return kept_paces(self._store, paces_key(self._told.app, self._told.run), rates, now)

    def listen(self, event: Event) -> None:
        """Report progress events."""
        if isinstance(event, Progress):
            self._reporter.progressed(event)
        elif isinstance(event, TablesLoading):
            self._reporter.loading(event)

    def check(self) -> None:
        """Raise `SupersededError` if a newer attempt is at work."""
        if self._reporter.superseded is not None:
            raise SupersededError(str(self._reporter.superseded))

    def _check_newest(self) -> None:
        try:
            check_newest(self._maps, self._told)
        except SupersededError as error:
            self._reporter.superseded = error
            raise

    def _handed(self, after: int, tasks: Sequence[str], up: Collection[str]) -> Placement | None:
        handed = self._read()
        if handed is None or handed.version <= after:
            return None
        why = misfit(handed, self._told.attempt, tasks, up)
        if why is None:
            return Placement(handed.version, handed.processors, handed.assignment)
        self._say(f"assignment {handed.version} is not applied for now: {why}")
        return None

    def _read(self) -> VersionedAssignment | None:
        try:
            tree = self._maps.get(self._told.assignment)
            text = None if tree is None else (tree.get("data") or {}).get(ASSIGNMENT_KEY)
            return None if text is None else read_assignment(text)
        except (RetrySoonError, WorldChangeError, AssignmentInvalidError) as error:
            self._say(f"the assignment can't be read; it is tried again: {error}")
            return None

    def _say(self, text: str) -> None:
        """Log a warning, but not twice in a row."""
        if text != self._said:
            self._said = text
            _LOG.warning("%s", text)
