"""Layers of which the newest row of a key is the one that counts, as in tables.

Merges keep it, and who reads such rows without their step finds in their schema that they are of this kind. The newest
row of a key may say that the key was deleted.
"""

import json
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.columns.grouping import group_rows
from holdfast_runtime.columns.hashed_rows import Combine, HashedRows
from holdfast_runtime.columns.key_columns import KeyColumns, Words
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
