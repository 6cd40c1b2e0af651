"""The verb `toTable`: rows are written to a table and passed on. Must not know who looks them up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.steps.context import TaskTables
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.tables.kept_table import KeptTable, TableShape
from holdfast_runtime.steps.tables.kept_versions import DatasetEnd, KeptVersions
from holdfast_runtime.steps.timed_rows import TimedRows


@dataclass(frozen=True, slots=True)
class DatasetInputs:
    """What a batch brings of data sets besides rows."""

    source: str
    partitions: Sequence[StreamPartition]
    """All partitions that feed the table in this task."""
    ends: Mapping[int, Sequence[DatasetEnd]]
    """Partition of the source -> ends of data sets in it."""


class ToTableStep:
    """A step of this verb, for any number of tasks."""

    def __init__(self, shape: TableShape, kept_as: str, *, first: bool, last: bool = True) -> None:
        """`first`, `last`: of all writers of the table."""
        self._last = last
        self._shape, self._kept_as, self._first = shape, kept_as, first

    def run(self, rows: TimedRows, tables: TaskTables, generation: int | None = None) -> StepOutcome:
        """Run one batch of one task: the last row of a key stays. `generation`: of a table with side inputs."""
        table = KeptTable(tables.table(self._kept_as), self._shape)
        if self._first:
            table.begin(generation)
        return StepOutcome(rows, unkeyed=table.put(self._shape.stored(rows.rows)))

    def run_versioned(
        self, rows: TimedRows, tables: TaskTables, generation: int | None, datasets: DatasetInputs
    ) -> StepOutcome:
        """Run one batch of one task, for a table whose data set is replaced as a whole."""
        table = KeptVersions(tables.table(self._kept_as), self._shape, datasets.partitions)
        if self._first:
            table.begin(generation)
        unkeyed = table.put(datasets.source, rows.rows, datasets.ends)
        if self._last:
            table.switch()
        return StepOutcome(rows, unkeyed=unkeyed)
