"""Checks of a table's store before it is used: it may be of another app or run, too old or damaged.

Such a store would give wrong look-up results. `CHECKS` is the specification: a store is valid if no check refuses it,
and the first refusal is reported. The same checks apply to a durable copy. Must not open stores: `StoreFacts` come in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from holdfast.tasks.partitions import StreamPartition


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


def written_by_this_app(store: StoreFacts, wanted: StoreRequirement) -> StoreRefusal | None:
    """Refuse a store of another app: disks outlive apps, and a new app may get the disk of an old one."""
    if store.app == wanted.app:
        return None
    return StoreRefusal(StoreFault.OTHER_APP, f"it was written by app {store.app}, not {wanted.app}")


def written_in_this_run(store: StoreFacts, wanted: StoreRequirement) -> StoreRefusal | None:
    """Refuse a store of another run: with a new runId the user asks to start with empty state."""
    if store.run_id == wanted.run_id:
        return None
    return StoreRefusal(StoreFault.OTHER_RUN, f"it was written in run {store.run_id}, this is run {wanted.run_id}")


def written_for_this_table(store: StoreFacts, wanted: StoreRequirement) -> StoreRefusal | None:
    """Refuse a store of another table: tables may be renamed between attempts."""
    if store.table == wanted.table:
        return None
    return StoreRefusal(StoreFault.OTHER_TABLE, f"it holds table {store.table}, not {wanted.table}")


def fed_from_the_same_partitions(store: StoreFacts, wanted: StoreRequirement) -> StoreRefusal | None:
    """Refuse other partitions: rows of new ones would be missing, and rows of removed ones would never be updated."""
    if store.partitions == wanted.partitions:
        return None
    more, fewer = wanted.partitions - store.partitions, store.partitions - wanted.partitions
    return StoreRefusal(StoreFault.OTHER_PARTITIONS, f"it lacks {_listed(more)} and was also fed from {_listed(fewer)}")


def young_enough(store: StoreFacts, wanted: StoreRequirement) -> StoreRefusal | None:
    """Refuse a store that is too old: a compacted topic drops deletes after a while, so deleted rows would stay."""
    age = wanted.now - store.written_at
    if wanted.max_age is None or age < wanted.max_age:
        return None
    return StoreRefusal(StoreFault.STALE, f"it is {age} ms old, and maxAge is {wanted.max_age} ms")


def complete_enough(store: StoreFacts, wanted: StoreRequirement) -> StoreRefusal | None:
    """Refuse an incomplete store if `bootstrap` is set: users set it to get all rows, and the gaps would stay."""
    if not (wanted.bootstrap and store.incomplete):
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


def store_fault(store: StoreFacts, wanted: StoreRequirement) -> StoreRefusal | None:
    """Return the first reason not to use a store; None: it is valid."""
    return next((fault for check in CHECKS if (fault := check(store, wanted)) is not None), None)


def _listed(partitions: frozenset[StreamPartition]) -> str:
    """The first five partitions and how many more there are: a table may have thousands."""
    first = [str(partition) for partition in sorted(partitions)[:5]]
    rest = len(partitions) - len(first)
    return ", ".join([*first, *([f"{rest} more"] if rest else [])]) or "none"
