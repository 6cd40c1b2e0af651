"""Why: records of an Arrow batch into a producer of librdkafka, in one call into gather.c.

The producer is the caller's, and so are its transaction, its polling and what became of the records. Must not wait:
a queue that is full is the caller's to empty.
"""

from ctypes import byref, c_int32
from typing import NamedTuple

import pyarrow as pa

from holdfast_runtime.streams.kafka.client.librdkafka import BinarySource, Handle, Library, RecordColumns


class SendResult(NamedTuple):
    """How far a batch came."""

    rows: int
    """So many were taken."""
    err: int
    """Why the next was not, as a code of the client; 0: all were."""


def send(
    library: Library, producer: Handle, topic: Handle, partition: int, records: pa.RecordBatch, first: int = 0
) -> SendResult:
    """Give the rows of a `WRITTEN` batch from `first` on to a producer, which copies them."""
    err = c_int32(0)
    times = records.column("timestamp")
    addresses = RecordColumns(
        _readable(records.column("key")),
        _readable(records.column("value")),
        times.buffers()[1].address + times.offset * 8 if len(times) else None,
    )
    taken = library.loops.send(
        byref(library.functions), producer, topic, partition, byref(addresses), first, len(times), byref(err)
    )
    return SendResult(taken, err.value)


def _readable(column: pa.Array) -> BinarySource:
    valid, ends, content = column.buffers()
    if column.null_count == 0:
        valid = None
    return BinarySource(*(None if one is None else one.address for one in (ends, content, valid)), column.offset)
