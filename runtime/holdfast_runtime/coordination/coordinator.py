"""The coordinator of a run, which places its tasks and records where they run, on one host or on a cluster.

With the decisions that both take: whether an assignment fits, the driver's own one, how tasks share cores. Paces of
generators start once and are kept with the run, so that the rows made by a given time do not depend on the attempt.
Must not fix how things are stored: `local` uses files, `cluster` uses ConfigMaps and works with the operator. Must not
import Spark: tests without a JVM also assign tasks to slots.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from holdfast.placement.assignment import assign
from holdfast.placement.metadata_store import MetadataStore
from holdfast.placement.record_store import key_part
from holdfast.protocol.assignment import Assignment, VersionedAssignment
from holdfast.spec.kept_state import KeptState
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import ParentEnd, PlacementRecord
from holdfast_runtime.progress import Event
from holdfast_runtime.streams.generator import Pace


@dataclass(frozen=True, slots=True)
class Placement:
    """The assignment of tasks to processors, with the locations of processors."""

    version: int
    """The version of the operator's assignment; 0: the driver's own."""
    locations: Mapping[str, str]
    """Processor -> location."""
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class RunPlacement:
    """Where tasks run and what they read, recorded for the next attempt."""

    grouping: Mapping[str, tuple[StreamPartition, ...]]
    placement: Placement
    child_after: Mapping[StreamPartition, ParentEnd]
    side_counts: Mapping[str, int] = field(default_factory=dict)
    """Stream that no task reads -> its partitions."""
    state: KeptState = field(default_factory=KeptState)
    """The state that steps keep."""

    def record(self, run: str) -> PlacementRecord:
        """Return the placement record of this run."""
        processor_of = self.placement.assignment.processor_of()
        locations = {task: self.placement.locations[processor] for task, processor in processor_of.items()}
        return PlacementRecord(
            run, self.grouping, locations, processor_of, self.child_after, self.side_counts, self.state
        )


class Coordinator(Protocol):
    """The coordinator of one run of one app."""

    @property
    def owner(self) -> str:
        """The owner of the app, in words: apps of the same name with different owners are different apps."""

    @property
    def topics(self) -> Mapping[str, int | None]:
        """Stream -> partition count for the plan, in addition to those in the spec."""

    def record(self) -> PlacementRecord | None:
        """Return the run's placement record; None if the run has not begun."""

    def next_attempt(self) -> int:
        """Return the number of this attempt, its fencing epoch: larger than all before it."""

    def placement(self, tasks: Sequence[str], up: Collection[str], expected: int) -> Placement | None:
        """Return where tasks run first; None if not decided yet. `up`: processors that are up, of `expected` many."""

    def newer(self, than: Placement, tasks: Sequence[str], up: Collection[str]) -> Placement | None:
        """Return where tasks are to run from now on; None if nothing has changed."""

    def ran(self, run_placement: RunPlacement) -> None:
        """Record where tasks run, before their first batch there."""

    def applied(self, placement: Placement) -> None:
        """Note that tasks run under this placement from now on."""

    def paces(self, rates: Mapping[str, int], now: int) -> dict[str, Pace]:
        """Return generator system -> its pace, which starts once and changes only with its rate."""

    def listen(self, event: Event) -> None:
        """Take note of an event of the attempt."""

    def check(self) -> None:
        """Raise an error if this attempt must not go on."""


def paces_key(app: str, run: str) -> str:
    """Return the key of a run's paces, where runs share a store."""
    return f"{key_part(app)}/paces/{key_part(run)}"


def kept_paces(store: MetadataStore, key: str, rates: Mapping[str, int], now: int) -> dict[str, Pace]:
    """Return generator system -> its pace; store paces that are new, or whose rate has changed, under this key."""
    stored = store.get(key)
    stored_paces = {} if stored is None else {name: Pace(*fields) for name, fields in json.loads(stored.value).items()}
    paces = {
        name: stored_paces[name].changed(rate, now) if name in stored_paces else Pace(rate, now)
        for name, rate in rates.items()
    }
    if not paces.items() <= stored_paces.items():
        tree = {name: [pace.rows_per_second, pace.since, pace.before] for name, pace in (stored_paces | paces).items()}
        store.put(key, json.dumps(tree).encode(), None if stored is None else stored.version)
    return paces


_SHOWN = 3


def misfit(handed: VersionedAssignment, attempt: int, tasks: Sequence[str], up: Collection[str]) -> str | None:
    """Return why an assignment can't be applied now; None if it can."""
    if handed.attempt != attempt:
        return f"it is meant for attempt {handed.attempt}"
    if sorted(chain.from_iterable(handed.assignment.tasks_of.values())) != sorted(tasks):
        return "its tasks are not those of the app, each once"
    if missing := sorted(handed.processors.keys() - up):
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        return f"{', '.join(missing[:_SHOWN])}{more} did not register with Spark yet"
    return None


def own_placement(tasks: Sequence[str], up: Collection[str], record: PlacementRecord | None) -> Placement:
    """Return the best assignment over the processors that are up.

    Each is at its last known location, or else at one of its own: a processor is a pod with a stable name, and its disk
    follows the name. If that is not so, state is restored.
    """
    ran = [] if record is None else sorted(record.task_processor.items())
    locations = {} if record is None else {processor: record.task_location.get(task) for task, processor in ran}
    return best_placement(tasks, {processor: locations.get(processor) or processor for processor in up}, record)


def best_placement(tasks: Sequence[str], locations: Mapping[str, str], record: PlacementRecord | None) -> Placement:
    """Return the best assignment over processors at these locations, given where tasks ran last."""
    was, ran_on = ({}, {}) if record is None else (record.task_location, record.task_processor)
    return Placement(0, locations, assign(tasks, locations, was, ran_on))


def count_in_place(before: PlacementRecord | None, run_placement: RunPlacement) -> int:
    """Return how many tasks run where their state was, or had no state."""
    was = {} if before is None else before.task_location
    return sum(
        was.get(task) in (None, run_placement.placement.locations[processor])
        for task, processor in run_placement.placement.assignment.processor_of().items()
    )


def tasks_by_slot(assignment: Assignment, cores: int) -> dict[str, tuple[str, ...]]:
    """Return slot -> tasks: a processor's tasks go to its cores in turn; a core without tasks has no slot."""
    slots = {
        f"{processor}/{core}": tasks[core::cores]
        for processor, tasks in assignment.tasks_of.items()
        for core in range(cores)
    }
    return {slot: tasks for slot, tasks in slots.items() if tasks}
