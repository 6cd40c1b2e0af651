"""Users' records among those of streams that carry control messages, whole columns at a time.

The format is that of `control.messages`. Between steps, event times travel as timestamps of records, which are in
milliseconds everywhere; what they have beyond that stands before the value, only where there is any. Must not decide
what a control message means.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.control.messages import MICROS_BYTES, RecordKind, UserRecord, decode, user_head
from holdfast.control.producers import Delivery
from holdfast.tasks.partitions import StreamPartition
from holdfast.times import FARTHEST, MICROS_PER_MILLI, Micros, floor_millis
from holdfast_runtime.streams.codecs.codec import Indices
from holdfast_runtime.streams.records import NO_TIME

_LONGEST = 2**31 - 1
"""An end for Arrow's slices: without one, Arrow miscounts."""
_HEADS = pa.array([user_head(micros) for micros in range(MICROS_PER_MILLI)], pa.binary())
_EARLIEST, _LATEST = floor_millis(Micros(-FARTHEST)), floor_millis(FARTHEST)
USER_KINDS = (RecordKind.USER, RecordKind.USER_WITH_MICROS)


def record_times(times: pa.Int64Array, none: int) -> pa.Int64Array:
    """Return the timestamps of records for event times: milliseconds, rounded down; `none` where a row has no time."""
    # Arrow would round towards zero: half a millisecond before 1970 would become later than it is.
    stamps = pa.array(np.floor_divide(times.fill_null(0).to_numpy(), MICROS_PER_MILLI))
    return pc.if_else(times.is_valid(), stamps, none) if times.null_count else stamps


def with_heads(values: pa.BinaryArray, times: pa.Int64Array) -> pa.BinaryArray:
    """Return the values of users' records with what stands before them."""
    beyond = times.fill_null(0).to_numpy() % MICROS_PER_MILLI
    heads = _HEADS.take(pa.array(beyond)) if beyond.any() else _HEADS[0]
    return pc.binary_join_element_wise(heads, values, b"")


@dataclass(frozen=True, slots=True)
class SplitRecords:
    """Records of a stream that carries control messages."""

    users: pa.RecordBatch
    """Those of users, their values without what stands before them."""
    micros: npt.NDArray[np.int64]
    """How far the event time of each is behind its timestamp."""
    deliveries: list[Delivery]
    """Control messages."""
    delivered_at: list[int]
    """The offset of each of them."""

    def times(self, indices: Indices) -> pa.Int64Array:
        """Return the event times of these users' records, null where a row has none."""
        stamps = self.users.column("timestamp").to_numpy()[indices]
        # Whoever else writes to the topic may have any timestamps; those too far away would wrap around.
        times = np.clip(stamps, _EARLIEST, _LATEST) * MICROS_PER_MILLI + self.micros[indices]
        return pa.array(np.clip(times, -FARTHEST, FARTHEST), mask=stamps == NO_TIME)


def split_records(records: pa.RecordBatch, partition: StreamPartition) -> SplitRecords:
    """Tell users' records from control messages."""
    values = records.column("value")
    kinds = pc.binary_slice(values, 0, 1)
    timed = _mask(pc.equal(kinds, bytes((RecordKind.USER_WITH_MICROS,))))
    users = timed | _mask(pc.equal(kinds, bytes((RecordKind.USER,))))
    deliveries, offsets = list[Delivery](), list[int]()
    for index in np.flatnonzero(~users):
        offsets.append(records.column("offset")[index].as_py())
        message = decode(values[index].as_py(), f"{partition} at offset {offsets[-1]}")
        assert not isinstance(message, UserRecord)  # noqa: S101 - its type byte says so
        deliveries.append(Delivery(partition, message))
    if deliveries:
        records, timed = records.filter(pa.array(users)), timed[users]
    values, micros = records.column("value"), np.zeros(records.num_rows, np.int64)
    bare = pc.binary_slice(values, 1, _LONGEST)
    if timed.any():
        micros[timed] = _micros(records.filter(pa.array(timed)), partition)
        bare = pc.if_else(pa.array(timed), pc.binary_slice(values, 1 + MICROS_BYTES, _LONGEST), bare)
    records = records.set_column(records.schema.get_field_index("value"), "value", bare)
    return SplitRecords(records, micros, deliveries, offsets)


def _micros(records: pa.RecordBatch, partition: StreamPartition) -> npt.NDArray[np.int64]:
    """Return the microseconds that stand before these records; raise `ControlRecordError` where there are none."""
    values = records.column("value")
    try:
        written = pc.binary_slice(values, 1, 1 + MICROS_BYTES).cast(pa.binary(MICROS_BYTES))
        microseconds = np.frombuffer(written.buffers()[1], ">u2", len(written), written.offset * MICROS_BYTES)
        fits = microseconds.min() > 0 and microseconds.max() < MICROS_PER_MILLI
    except pa.ArrowInvalid:
        fits = False
    if not fits:
        for value, offset in zip(values.to_pylist(), records.column("offset").to_pylist(), strict=True):
            decode(value, f"{partition} at offset {offset}")
    return microseconds.astype(np.int64)


def payload_of(value: bytes) -> bytes:
    """Return a user's record without what stands before it."""
    record = decode(value)
    assert isinstance(record, UserRecord)  # noqa: S101 - there are rows of nothing else
    return record.payload


def _mask(column: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    return np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)  # noqa: FBT003 - Arrow's own
