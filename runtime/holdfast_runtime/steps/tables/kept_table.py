"""The rows of a table in one task, one for each key: kept in layers, of which the newest that has a key counts.

Rows are never read to be changed. A merge of layers keeps the newest row of each key. Must not know steps or streams.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdfast.planning.sql.plain.expressions import Plain
from holdfast_runtime.columns.hashed_rows import HashedRows
from holdfast_runtime.columns.key_columns import KeyColumns, Words
from holdfast_runtime.columns.sorted_hashes import sort_hashes
from holdfast_runtime.state.sorted.layered_rows import LayeredRows, LayeredTable
from holdfast_runtime.state.sorted.newest_rows import (
    DELETED,
    FoundRows,
    find_newest,
    newest,
    served_bucket,
    with_newest,
)
from holdfast_runtime.state.sorted.schema import OWN
from holdfast_runtime.steps.plain.plain_sql import computed_column
from holdfast_runtime.steps.timed_rows import find_column

_GENERATION = b"g"
_BUCKET = 0
"""The one bucket of a table without versions."""
GONE = pa.field(DELETED.removeprefix(OWN), pa.bool_())
"""A column of rows of side inputs: true in those that delete their key."""
SET = pa.field(f"{GONE.name} in set", pa.int64())
"""A column behind it where data sets are replaced as a whole: to which one a row belongs."""
_SIDE = (GONE.name, SET.name)

_AT_ONCE = 300_000


def without_side(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a side input's rows without those that say what a record does to its table."""
    return pa.schema([field for field in schema if field.name not in _SIDE])


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns of a table, the key first, and the columns of rows that are written to it."""

    key: tuple[str, ...]
    given: pa.Schema
    copied: tuple[tuple[str, str], ...] | None = None
    """The columns that are kept, each with its name in rows that are written; None: all, under their names."""
    computed: tuple[tuple[pa.Field, Plain], ...] = ()
    """Columns of the key that are computed of rows that are written."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that look-ups see."""
        if self.copied is not None:
            return (*(field.name for field, _ in self.computed), *(name for name, _ in self.copied))
        return tuple(name for name in self.given.names if name not in _SIDE)

    @property
    def versioned(self) -> bool:
        """Whether the data set is replaced as a whole."""
        return SET.name in self.given.names

    @property
    def kept(self) -> pa.Schema:
        """What is kept of a row: the key, and other columns by their names."""
        columns = self._taken
        key = [columns.field(_index(columns, name)) for name in self.key]
        value_fields = [
            field for field in columns if field.name not in {SET.name, *(key_field.name for key_field in key)}
        ]
        value_fields.sort(key=lambda field: field.name)
        return with_newest(pa.schema([*key, *(pa.field(f"{OWN}{field.name}", field.type) for field in value_fields)]))

    def index(self, column: str) -> int:
        """Return the index of a column among those that are kept."""
        schema, columns = self.kept, self._taken
        name = columns.field(_index(columns, column)).name
        return int(schema.get_field_index(name if name in schema.names[: len(self.key)] else f"{OWN}{name}"))

    def stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as they are kept."""
        schema, source = self.kept, dict(self.copied or ())
        computed_columns = {
            field.name: computed_column(rows, expression, field.type) for field, expression in self.computed
        }
        names = [name.removeprefix(OWN) for name in schema.names]
        columns = [
            computed_columns[name]
            if name in computed_columns
            else rows.column(_index(rows.schema, source.get(name, name)))
            for name in names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    @property
    def _taken(self) -> pa.Schema:
        """The columns that are kept, under their names in the table."""
        if self.copied is None:
            return self.given
        copied_fields = [self.given.field(_index(self.given, column)).with_name(name) for name, column in self.copied]
        computed_fields = [field for field, _ in self.computed]
        return pa.schema(
            [*computed_fields, *copied_fields, *(field for field in (GONE, SET) if field.name in self.given.names)]
        )


def many_at_once(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows in larger batches: fewer layers come of them, which are merged less often."""
    several: list[pa.RecordBatch] = []
    for batch in rows:
        several.append(batch)
        if sum(part.num_rows for part in several) >= _AT_ONCE:
            yield pa.concat_batches(several)
            several = []
    if several:
        yield pa.concat_batches(several)


