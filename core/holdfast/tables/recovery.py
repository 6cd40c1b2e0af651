"""The opening of a table: whether its store is used, where its sources are read from, how long main inputs wait.

A store may be of another app or run, too old or damaged, and would give wrong look-up results. `CHECKS` is the
specification: a store is valid if no check refuses it, and the first refusal is reported; a durable copy has the same
checks. `recover` is the decision table of the design, cell by cell; every table is opened by it. Main inputs wait until
a bootstrap table holds what its sources held at the start: the end of each partition is taken once, since with a busy
source the wait would never end otherwise. Must not look at disks, topics or sources: facts, bounds and positions are
arguments.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast.times import exact_span, time_span


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """The metadata of a store, and whether its checksums are right."""

    app: str
    run_id: str
    table: str
    partitions: frozenset[StreamPartition]
    """The partitions it was filled from."""
    written_at: int
    """The clock of its last commit, in milliseconds."""
    checksums_good: bool
    incomplete: bool = False
    """Whether it was started after rows that were already gone, so that some are missing."""


@dataclass(frozen=True, slots=True)
class StoreRequirement:
    """What a store must be to be used now."""

    app: str
    run_id: str
    table: str
    partitions: frozenset[StreamPartition]
    max_age: int | None
    """Milliseconds; None: any age."""
    now: int
    bootstrap: bool = False
    """Whether it must hold all rows there are."""


class StoreFault(Enum):
    """The kinds of reasons for which a store is not used."""

    OTHER_APP = "OtherApp"
    OTHER_RUN = "OtherRun"
    OTHER_TABLE = "OtherTable"
    OTHER_PARTITIONS = "OtherPartitions"
    STALE = "Stale"
    INCOMPLETE = "Incomplete"
    DAMAGED = "Damaged"


@dataclass(frozen=True, slots=True)
class StoreRefusal:
    """Why a store is not used, with names and numbers."""

    kind: StoreFault
    message: str


Check = Callable[[StoreFacts, StoreRequirement], StoreRefusal | None]


def written_by_this_app(store: StoreFacts, requirement: StoreRequirement) -> StoreRefusal | None:
    """Refuse a store of another app: disks outlive apps, and a new app may get the disk of an old one."""
    if store.app == requirement.app:
        return None
    return StoreRefusal(StoreFault.OTHER_APP, f"it was written by app {store.app}, not {requirement.app}")


def written_in_this_run(store: StoreFacts, requirement: StoreRequirement) -> StoreRefusal | None:
    """Refuse a store of another run: with a new runId the user asks to start with empty state."""
    if store.run_id == requirement.run_id:
        return None
    return StoreRefusal(StoreFault.OTHER_RUN, f"it was written in run {store.run_id}, this is run {requirement.run_id}")


def written_for_this_table(store: StoreFacts, requirement: StoreRequirement) -> StoreRefusal | None:
    """Refuse a store of another table: tables may be renamed between attempts."""
    if store.table == requirement.table:
        return None
    return StoreRefusal(StoreFault.OTHER_TABLE, f"it holds table {store.table}, not {requirement.table}")


def fed_from_the_same_partitions(store: StoreFacts, requirement: StoreRequirement) -> StoreRefusal | None:
    """Refuse other partitions: rows of new ones would be missing, and rows of removed ones would never be updated."""
    if store.partitions == requirement.partitions:
        return None
    more, fewer = requirement.partitions - store.partitions, store.partitions - requirement.partitions
    return StoreRefusal(StoreFault.OTHER_PARTITIONS, f"it lacks {_listed(more)} and was also fed from {_listed(fewer)}")


def young_enough(store: StoreFacts, requirement: StoreRequirement) -> StoreRefusal | None:
    """Refuse a store that is too old: a compacted topic drops deletes after a while, so deleted rows would stay."""
    age = requirement.now - store.written_at
    if requirement.max_age is None or age < requirement.max_age:
        return None
    return StoreRefusal(
        StoreFault.STALE, f"it is {time_span(age)} old, and maxAge is {exact_span(requirement.max_age)}"
    )


def complete_enough(store: StoreFacts, requirement: StoreRequirement) -> StoreRefusal | None:
    """Refuse an incomplete store if `bootstrap` is set: users set it to get all rows, and the gaps would stay."""
    if not (requirement.bootstrap and store.incomplete):
        return None
    return StoreRefusal(StoreFault.INCOMPLETE, "it started incomplete, and bootstrap asks for all rows")


def undamaged(store: StoreFacts, _wanted: StoreRequirement) -> StoreRefusal | None:
    """Refuse a damaged store. The last check, since only this one has to read the store."""
    return None if store.checksums_good else StoreRefusal(StoreFault.DAMAGED, "its checksums do not fit its contents")


CHECKS: tuple[Check, ...] = (
    written_by_this_app,
    written_in_this_run,
    written_for_this_table,
    fed_from_the_same_partitions,
    young_enough,
    complete_enough,
    undamaged,
)


def store_fault(store: StoreFacts, requirement: StoreRequirement) -> StoreRefusal | None:
    """Return the first reason not to use a store; None: it is valid."""
    return next((fault for check in CHECKS if (fault := check(store, requirement)) is not None), None)


def _listed(partitions: frozenset[StreamPartition]) -> str:
    """The first five partitions and how many more there are: a table may have thousands."""
    first = [str(partition) for partition in sorted(partitions)[:5]]
    rest = len(partitions) - len(first)
    return ", ".join([*first, *([f"{rest} more"] if rest else [])]) or "none"


class LocalStore(Enum):
    """What was found on the disk."""

    ABSENT = "none"
    INVALID = "invalid"
    VALID = "valid"


class StoreAction(Enum):
    """What to do with the store on the disk."""

    CREATE = "create"
    RECREATE = "recreate"
    """Delete what is there, then create."""
    KEEP = "keep"


class SourceStart(Enum):
    """The offset from which each partition of the sources is read."""

    OLDEST = "the oldest record there is"
    STORED = "behind the last record in the local store"
    COPY = "behind the last record in the durable copy"
    RUN = "behind the last record that this run has read"


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What is known of a table before it is opened."""

    bootstrap: bool
    """Whether main inputs wait until the table is loaded."""
    persistent: bool
    local: LocalStore
    """The result of `store_fault`; a table in memory has no local store."""
    copy_usable: bool = False
    """Whether there is a durable copy that passes the same checks and is newer than the oldest record."""
    read_before: bool = False
    """Whether this run has read the sources before, so that there is a last offset of the run."""
    lacking: bool = False
    """Whether the store or copy that would be used is marked as incomplete."""


