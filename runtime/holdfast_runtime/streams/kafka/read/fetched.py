"""Why: what a fetched batch looks like beside `FETCHED`: headers, which few records have, are a column only then.

Must not know how batches are made.
"""

import pyarrow as pa

from holdfast_runtime.streams.records import FETCHED

HEADERS = pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
"""The last column of a batch in which at least one record has headers; null for those that have none."""
WITH_HEADERS = FETCHED.append(HEADERS)
MOST_BYTES = 2**31 - 1
"""What one column of a batch can hold: its ends have 32 bits."""


def alike(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Parts of a range with equal columns: if one has headers, all have that column."""
    if all(part.num_columns == len(FETCHED) for part in parts):
        return parts
    return [
        part
        if part.num_columns > len(FETCHED)
        else pa.RecordBatch.from_arrays([*part.columns, pa.nulls(part.num_rows, HEADERS.type)], schema=WITH_HEADERS)
        for part in parts
    ]
