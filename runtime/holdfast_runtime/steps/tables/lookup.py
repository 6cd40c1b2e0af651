"""The verb `lookup`: each row with the row that a table has for its key at that moment.

One row comes out for each, or none for one without a match if the look-up is `Inner`. A null in a key matches nothing.
Must not write anything.
"""

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from holdfast.planning.join_columns import JoinColumn
from holdfast_runtime.state.sorted.layered_rows import LayeredTable
from holdfast_runtime.state.sorted.newest_rows import FoundRows
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.tables.kept_table import KeptTable, TableShape
from holdfast_runtime.steps.timed_rows import TimedRows, find_column

FOUND = "__found"
"""A column of the table that says whether there is a row."""


@dataclass(frozen=True, slots=True)
class LookupPlan:
    """A `lookup` over rows of these columns."""

    by: tuple[str, ...]
    inner: bool
    columns: tuple[JoinColumn, ...]
    input_schema: pa.Schema
    table: TableShape
    kept_as: str
    shared: bool = False
    """Whether the table is one of the location, not one of the task."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return pa.schema([pa.field(output.name, self._type(output)) for output in self.columns])

    def index(self, column: str) -> int:
        """Return the index of a column of the rows."""
        index = find_column(self.input_schema, column)
        assert index is not None  # noqa: S101 - the planner has looked
        return index

    def _type(self, output: JoinColumn) -> pa.DataType:
        if output.column == FOUND:
            return pa.bool_()
        if output.side == "right":
            return self.table.kept.field(self.table.index(output.column)).type
        return self.input_schema.field(self.index(output.column)).type


class LookedUp(Protocol):
    """The tables of a task, or those of a location."""

    def table(self, name: str) -> LayeredTable:
        """Return a table by name."""


class LookupStep:
    """A step of this verb, for any number of tasks."""

    def __init__(self, plan: LookupPlan) -> None:
        self._plan = plan
        self.schema = plan.schema

    def run(self, rows: TimedRows, tables: LookedUp) -> StepOutcome:
        """Run one batch of one task."""
        plan = self._plan
        # The table has its key in its own order.
        keys = [rows.rows.column(plan.index(name)) for name in plan.table.key]
        table_rows = KeptTable(tables.table(plan.kept_as), plan.table).find(keys, rows.count)
        columns = [self._column(output, rows, table_rows) for output in plan.columns]
        looked_up_rows = TimedRows(
            pa.RecordBatch.from_arrays(columns, schema=self.schema), rows.times, marks=rows.marks
        )
        return StepOutcome(looked_up_rows.where(table_rows.piece_of >= 0) if plan.inner else looked_up_rows)

    def _column(self, output: JoinColumn, rows: TimedRows, table_rows: FoundRows) -> pa.Array:
        if output.side != "right":
            return rows.rows.column(self._plan.index(output.column))
        if output.column == FOUND:
            return pa.array(table_rows.piece_of >= 0)
        return table_rows.column(self._plan.table.index(output.column))
