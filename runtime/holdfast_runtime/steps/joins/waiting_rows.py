"""The rows that wait on a side of a join, for who looks at them: with the names that their columns have on that side.

Rows that have left though their bucket is still there are left out; rows that were put aside until the next batch wait,
too. The join's own columns have names that begin with `#`. Must not write anything.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from holdfast_runtime.columns.hashed_rows import as_they_are
from holdfast_runtime.state.sorted.key_rows import SingleKey, read_keys
from holdfast_runtime.state.sorted.layered_rows import ASIDE, LayeredRows, LayeredTable
from holdfast_runtime.state.sorted.schema import OWN, time_column
from holdfast_runtime.state.sorted.stored_pieces import MARKED
from holdfast_runtime.steps.joins.join_plan import SIDES, TIME, JoinPlan
from holdfast_runtime.steps.joins.side_buffer import departures

SIDE = f"{OWN}side"
_UNTIL = time_column(f"{OWN}waits_until")
_MARKS = b"m"
_MATCHED = pa.field(f"{OWN}matched", pa.bool_())


def waiting_columns(plan: JoinPlan, side: int) -> pa.Schema:
    """Return the columns of what waits on a side: of the key, the others that come out, and the join's own."""
    schema = plan.kept(side)
    named = [field.with_name(field.name.removeprefix(OWN)) for field in [*schema][:-1]]
    matched = [_MATCHED] if plan.outer[side] else []
    return pa.schema([pa.field(SIDE, pa.string()), *named, TIME, _UNTIL, *matched])


def waiting_rows(
    table: LayeredTable, plan: JoinPlan, side: int, key: pa.RecordBatch | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield what waits on a side, all of it or the rows of one key.

    `matched`: whether a row has had a partner, where those without come out, too. Raise `RunsSchemaError` if the table
    holds other columns.
    """
    outer, schema = plan.outer[side], waiting_columns(plan, side)
    # Before a first batch as an outer join, rows have no marks yet.
    marked = outer and next(table.scan(_MARKS), None) is not None
    layered = LayeredRows(table, plan.kept(side), as_they_are, marked=marked)
    left_before = departures(table).left_before
    single = None if key is None else SingleKey.of(key)
    for bucket in list(layered.buckets()):
        for chunk in read_keys(layered, [bucket], single):
            rows = chunk.rows
            if left_before is not None and bucket != ASIDE:
                rows = rows.filter(pa.array(rows.column(TIME.name).to_numpy() >= left_before))
            if rows.num_rows:
                times = rows.column(TIME.name)
                until = pa.array(np.asarray(times.to_numpy()) + plan.waits[side])
                unknown = pa.nulls(rows.num_rows, pa.bool_())
                marks = [rows.column(MARKED.name) if marked else unknown] if outer else []
                kept_columns = rows.columns[: len(plan.kept(side)) - 1]
                sides = pa.repeat(SIDES[side], rows.num_rows)
                columns = [sides, *kept_columns, times, until, *marks]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
