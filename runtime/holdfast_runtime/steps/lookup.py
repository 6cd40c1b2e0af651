"""The verb `lookup`: each row with the row that a table has for its key at that moment.

One row comes out for each, or none for one without a match if the look-up is `Inner`. A null in a key matches nothing.
Must not write anything.
"""

from dataclasses import dataclass

import pyarrow as pa

from holdfast.planning.join_columns import JoinColumn
from holdfast_runtime.steps.context import TaskTables
from holdfast_runtime.steps.tables.kept_table import KeptTable, TableShape
from holdfast_runtime.steps.timed_rows import TimedRows, find_column


@dataclass(frozen=True, slots=True)
class LookupPlan:
    """A `lookup` over rows of these columns."""

    on: tuple[str, ...]
    inner: bool
    columns: tuple[JoinColumn, ...]
    given: pa.Schema
    table: TableShape
    kept_as: str

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return pa.schema([pa.field(one.name, self._type(one)) for one in self.columns])

    def place(self, column: str) -> int:
        """Return the place of a column of the rows."""
        at = find_column(self.given, column)
        assert at is not None  # noqa: S101 - the planner has looked
        return at

    def _type(self, one: JoinColumn) -> pa.DataType:
        if one.side == "right":
            return self.table.kept.field(self.table.place(one.column)).type
        return self.given.field(self.place(one.column)).type


class LookupStep:
    """A step of this verb, for any number of tasks."""

    def __init__(self, plan: LookupPlan) -> None:
        self._plan = plan
        self.schema = plan.schema

    def run(self, rows: TimedRows, tables: TaskTables) -> TimedRows:
        """Run one batch of one task."""
        plan = self._plan
        # The table has its key in its own order.
        keys = [rows.rows.column(plan.place(name)) for name in plan.table.key]
        found = KeptTable(tables.table(plan.kept_as), plan.table).find(keys, rows.count)
        columns = [
            found.column(plan.table.place(one.column))
            if one.side == "right"
            else rows.rows.column(plan.place(one.column))
            for one in plan.columns
        ]
        made = TimedRows(pa.RecordBatch.from_arrays(columns, schema=self.schema), rows.times)
        return made.where(found.piece_of >= 0) if plan.inner else made
