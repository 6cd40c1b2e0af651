"""Parcels to try it with: row n of a partition is always the same one."""

import pyarrow as pa


def parcels(partition: int, offset: int, count: int) -> pa.RecordBatch:
    """Rows `offset` to `offset + count` of a partition."""
    numbers = range(offset, offset + count)
    return pa.RecordBatch.from_pydict(
        {
            "parcel": [f"{partition}-{number}" for number in numbers],
            "postcode": [f"{number * 7919 % 100_000:05}" for number in numbers],
            "grams": pa.array([number * 37 % 5000 for number in numbers], pa.int32()),
        }
    )
