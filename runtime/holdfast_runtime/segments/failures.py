"""Rows on which a `filter` or `select` fails, as they travel from Spark SQL to where they become dead letters.

Which column could not be computed, and the row that the step was given. Spark says only that it failed: what it would
raise is lost where it is caught. Must not need a JVM.
"""

import pyarrow as pa

from holdfast.spec.steps import Step
from holdfast_runtime.steps.letters import FailedRow
from holdfast_runtime.steps.timed_rows import TimedRows

COLUMN, ROW = "column", "row"
_WHY = "a value it can't cast, a number too large, a division by zero or an index that is not there"


def failed_schema(given: pa.Schema) -> pa.Schema:
    """Of the rows that fail in a step that is given rows of this schema."""
    return pa.schema([(COLUMN, pa.string()), (ROW, pa.struct(list(given)))])


def failed_rows(step: Step, failed: TimedRows) -> tuple[TimedRows, list[FailedRow]]:
    """The rows as the step was given them, and why each failed."""
    row = failed.rows.column(ROW)
    schema = pa.schema([row.type.field(at) for at in range(row.type.num_fields)])
    given = TimedRows(pa.RecordBatch.from_arrays(row.flatten(), schema=schema), failed.times)
    return given, [
        FailedRow(at, _reason(step, column), column) for at, column in enumerate(failed.rows.column(COLUMN).to_pylist())
    ]


def _reason(step: Step, column: str | None) -> str:
    if column is None:
        return f"Spark SQL can't compute the filter {step.filter} for this row: {_WHY}"
    return f"Spark SQL can't compute column {column} for this row: {_WHY}"