@dataclass(frozen=True, slots=True)
class TableRecovery:
    """What to do with a table when its task opens."""

    store: StoreAction
    start: SourceStart
    restore_copy: bool = False
    """Fill the new store from the durable copy before reading."""
    main_inputs_wait: bool = False
    incomplete: bool = False
    """Rows that were read before are lost and not read again: report `TableIncomplete`, and mark the store, since it
    stays incomplete in later attempts."""


def recover(facts: TableFacts) -> TableRecovery:
    """Return what to do with a table, given what was found."""
    waits = facts.bootstrap
    local = facts.local if facts.persistent else LocalStore.ABSENT
    if local is LocalStore.VALID:
        return TableRecovery(StoreAction.KEEP, SourceStart.STORED, main_inputs_wait=waits, incomplete=facts.lacking)
    store = StoreAction.CREATE if local is LocalStore.ABSENT else StoreAction.RECREATE
    if facts.persistent and facts.copy_usable:
        incomplete = facts.lacking
        return TableRecovery(store, SourceStart.COPY, restore_copy=True, main_inputs_wait=waits, incomplete=incomplete)
    if facts.bootstrap:
        return TableRecovery(store, SourceStart.OLDEST, main_inputs_wait=True)
    if not facts.read_before:
        # A run's first attempt has nothing to continue from, and starting at the end would lose what is there.
        return TableRecovery(store, SourceStart.OLDEST)
    return TableRecovery(store, SourceStart.RUN, incomplete=True)


def newer_than_oldest(applied: Mapping[StreamPartition, int | None], oldest: Mapping[StreamPartition, int]) -> bool:
    """Whether reading can continue after the offsets that a durable copy has applied, without missing a record.

    A partition of which the copy has applied nothing is read from its oldest record, as without the copy.
    """
    return all(
        applied_here is None or applied_here + 1 >= oldest[partition] for partition, applied_here in applied.items()
    )


@dataclass(frozen=True, slots=True)
class StartingOffset:
    """Where reading of one partition starts."""

    offset: int
    """The next record to read."""
    gone: int
    """How many offsets between the last one applied and this are gone from the topic; to be counted and shown."""


def starting_offset(applied: int | None, oldest: int, end: int | None = None) -> StartingOffset:
    """Return the offset after the last record applied, or the oldest offset if that is later or none was applied.

    `end` is the offset after the newest record. If the table has applied more, the topic is another one: this raises,
    since reading on would hide that.
    """
    if applied is None:
        return StartingOffset(oldest, 0)
    following = applied + 1
    if end is not None and following > end:
        message = (
            f"the table has applied offset {applied}, but its source ends before offset {end}: the topic was created "
            f"again or truncated. Restore the topic, or set a new spec.runId to load the table from what is there now"
        )
        raise UserActionError(message, code="TableBeyondSourceError")
    return StartingOffset(max(following, oldest), max(0, oldest - following))


class SourceBounds(NamedTuple):
    """The offsets of a partition that were to be read at the start of an attempt."""

    start: int
    """The next record to read."""
    end: int
    """The offset after the newest record; equal to `start` if there was nothing to read."""


@dataclass(frozen=True, slots=True)
class TableLoading:
    """What of a table is still to be loaded."""

    waiting: Mapping[StreamPartition, SourceBounds]
    """Partitions that have not reached their end, with their current position as `start`."""

    @classmethod
    def noted(cls, bounds: Mapping[StreamPartition, SourceBounds]) -> "TableLoading":
        """Return what is to be loaded at the start of an attempt."""
        return cls({partition: bound for partition, bound in bounds.items() if bound.start < bound.end})

    def reached(self, positions: Mapping[StreamPartition, int]) -> "TableLoading":
        """Return what is left to load at these positions (the next record to read of each partition).

        Compares positions, not records: the newest record at the start may have been compacted away since.
        """
        waiting = {}
        for partition, bound in self.waiting.items():
            position = max(bound.start, positions.get(partition, bound.start))
            if position < bound.end:
                waiting[partition] = SourceBounds(position, bound.end)
        return self if waiting == self.waiting else TableLoading(waiting)

    @property
    def loaded(self) -> bool:
        """Whether main inputs may be read. Once true, it stays true."""
        return not self.waiting

    @property
    def left(self) -> int:
        """How many offsets are still to be read."""
        return sum(bound.end - bound.start for bound in self.waiting.values())
