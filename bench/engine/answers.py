"""The rows that engines write, read and made comparable: engines are compared only where they answer the same."""

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json


def read_lines(directory: Path, schema: pa.Schema) -> pa.Table:
    """All rows of the JSON files an engine has written."""
    options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    paths = sorted(path for path in directory.glob("*.json") if path.stat().st_size)
    return pa.concat_tables([json.read_json(path, parse_options=options).select(schema.names) for path in paths])


def until(rows: pa.Table, closed: int) -> pa.Table:
    """The rows of windows that end by a time: engines differ in which of the last ones come out before they stop."""
    return rows.filter(pc.less_equal(rows["window_end"], pa.scalar(closed * 10**6).cast(pa.timestamp("us", "UTC"))))


def settled(rows: pa.Table, closed: int) -> pa.Table:
    """The rows of orders up to a time: engines differ in which of the last ones without a payment come out."""
    return rows.filter(pc.less(rows["ts"], pa.scalar(closed * 10**6).cast(pa.timestamp("us", "UTC"))))


def digest(rows: pa.Table) -> str:
    """Equal for equal rows in any order; values count to the last bit."""
    columns = [_exact(column) for column in rows.combine_chunks().columns]
    lines = pc.binary_join_element_wise(
        *columns, pa.scalar("\n", pa.large_string()), pa.scalar("\0", pa.large_string())
    )
    ordered = pa.chunked_array(lines).combine_chunks()
    ordered = ordered.take(pc.sort_indices(ordered))
    length = pc.sum(pc.binary_length(ordered)).as_py() or 0
    return f"{len(ordered)}:{hashlib.sha256(ordered.buffers()[2].slice(0, length)).hexdigest()[:16]}"


def _exact(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return column.cast(pa.large_string()).fill_null("\1")
