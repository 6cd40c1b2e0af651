"""The verb `toTable`: rows are written to a table and passed on. Must not know who looks them up."""

from holdfast_runtime.steps.context import TaskTables
from holdfast_runtime.steps.tables.kept_table import KeptTable, TableShape
from holdfast_runtime.steps.timed_rows import TimedRows


class ToTableStep:
    """A step of this verb, for any number of tasks."""

    def __init__(self, shape: TableShape, kept_as: str, *, first: bool) -> None:
        """`first`: of all writers of the table."""
        self._shape, self._kept_as, self._first = shape, kept_as, first

    def run(self, rows: TimedRows, tables: TaskTables) -> TimedRows:
        """Run one batch of one task: the last row of a key stays."""
        table = KeptTable(tables.table(self._kept_as), self._shape)
        if self._first:
            table.purge()
        table.put(self._shape.stored(rows.rows))
        return rows
