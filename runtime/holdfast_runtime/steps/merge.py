"""The verb `merge` outside of Spark SQL: the rows of all inputs one after the other, in the order of `from`.

Columns are matched by name with Spark's rules. Must not decide whether they fit: that was checked before anything ran.
"""

from collections.abc import Sequence

import pyarrow as pa

from holdfast_runtime.steps.timed_rows import TimedRows


def merge(parts: Sequence[TimedRows], schema: pa.Schema) -> TimedRows:
    """Return all rows of all parts with their columns in the order of the schema; each part has all columns."""
    there = [TimedRows(aligned(part.rows, schema), part.times, part.origins) for part in parts if part.count]
    return TimedRows.joined(there, schema)


def aligned(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the same rows with the column names and order of this schema."""
    if rows.schema.equals(schema):
        return rows
    columns = [rows.column(find_column(rows.schema, name)) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def find_column(schema: pa.Schema, name: str) -> int | None:
    """Return the index of a column by Spark's rules, the exact name first, then ignoring case; None if missing."""
    if name in schema.names:
        return int(schema.names.index(name))
    folded = [one.casefold() for one in schema.names]
    return folded.index(name.casefold()) if name.casefold() in folded else None
