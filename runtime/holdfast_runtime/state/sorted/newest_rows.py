"""Layers of which the newest row of a key is the one that counts, as in tables.

Merges keep it, and who reads such rows without their step finds in their schema that they are of this kind. The newest
row of a key may say that the key was deleted.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.columns.grouping import group_rows
from holdfast_runtime.columns.hashed_rows import Combine, HashedRows
from holdfast_runtime.columns.key_columns import KeyColumns, Rows, Words, same_keys
from holdfast_runtime.columns.sorted_hashes import SortedHashes
from holdfast_runtime.state.sorted.layered_rows import LayeredRows
from holdfast_runtime.state.sorted.schema import OWN


class VersionedTable(Protocol):
    """What is needed of a table."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys, None for missing ones."""


_KIND = {b"holdfast": b"newest"}
DELETED = f"{OWN}{OWN}deleted"
"""The column that is true in rows of deleted keys, where keys can be deleted."""


VERSIONS = b"v"
"""The key under which a table whose data set is replaced as a whole says which buckets are which versions."""


def served_bucket(table: VersionedTable) -> int | None:
    """Return the bucket with the version that is looked up; None if none is whole. Only of tables with versions."""
    (value,) = table.get_many([VERSIONS])
    serving = None if value is None else json.loads(bytes(value))["serving"]
    return None if serving is None else int(serving)


def with_newest(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows of this kind."""
    return schema.with_metadata(_KIND)


def newest_in(schema: pa.Schema) -> Combine | None:
    """Return how rows with this schema are combined; None if they are of another kind."""
    if (schema.metadata or {}) != _KIND:
        return None
    keys = [index for index, name in enumerate(schema.names) if not name.startswith(OWN)]
    return lambda rows: newest(rows.rows, rows.hashes, keys)


def alive(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of keys that are not deleted."""
    return rows.filter(pc.invert(rows.column(DELETED))) if DELETED in rows.schema.names else rows


def newest(rows: pa.RecordBatch, hashes: Words, keys: Sequence[int]) -> HashedRows:
    """Return the last row of each key, in the order of hashes. `keys`: the indices of the columns of the key."""
    grouped = group_rows(KeyColumns.of([rows.column(index) for index in keys], rows.num_rows), hashes)
    last = np.append(grouped.starts[1:], len(grouped.order)) - 1
    return HashedRows(grouped.hashes[last], rows.take(pa.array(grouped.order[last])))


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The newest rows that were found for some keys."""

    schema: pa.Schema
    pieces: Sequence[pa.RecordBatch]
    buckets: Sequence[int]
    """The bucket of each piece."""
    piece_of: Rows
    """Key -> the piece with its row; -1: there is none."""
    row_of: Rows
    """Key -> the index of its row there."""

    def column(self, number: int) -> pa.Array:
        """Return a column of them, null where there is no row."""
        indices = np.zeros(len(self.piece_of), np.int64)
        parts, before = [], 0
        for piece_number, piece in enumerate(self.pieces):
            found_indices = np.flatnonzero(self.piece_of == piece_number)
            if len(found_indices):
                parts.append(piece.column(number).take(pa.array(self.row_of[found_indices])))
                indices[found_indices] = np.arange(before, before + len(found_indices))
                before += len(found_indices)
        if not parts:
            return pa.nulls(len(indices), self.schema.field(number).type)
        return pa.concat_arrays(parts).take(pa.array(indices, mask=self.piece_of < 0))


def find_newest(
    layered: LayeredRows, buckets: Iterable[int], schema: pa.Schema, keys: KeyColumns, sought: SortedHashes
) -> FoundRows:
    """Look keys up in buckets of which later ones count as newer; `schema`: of the rows there, keys first."""
    piece_of, row_of = np.full(keys.rows, -1), np.zeros(keys.rows, np.int64)
    deleted = schema.get_field_index(DELETED) if DELETED in schema.names else None
    key_count = sum(not name.startswith(OWN) for name in schema.names)
    pieces: list[pa.RecordBatch] = []
    bucket_of: list[int] = []
    for bucket in buckets:
        for piece, matches in layered.find([bucket], sought.hashes):
            piece_keys = KeyColumns.of(piece.rows.columns[:key_count], piece.rows.num_rows)
            for probe_indices, piece_rows in matches.pairs():
                indices = sought.order[probe_indices]
                hit = same_keys(keys, indices, piece_keys, piece_rows)
                hit_keys, hit_rows = indices[hit], piece_rows[hit]
                # Older layers come first, so the newest row of a key is the last that is found.
                piece_of[hit_keys], row_of[hit_keys] = len(pieces), hit_rows
                if deleted is not None:
                    deletions = piece.rows.column(deleted).to_numpy(zero_copy_only=False)[hit_rows]
                    piece_of[hit_keys] = np.where(deletions, -1, len(pieces))
            pieces.append(piece.rows)
            bucket_of.append(bucket)
    return FoundRows(schema, pieces, bucket_of, piece_of, row_of)
