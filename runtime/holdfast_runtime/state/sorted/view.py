"""The layered rows of a table as tools show them: the rows of all keys or of one, read without the code of the step.

Rows come as they are stored. A key may have several, which its step would combine; in each bucket, older ones come
first. Only where the newest row of a key counts, as in tables, older ones are left out. The step's own columns come
behind those of the key, without the prefix of their names. Must not write anything, and must not know verbs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from holdfast.times import Micros
from holdfast_runtime.columns.hashed_rows import as_they_are
from holdfast_runtime.state.sorted.key_rows import SingleKey, read_keys
from holdfast_runtime.state.sorted.layered_rows import ASIDE, LayeredRows, LayeredTable
from holdfast_runtime.state.sorted.newest_rows import DELETED, VERSIONS, alive, newest_in, served_bucket
from holdfast_runtime.state.sorted.schema import OWN, LayeredSchema, is_time

MOMENT = pa.timestamp("us", "UTC")
"""The type in which the view shows the step's own times."""


@dataclass(frozen=True, slots=True)
class LayeredSize:
    """The size of the layered rows in a table."""

    rows: int
    """The number of rows; those of a merge under way may count twice."""
    layers: int
    oldest: Micros | None
    """The start of the first bucket in microseconds since 1970; None if buckets are not of time, or there is none."""
    newest: Micros | None
    """The start of the last bucket."""


class LayeredView:
    """The layered rows in one table of a store, to be read only."""

    def __init__(self, table: LayeredTable, schema: LayeredSchema) -> None:
        self._table = table
        self._newest = newest_in(schema.rows) is not None
        self._layered = LayeredRows(table, schema.rows, newest_in(schema.rows) or as_they_are)
        self._width = schema.width
        names = schema.rows.names
        self._key = [index for index, name in enumerate(names) if not name.startswith(OWN)]
        self._own = [index for index, name in enumerate(names) if name.startswith(OWN) and name != DELETED]
        self.key = pa.schema([schema.rows.field(index) for index in self._key])
        """The columns of the key."""
        own_columns = [schema.rows.field(index) for index in self._own]
        self.own = pa.schema(
            [(column.name.removeprefix(OWN), MOMENT if is_time(column) else column.type) for column in own_columns]
        )
        """The step's own columns."""
        self.moments = frozenset(column.name.removeprefix(OWN) for column in own_columns if is_time(column))
        """The names of own columns that are moments of event time; a moment may lie outside of the calendar."""

    @classmethod
    def of(cls, table: LayeredTable) -> "LayeredView | None":
        """Return the view of the layered rows in a table; None if it has none."""
        schema = LayeredSchema.kept_in(table)
        return None if schema is None else cls(table, schema)

    @property
    def timed(self) -> bool:
        """Whether buckets are stretches of time."""
        return self._width is not None

    def size(self) -> LayeredSize:
        """Return the size, which is read without the pieces."""
        buckets = list(self._layered.buckets())
        sizes = [self._layered.size(bucket) for bucket in buckets]
        starts = [start for bucket in buckets if (start := self._start(bucket)) is not None]
        oldest, newest = (starts[0], starts[-1]) if starts else (None, None)
        return LayeredSize(sum(rows for _, rows in sizes), sum(layers for layers, _ in sizes), oldest, newest)

    def rows(self, key: pa.RecordBatch | None = None) -> Iterator[tuple[Micros | None, pa.RecordBatch]]:
        """Yield the start of a bucket (None if it is not of time) and rows of it, earlier buckets first.

        `key`: one row with the columns of the key; only rows with this key are yielded.
        """
        served = list(self._layered.buckets())
        if self._table.get_many([VERSIONS]) != [None]:
            served = [bucket for bucket in served if bucket == served_bucket(self._table)]
        single_key = None if key is None else SingleKey.of(key)
        # Where the newest row of a key counts, it counts in all buckets.
        read_together = [served] if self._newest and served else [[bucket] for bucket in served]
        for buckets in read_together:
            for chunk in read_keys(self._layered, buckets, single_key):
                if (rows := alive(chunk.rows)).num_rows:
                    yield self._start(buckets[0]), self._shown(rows)

    def _shown(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [rows.column(index) for index in (*self._key, *self._own)]
        schema = pa.schema([*self.key, *self.own])
        shown = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(shown, schema=schema)

    def _start(self, bucket: int) -> Micros | None:
        return None if self._width is None or bucket == ASIDE else Micros(bucket * self._width)
