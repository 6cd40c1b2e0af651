"""Runs as people look at them: rows with columns, of all keys or of one, read without the step they belong to.

Rows come as they are kept. A key may have several, which its step would combine or choose from; in each bucket older
ones come first. Of a table, it is the newest. The step's own columns come behind those of the key, under plain names.
Must not write anything, and must not know verbs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from holdfast.moments import Micros
from holdfast_runtime.columns.hashed_rows import HashedRows, as_they_are
from holdfast_runtime.columns.key_columns import KeyColumns, same_keys
from holdfast_runtime.state.sorted.newest_rows import DELETED, VERSIONS, alive, newest_in, served_bucket
from holdfast_runtime.state.sorted.runs import ASIDE, Runs
from holdfast_runtime.state.sorted.schema import OWN, RunsSchema, is_time

MOMENT = pa.timestamp("us", "UTC")
"""The type of the step's own times."""


class ReadableTable(Protocol):
    """What a view needs of a table."""

    @property
    def name(self) -> str:
        """The name of the table."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys, None for missing ones."""

    def scan(self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Return the rows in key order."""


@dataclass(frozen=True, slots=True)
class RunsSize:
    """How much a table holds."""

    rows: int
    """Rows that are being merged may count twice."""
    runs: int
    oldest: Micros | None
    """When its first bucket begins, in microseconds since 1970; None if buckets are not of time, or there is none."""
    newest: Micros | None
    """When its last bucket begins."""


class RunsView:
    """The runs in one table of a store."""

    def __init__(self, table: ReadableTable, schema: RunsSchema) -> None:
        self._table, self._newest = table, newest_in(schema.rows)
        self._runs = Runs(_Unchanged(table), schema.rows, self._newest or as_they_are)
        self._width = schema.width
        names = schema.rows.names
        self._key = [at for at, name in enumerate(names) if not name.startswith(OWN)]
        self._own = [at for at, name in enumerate(names) if name.startswith(OWN) and name != DELETED]
        self.key = pa.schema([schema.rows.field(at) for at in self._key])
        """The columns of the key."""
        own = [schema.rows.field(at) for at in self._own]
        self.own = pa.schema([(one.name.removeprefix(OWN), MOMENT if is_time(one) else one.type) for one in own])
        """The step's own columns."""
        self.moments = frozenset(one.name.removeprefix(OWN) for one in own if is_time(one))
        """Those of them that are moments of event time, which need not be in the calendar."""

    @classmethod
    def of(cls, table: ReadableTable) -> "RunsView | None":
        """Return the runs in a table; None if there are none."""
        schema = RunsSchema.kept_in(_Unchanged(table))
        return None if schema is None else cls(table, schema)

    @property
    def timed(self) -> bool:
        """Whether buckets are stretches of time."""
        return self._width is not None

    def size(self) -> RunsSize:
        """Return how much there is, without reading the rows."""
        buckets = list(self._runs.buckets())
        sizes = [self._runs.size(bucket) for bucket in buckets]
        starts = [start for bucket in buckets if (start := self._start(bucket)) is not None]
        oldest, newest = (starts[0], starts[-1]) if starts else (None, None)
        return RunsSize(sum(rows for _, rows in sizes), sum(runs for runs, _ in sizes), oldest, newest)

    def rows(self, key: pa.RecordBatch | None = None) -> Iterator[tuple[Micros | None, pa.RecordBatch]]:
        """Yield rows with the start of their bucket (None if it is not of time), the earliest bucket first.

        `key`: one row with the columns of the key; only its rows are read.
        """
        served = list(self._runs.buckets())
        if self._table.get_many([VERSIONS]) != [None]:
            served = [bucket for bucket in served if bucket == served_bucket(self._table)]
        for bucket in served:
            chunks: Iterable[HashedRows] = self._runs.read([bucket]) if key is None else self._found(bucket, key)
            for chunk in chunks:
                if (rows := alive(chunk.rows)).num_rows:
                    yield self._start(bucket), self._shown(rows)

    def _found(self, bucket: int, key: pa.RecordBatch) -> list[HashedRows]:
        found: list[HashedRows] = []
        wanted = KeyColumns.of(key.columns, 1)
        for held, matches in self._runs.find(bucket, wanted.hashes()):
            there = KeyColumns.of([held.rows.column(at) for at in self._key], held.rows.num_rows)
            for mine, theirs in matches.pairs():
                hit = theirs[same_keys(wanted, mine, there, theirs)]
                found.append(HashedRows(held.hashes[hit], held.rows.take(pa.array(hit))))
        found = [some for some in found if len(some.hashes)]
        return found if self._newest is None or not found else [self._newest(HashedRows.joined(found))]

    def _shown(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [rows.column(at) for at in (*self._key, *self._own)]
        schema = pa.schema([*self.key, *self.own])
        shown = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(shown, schema=schema)

    def _start(self, bucket: int) -> Micros | None:
        return None if self._width is None or bucket == ASIDE else Micros(bucket * self._width)


@dataclass(frozen=True, slots=True)
class _Unchanged:
    """A table that can only be read."""

    table: ReadableTable

    @property
    def name(self) -> str:
        return self.table.name

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self.table.get_many(keys)

    def scan(self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        return self.table.scan(prefix, start, stop)

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        raise NotImplementedError

    def purge(self, keys: Sequence[bytes]) -> None:
        raise NotImplementedError