class KeptTable:
    """A table during one batch of one task."""

    def __init__(self, table: LayeredTable, shape: TableShape) -> None:
        self._table, self._keys = table, len(shape.key)
        self._schema, self._versioned = shape.kept, shape.versioned
        self._deleted = self._schema.get_field_index(DELETED) if DELETED in self._schema.names else None
        layered = LayeredRows(table, self._schema, lambda rows: self._newest(rows.rows, rows.hashes))
        self._layered = layered.settling(self._without_deleted)

    def begin(self, generation: int | None = None) -> bool:
        """Begin a batch: delete what earlier ones have thrown away, and drop rows of another generation, if any.

        Return whether the table starts anew.
        """
        self._layered.purge()
        (stored,) = self._table.get_many([_GENERATION])
        if generation is None or generation == int(stored or 0):
            return False
        for bucket in list(self._layered.buckets()):
            self._layered.drop(bucket)
        self._table.put_many([_GENERATION], [b"%d" % generation])
        return True

    def drop(self, bucket: int) -> None:
        """Drop the rows of a version."""
        self._layered.drop(bucket)

    def put(self, rows: pa.RecordBatch, bucket: int = _BUCKET) -> int:
        """Write rows, of one key the last; those without a key are left out. Return how many these are."""
        keyed, total = self._key(rows).without_nulls(), rows.num_rows
        if keyed is not None:
            rows = rows.filter(pa.array(keyed))
        if rows.num_rows:
            written = self._newest(rows, self._key(rows).hashes())
            self._layered.append(bucket, written)
            self._layered.tidy_after([bucket], len(written.hashes))
        return int(total - rows.num_rows)

    def find(self, keys: Sequence[pa.Array], count: int) -> FoundRows:
        """Look keys up."""
        probe_keys = KeyColumns.of(keys, count)
        found_rows = find_newest(
            self._layered, self._served(), self._schema, probe_keys, sort_hashes(probe_keys.hashes())
        )
        without = probe_keys.without_nulls()
        if without is not None:
            found_rows.piece_of[~without] = -1
        return found_rows

    def size(self) -> int:
        """Return how many rows there are; those of deleted keys, and older ones of a key, count too."""
        return sum(self._layered.size(bucket)[1] for bucket in self._served())

    def all_keys(self) -> Iterator[pa.RecordBatch]:
        """Yield the keys of all rows, those of deleted ones among them."""
        for chunk in self._layered.read(self._served()):
            yield chunk.rows.select(range(self._keys))

    def _served(self) -> list[int]:
        """Return the bucket whose rows are looked up, if there is one."""
        bucket = served_bucket(self._table) if self._versioned else _BUCKET
        return [] if bucket is None else [bucket]

    def _without_deleted(self, rows: HashedRows) -> HashedRows:
        """Return rows without those of deleted keys, which say nothing where no older row is left."""
        if self._deleted is None:
            return rows
        alive = ~rows.rows.column(self._deleted).to_numpy(zero_copy_only=False)
        return HashedRows(rows.hashes[alive], rows.rows.filter(pa.array(alive)))

    def _newest(self, rows: pa.RecordBatch, hashes: Words) -> HashedRows:
        return newest(rows, hashes, range(self._keys))

    def _key(self, rows: pa.RecordBatch) -> KeyColumns:
        return KeyColumns.of(rows.columns[: self._keys], rows.num_rows)


def _index(schema: pa.Schema, column: str) -> int:
    index = find_column(schema, column)
    assert index is not None  # noqa: S101 - the planner has looked
    return index
