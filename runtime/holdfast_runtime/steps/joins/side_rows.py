"""The rows of one side of a join in one batch, by the hashes of their keys, and which of them found a partner."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast_runtime.columns.key_columns import KeyColumns, Mask, Rows, Words
from holdfast_runtime.columns.sorted_hashes import sort_hashes
from holdfast_runtime.state.sorted.schema import OWN
from holdfast_runtime.steps.joins.join_plan import TIME
from holdfast_runtime.steps.timed_rows import TimedRows, find_column

Times = npt.NDArray[np.int64]


@dataclass(slots=True)
class SideRows:
    """Rows of a side with the columns of `JoinPlan.kept`, in the order of the hashes of their keys."""

    hashes: Words
    rows: pa.RecordBatch
    key_width: int
    """How many columns, the first ones, are the key."""
    keys: KeyColumns
    times: Times
    matched: Mask
    """Which rows have found a partner."""

    @classmethod
    def of(cls, hashes: Words, rows: pa.RecordBatch, key_width: int) -> "SideRows":
        """Return the rows, which ascend by `hashes` already; none has a partner yet."""
        keys = KeyColumns.of(rows.columns[:key_width], rows.num_rows)
        times = rows.column(TIME.name).to_numpy()
        return cls(hashes, rows, key_width, keys, times, np.zeros(len(times), np.bool_))

    @classmethod
    def sorted(cls, rows: pa.RecordBatch, key_width: int) -> "SideRows":
        """Return the rows in the order of the hashes of their keys, the first `key_width` columns."""
        sorted_hashes = sort_hashes(KeyColumns.of(rows.columns[:key_width], rows.num_rows).hashes())
        return cls.of(sorted_hashes.hashes, rows.take(pa.array(sorted_hashes.order)), key_width)

    def at(self, indices: Rows) -> "SideRows":
        """Return the rows at these indices, whose hashes ascend."""
        side_rows = SideRows.of(self.hashes[indices], self.rows.take(pa.array(indices)), self.key_width)
        side_rows.matched = self.matched[indices]
        return side_rows

    def where(self, mask: Mask) -> "SideRows":
        """Return the rows for which `mask` is true."""
        return self if mask.all() else self.at(np.flatnonzero(mask))


def kept_rows(input_rows: TimedRows, schema: pa.Schema) -> pa.RecordBatch:
    """Return the input rows with the columns of `schema`, that of waiting rows; all of them have an event time."""
    columns = [input_rows.rows.column(field_index(input_rows.rows.schema, name)) for name in schema.names[:-1]]
    return pa.RecordBatch.from_arrays([*columns, input_rows.times], schema=schema)


def field_index(schema: pa.Schema, name: str) -> int:
    """Return the index in an input schema of the column that waiting rows have under this name."""
    index = find_column(schema, name.removeprefix(OWN))
    assert index is not None  # noqa: S101 - the schema of what is kept was made of these columns
    return index
