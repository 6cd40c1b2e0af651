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
    """Rows with the columns that are kept of a side, in the order of their hashes."""

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
        """Return rows that are in this order already."""
        keys = KeyColumns.of(rows.columns[:key_width], rows.num_rows)
        times = rows.column(TIME.name).to_numpy()
        return cls(hashes, rows, key_width, keys, times, np.zeros(len(times), np.bool_))

    @classmethod
    def sorted(cls, rows: pa.RecordBatch, key_width: int) -> "SideRows":
        """Return rows in the order of their hashes."""
        found = sort_hashes(KeyColumns.of(rows.columns[:key_width], rows.num_rows).hashes())
        return cls.of(found.hashes, rows.take(pa.array(found.order)), key_width)

    def at(self, places: Rows) -> "SideRows":
        """Return the rows at these places, whose hashes ascend."""
        found = SideRows.of(self.hashes[places], self.rows.take(pa.array(places)), self.key_width)
        found.matched = self.matched[places]
        return found

    def where(self, kept: Mask) -> "SideRows":
        """Return the rows for which `kept` is true."""
        return self if kept.all() else self.at(np.flatnonzero(kept))


def kept_rows(given: TimedRows, kept: pa.Schema) -> pa.RecordBatch:
    """Return what is kept of rows, all of which have a time."""
    columns = [given.rows.column(field_place(given.rows.schema, name)) for name in kept.names[:-1]]
    return pa.RecordBatch.from_arrays([*columns, given.times], schema=kept)


def field_place(given: pa.Schema, kept: str) -> int:
    """Return the place, among input columns, of a column under the name it is kept by."""
    at = find_column(given, kept.removeprefix(OWN))
    assert at is not None  # noqa: S101 - the schema of what is kept was made of these columns
    return at
