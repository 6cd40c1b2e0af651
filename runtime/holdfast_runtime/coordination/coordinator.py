"""The coordinator of a run: who places its tasks and remembers it, the same on one host and on a cluster.

Generators' paces are begun once and kept with the run: so many rows by when, in whichever attempt. Must not say how
things are kept: `local` keeps files, `cluster` keeps ConfigMaps and talks with the operator. Must not make rows.
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
    """Which processor runs which tasks, and where it is."""

    version: int
    """Of the assignment that was handed over; 0: the driver's own."""
    locations: Mapping[str, str]
    """Processor -> location."""
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class RunPlacement:
    """Where tasks run: what the next attempt is told."""

    grouping: Mapping[str, tuple[StreamPartition, ...]]
    placement: Placement
    child_after: Mapping[StreamPartition, ParentEnd]
    state: KeptState = field(default_factory=KeptState)
    """What its steps keep."""

    def record(self, run: str) -> PlacementRecord:
        """As the placement record of this run."""
        processor_of = self.placement.assignment.processor_of()
        locations = {task: self.placement.locations[processor] for task, processor in processor_of.items()}
        return PlacementRecord(run, self.grouping, locations, processor_of, self.child_after, self.state)


class Coordinator(Protocol):
    """One run of one app."""

    @property
    def owner(self) -> str:
        """Whose the app is, in words: apps of one name and different owners are different apps."""

    @property
    def topics(self) -> Mapping[str, int | None]:
        """Partition counts that the plan is to be made with, by stream, beside those in the spec."""

    def record(self) -> PlacementRecord | None:
        """What the run looked like last; None: it has not begun."""

    def next_attempt(self) -> int:
        """The number of this attempt, its fencing epoch: larger than all before it."""

    def placement(self, tasks: Sequence[str], up: Collection[str], wanted: int) -> Placement | None:
        """Where tasks begin to run, with these of so many wanted processors up; None: not decided yet."""

    def newer(self, than: Placement, tasks: Sequence[str], up: Collection[str]) -> Placement | None:
        """Where tasks are to run from now on; None: where they do."""

    def ran(self, what: RunPlacement) -> None:
        """Remember where tasks run, before their first batch there."""

    def applied(self, placement: Placement) -> None:
        """From now on tasks run there."""

    def paces(self, rates: Mapping[str, int], now: int) -> dict[str, Pace]:
        """Generator system -> how much it has made by when: begun once, and changed when its rate is."""

    def listen(self, event: Event) -> None:
        """How the attempt goes."""

    def check(self) -> None:
        """Raise what forbids this attempt to go on."""


def kept_paces(store: MetadataStore, key: str, rates: Mapping[str, int], now: int) -> dict[str, Pace]:
    """Generator system -> its pace; those that are new or whose rate has changed are kept under this key."""
    stored = store.get(key)
    known = {} if stored is None else {name: Pace(*one) for name, one in json.loads(stored.value).items()}
    paces = {name: known[name].changed(rate, now) if name in known else Pace(rate, now) for name, rate in rates.items()}
    if not paces.items() <= known.items():
        tree = {name: [one.rows_per_second, one.since, one.before] for name, one in (known | paces).items()}
        store.put(key, json.dumps(tree).encode(), None if stored is None else stored.version)
    return paces
