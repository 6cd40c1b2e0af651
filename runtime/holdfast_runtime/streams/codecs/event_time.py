"""Why: watermarks, windows and joins count in milliseconds of event time; streams hold timestamps of microseconds.

Must not drop rows: which rows have no event time is reported, the caller counts them.
"""

import numpy as np
import pyarrow as pa

from holdfast_runtime.streams.codecs.codec import Indices

MICROS_PER_MILLI = 1000


def event_time_ms(rows: pa.RecordBatch, column: str) -> pa.Int64Array:
    """Milliseconds since 1970 UTC, rounded down, also before 1970; null where the column is."""
    times = rows.column(column)
    if not pa.types.is_timestamp(times.type):
        message = f"event time needs a TIMESTAMP column; {column} is {times.type}"
        raise TypeError(message)
    micros = times.cast(pa.timestamp("us", tz=times.type.tz)).view(pa.int64())
    # Casting to milliseconds would round towards zero: half a millisecond before 1970 would be later than it is.
    values = np.floor_divide(micros.fill_null(0).to_numpy(), MICROS_PER_MILLI)
    return pa.array(values, pa.int64(), mask=micros.is_null().to_numpy(zero_copy_only=False))


def without_event_time(times: pa.Int64Array) -> Indices:
    """The rows that have no event time."""
    return np.flatnonzero(times.is_null().to_numpy(zero_copy_only=False)).astype(np.int64)
