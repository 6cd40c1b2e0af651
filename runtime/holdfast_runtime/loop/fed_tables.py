"""Tables with side inputs, as the loop sees them: which start anew, what is left to load, and what waits for that.

A table has a generation: the number of the batch in which it was started, 0 of one that steps have always written.
Tasks and locations drop what they hold of another generation, so a table starts anew everywhere at once, in a batch
that reads its side inputs from there again. What decides it is the table of the design (`holdfast.tables.recovery`),
where the state of a task is its store and its durable copy in one. Main inputs wait until tables with `bootstrap` hold
what their side inputs held when the attempt began. The generation of a table of files is the number of its data set,
and changes with that. Pure: bounds, positions, data sets and clocks are arguments. Must not know how rows are kept.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.tables.recovery import (
    LocalStore,
    SourceBounds,
    SourceStart,
    StoreFacts,
    StoreRequirement,
    TableFacts,
    TableLoading,
    TableRecovery,
    recover,
    starting_offset,
    store_fault,
)
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.segments.graph import FedTable
from holdfast_runtime.streams.records import OffsetBounds

Positions = Mapping[StreamPartition, int]


@dataclass(frozen=True, slots=True)
class TableStarts:
    """How an attempt takes up its tables."""

    generations: Mapping[str, int]
    """Table -> its generation."""
    moves: Positions = field(default_factory=dict)
    """Partition of a side input that is read from elsewhere -> from where."""
    incomplete: tuple[str, ...] = ()
    """Tables that lack rows which were read before, or were gone before they were."""


@dataclass(frozen=True, slots=True)
class DataSetsSeen:
    """What the driver knows of the tables of files."""

    numbers: Mapping[str, int] = field(default_factory=dict)
    """Table -> its newest whole data set; 0: none."""
    loading: Mapping[str, int] = field(default_factory=dict)
    """Table that main inputs wait for -> about how many rows are left to load."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Table -> why its files could not be loaded when they were last looked at."""


def unchanged(before: Offsets) -> TableStarts:
    """Return how a batch takes up tables that its attempt has taken up."""
    return TableStarts(before.tables, incomplete=before.incomplete)


def table_starts(
    before: Offsets,
    tables: Iterable[FedTable],
    read: Iterable[StreamPartition],
    bounds: Mapping[StreamPartition, OffsetBounds],
    now: int,
) -> TableStarts:
    """Return how a new attempt takes its tables up; `now`: the batch clock."""
    fed, partitions = [table for table in tables if not table.files], list(read)
    recoveries = {table.name: _recovery(table, before, partitions, now) for table in fed}
    generations, moves, incomplete = dict[str, int](), dict[StreamPartition, int](), list[str]()
    # A side input that is read again is so for all that it feeds, or their newer rows would be followed by older ones.
    again = {source for table in fed if _from_oldest(recoveries[table.name]) for source in table.sources}
    for table in fed:
        side_inputs = [partition for partition in partitions if partition.stream in table.sources]
        renewed = recoveries[table.name].start is not SourceStart.STORED or not again.isdisjoint(table.sources)
        generations[table.name] = before.batch + 1 if renewed else before.tables.get(table.name, 0)
        lacks = recoveries[table.name].incomplete and again.isdisjoint(table.sources)
        for partition in side_inputs:
            position = before.positions.get(partition)
            if position is None:
                continue
            start = starting_offset(position - 1, bounds[partition].oldest)
            to = bounds[partition].oldest if partition.stream in again else start.offset
            lacks = lacks or (start.gone > 0 and partition.stream not in again)
            if to != position:
                moves[partition] = to
        if lacks:
            incomplete.append(table.name)
    return TableStarts(generations, moves, tuple(sorted(incomplete)))


def _recovery(table: FedTable, before: Offsets, partitions: Iterable[StreamPartition], now: int) -> TableRecovery:
    side_inputs = frozenset(partition for partition in partitions if partition.stream in table.sources)
    read_before, lacking = table.name in before.tables, table.name in before.incomplete
    # Nothing feeds a table again that steps write: what it holds counts, whatever kind of table it was before.
    present = read_before or not table.sources
    # App, run and partitions fit: offsets are of this run, and grown side inputs leave keys with their tasks.
    store = StoreFacts("", "", table.name, side_inputs, before.now, checksums_good=True, incomplete=lacking)
    requirement = StoreRequirement("", "", table.name, side_inputs, table.max_age, now, bootstrap=table.bootstrap)
    valid = present and store_fault(store, requirement) is None
    local = LocalStore.VALID if valid else LocalStore.INVALID if present else LocalStore.ABSENT
    # Under a new name, a table has read nothing yet, even where its side inputs were read for another.
    facts = TableFacts(table.bootstrap, not table.anew, local, read_before=read_before, lacking=lacking)
    return recover(facts)


def _from_oldest(recovery: TableRecovery) -> bool:
    return recovery.start is SourceStart.OLDEST


def loading_tables(
    tables: Iterable[FedTable], positions: Positions, ends: Positions, sets: DataSetsSeen
) -> dict[str, int]:
    """Return how many records are left to load of tables for which main inputs wait.

    `ends`: when the attempt began.
    """
    loading = dict[str, int](sets.loading)
    for table in tables:
        if table.bootstrap:
            positions_read = {
                partition: position
                for partition, position in positions.items()
                if partition.stream in table.sources and partition in ends
            }
            table_loading = TableLoading.noted(
                {partition: SourceBounds(position, ends[partition]) for partition, position in positions_read.items()}
            )
            if not table_loading.loaded:
                loading[table.name] = table_loading.left
    return loading


def waiting_inputs(
    loading: Mapping[str, int], tables: Iterable[FedTable], partitions: Iterable[StreamPartition], sets: DataSetsSeen
) -> dict[StreamPartition, str]:
    """Return the partitions that wait for tables, each with the reason."""
    if not loading:
        return {}
    side_inputs = {source for table in tables for source in table.sources}
    why = {name: sets.problems.get(name, f"{records:,} records left") for name, records in sorted(loading.items())}
    left = ", ".join(f"{name} ({problem})" for name, problem in why.items())
    reason = f"the app's inputs wait until its tables are loaded: {left}"
    return {partition: reason for partition in partitions if partition.stream not in side_inputs}
