"""Checks of a table's store before it is used: it may be another app's, another run's, too old or broken.

Such a store would answer look-ups wrong. `CHECKS` is the specification: a store is valid if no check refuses it, and
the first refusal is the reason given. A durable copy is judged by the same list. Must not open stores: what they say
about themselves comes in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from holdfast.tasks.partitions import StreamPartition


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """What a store says about itself, and whether its bytes are as they were written."""

    app: str
    run_id: str
    table: str
    partitions: frozenset[StreamPartition]
    """Those it was fed from."""
    written_at: int
    """The clock of its last commit, in milliseconds."""
    checksums_good: bool
    incomplete: bool = False
    """Whether it started behind rows that were already gone, so that some are missing."""


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
    """Why a store is not used."""

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
    """Disks outlive apps, and a new app may get the disk of an old one."""
    if store.app == wanted.app:
        return None
    return StoreRefusal(StoreFault.OTHER_APP, f"it was written by app {store.app}, not {wanted.app}")


def written_in_this_run(store: StoreFacts, wanted: StoreRequirement) -> StoreRefusal | None:
    """State never crosses runs: a new runId is how a user asks for an empty start."""
    if store.run_id == wanted.run_id:
        return None
    return StoreRefusal(StoreFault.OTHER_RUN, f"it was written in run {store.run_id}, this is run {wanted.run_id}")


def written_for_this_table(store: StoreFacts, wanted: StoreRequirement) -> StoreRefusal | None:
    """Tables may change names between attempts."""
    if store.table == wanted.table:
        return None
    return StoreRefusal(StoreFault.OTHER_TABLE, f"it holds table {store.table}, not {wanted.table}")


def fed_from_the_same_partitions(store: StoreFacts, wanted: StoreRequirement) -> StoreRefusal | None:
    """With more, rows of a partition would be missing; with fewer, rows would be kept that nobody updates."""
    if store.partitions == wanted.partitions:
        return None
    more, fewer = wanted.partitions - store.partitions, store.partitions - wanted.partitions
    return StoreRefusal(StoreFault.OTHER_PARTITIONS, f"it lacks {_listed(more)} and was also fed from {_listed(fewer)}")


def young_enough(store: StoreFacts, wanted: StoreRequirement) -> StoreRefusal | None:
    """A compacted topic forgets its deletes after a while: an older store would keep deleted rows for ever."""
    age = wanted.now - store.written_at
    if wanted.max_age is None or age < wanted.max_age:
        return None
    return StoreRefusal(StoreFault.STALE, f"it is {age} ms old, and maxAge is {wanted.max_age} ms")


def complete_enough(store: StoreFacts, wanted: StoreRequirement) -> StoreRefusal | None:
    """Setting `bootstrap` is how a user cures an incomplete table; a store that stays would keep its gaps for ever."""
    if not (wanted.bootstrap and store.incomplete):
        return None
    return StoreRefusal(StoreFault.INCOMPLETE, "it started incomplete, and bootstrap asks for all rows")


def undamaged(store: StoreFacts, _wanted: StoreRequirement) -> StoreRefusal | None:
    """Last, since it is the one that costs reading."""
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
    """The first reason not to use a store; None: it is valid."""
    return next((fault for check in CHECKS if (fault := check(store, wanted)) is not None), None)


def _listed(partitions: frozenset[StreamPartition]) -> str:
    """At most a handful: a table may have thousands."""
    first = [str(partition) for partition in sorted(partitions)[:5]]
    rest = len(partitions) - len(first)
    return ", ".join([*first, *([f"{rest} more"] if rest else [])]) or "none"
