"""Runs of which the newest row of a key is the one that counts, as in tables.

Merges keep it, and who reads such rows without their step finds in their schema that they are of this kind.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from holdfast_runtime.columns.grouping import group_rows
from holdfast_runtime.columns.key_columns import KeyColumns, Words
from holdfast_runtime.state.runs import Combine, HashedRows
from holdfast_runtime.state.runs_schema import OWN

_KIND = {b"holdfast": b"newest"}


def with_newest(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows of this kind."""
    return schema.with_metadata(_KIND)


def newest_in(schema: pa.Schema) -> Combine | None:
    """Return how rows with this schema are combined; None if they are of another kind."""
    if (schema.metadata or {}) != _KIND:
        return None
    keys = [at for at, name in enumerate(schema.names) if not name.startswith(OWN)]
    return lambda rows: newest(rows.rows, rows.hashes, keys)


def newest(rows: pa.RecordBatch, hashes: Words, keys: Sequence[int]) -> HashedRows:
    """Return the last row of each key, in the order of hashes. `keys`: the places of the columns of the key."""
    grouped = group_rows(KeyColumns.of([rows.column(at) for at in keys], rows.num_rows), hashes)
    last = np.append(grouped.starts[1:], len(grouped.order)) - 1
    return HashedRows(grouped.hashes[last], rows.take(pa.array(grouped.order[last])))
