"""The rows of a table in one task, one for each key: kept in runs, of which the newest that has a key counts.

Rows are never read to be changed. A merge of runs keeps the newest row of each key. Must not know steps or streams.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast_runtime.columns.key_columns import KeyColumns, Rows, Words, same_keys
from holdfast_runtime.columns.sorted_hashes import sort_hashes
from holdfast_runtime.state.newest_rows import newest, with_newest
from holdfast_runtime.state.runs import HashedRows, Runs, RunsTable
from holdfast_runtime.state.runs_schema import OWN
from holdfast_runtime.steps.timed_rows import find_column

_BUCKET = 0
"""The one bucket of a table."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns of a table, the key first, and the columns of rows that are written to it."""

    key: tuple[str, ...]
    given: pa.Schema

    @property
    def kept(self) -> pa.Schema:
        """What is kept of a row."""
        key = [self.given.field(_place(self.given, name)) for name in self.key]
        others = [field for field in self.given if field.name not in {one.name for one in key}]
        return with_newest(pa.schema([*key, *(pa.field(f"{OWN}{field.name}", field.type) for field in others)]))

    def place(self, column: str) -> int:
        """Return the place of a column among those that are kept."""
        kept = self.kept
        name = self.given.field(_place(self.given, column)).name
        return int(kept.get_field_index(name if name in kept.names[: len(self.key)] else f"{OWN}{name}"))

    def stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as they are kept."""
        kept = self.kept
        columns = [rows.column(_place(rows.schema, name.removeprefix(OWN))) for name in kept.names]
        return pa.RecordBatch.from_arrays(columns, schema=kept)


class KeptTable:
    """A table during one batch of one task."""

    def __init__(self, table: RunsTable, shape: TableShape) -> None:
        self._keys = len(shape.key)
        self._schema = shape.kept
        self._runs = Runs(table, self._schema, lambda rows: self._newest(rows.rows, rows.hashes))

    def purge(self) -> None:
        """Delete what earlier batches have thrown away; once in a batch, before anything is written."""
        self._runs.purge()

    def put(self, rows: pa.RecordBatch) -> None:
        """Write rows, of one key the last; those without a key are left out."""
        keyed = self._key(rows).without_nulls()
        if keyed is not None:
            rows = rows.filter(pa.array(keyed))
        if not rows.num_rows:
            return
        written = self._newest(rows, self._key(rows).hashes())
        self._runs.append(_BUCKET, written)
        self._runs.tidy_after([_BUCKET], len(written.hashes))

    def find(self, keys: Sequence[pa.Array], many: int) -> "FoundRows":
        """Look keys up."""
        wanted = KeyColumns.of(keys, many)
        sought = sort_hashes(wanted.hashes())
        without = wanted.without_nulls()
        piece_of, row_of = np.full(many, -1), np.zeros(many, np.int64)
        pieces: list[pa.RecordBatch] = []
        for held, matches in self._runs.find(_BUCKET, sought.hashes):
            there = self._key(held.rows)
            for mine, theirs in matches.pairs():
                places = sought.order[mine]
                hit = same_keys(wanted, places, there, theirs)
                # Older runs come first, so the newest row of a key is the last that is found.
                piece_of[places[hit]], row_of[places[hit]] = len(pieces), theirs[hit]
            pieces.append(held.rows)
        if without is not None:
            piece_of[~without] = -1
        return FoundRows(self._schema, pieces, piece_of, row_of)

    def _newest(self, rows: pa.RecordBatch, hashes: Words) -> HashedRows:
        return newest(rows, hashes, range(self._keys))

    def _key(self, rows: pa.RecordBatch) -> KeyColumns:
        return KeyColumns.of(rows.columns[: self._keys], rows.num_rows)


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The rows that were found for some keys."""

    schema: pa.Schema
    pieces: Sequence[pa.RecordBatch]
    piece_of: Rows
    """Key -> the piece with its row; -1: there is none."""
    row_of: Rows
    """Key -> the place of its row there."""

    def column(self, at: int) -> pa.Array:
        """Return a column of them, null where there is no row."""
        places = np.zeros(len(self.piece_of), np.int64)
        parts, before = [], 0
        for number, piece in enumerate(self.pieces):
            here = np.flatnonzero(self.piece_of == number)
            if len(here):
                parts.append(piece.column(at).take(pa.array(self.row_of[here])))
                places[here] = np.arange(before, before + len(here))
                before += len(here)
        if not parts:
            return pa.nulls(len(places), self.schema.field(at).type)
        return pa.concat_arrays(parts).take(pa.array(places, mask=self.piece_of < 0))


def _place(given: pa.Schema, column: str) -> int:
    at = find_column(given, column)
    assert at is not None  # noqa: S101 - the planner has looked
    return at
