"""The coordinator of a run, which places its tasks and records where they run, on one host or on a cluster.

Paces of generators start once and are kept with the run, so that the rows made by a given time do not depend on the
attempt. Must not fix how things are stored: `local` uses files, `cluster` uses ConfigMaps and works with the operator.
Must not generate rows.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.placement.metadata_store import MetadataStore
from holdfast.protocol.assignment import Assignment
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
    state: KeptState = field(default_factory=KeptState)
    """The state that steps keep."""

    def record(self, run: str) -> PlacementRecord:
        """Return the placement record of this run."""
        processor_of = self.placement.assignment.processor_of()
        locations = {task: self.placement.locations[processor] for task, processor in processor_of.items()}
        return PlacementRecord(run, self.grouping, locations, processor_of, self.child_after, self.state)


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

    def placement(self, tasks: Sequence[str], up: Collection[str], wanted: int) -> Placement | None:
        """Return where tasks run first; None if not decided yet. `up`: processors that are up, of `wanted` many."""

    def newer(self, than: Placement, tasks: Sequence[str], up: Collection[str]) -> Placement | None:
        """Return where tasks are to run from now on; None if nothing has changed."""

    def ran(self, what: RunPlacement) -> None:
        """Record where tasks run, before their first batch there."""

    def applied(self, placement: Placement) -> None:
        """Note that tasks run under this placement from now on."""

    def paces(self, rates: Mapping[str, int], now: int) -> dict[str, Pace]:
        """Return generator system -> its pace, which starts once and changes only with its rate."""

    def listen(self, event: Event) -> None:
        """Take note of an event of the attempt."""

    def check(self) -> None:
        """Raise an error if this attempt must not go on."""


def kept_paces(store: MetadataStore, key: str, rates: Mapping[str, int], now: int) -> dict[str, Pace]:
    """Return generator system -> its pace; store paces that are new, or whose rate has changed, under this key."""
    stored = store.get(key)
    known = {} if stored is None else {name: Pace(*one) for name, one in json.loads(stored.value).items()}
    paces = {name: known[name].changed(rate, now) if name in known else Pace(rate, now) for name, rate in rates.items()}
    if not paces.items() <= known.items():
        tree = {name: [one.rows_per_second, one.since, one.before] for name, one in (known | paces).items()}
        store.put(key, json.dumps(tree).encode(), None if stored is None else stored.version)
    return paces
