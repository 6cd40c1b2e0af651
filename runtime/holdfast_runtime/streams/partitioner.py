"""Why: which partition a key belongs to, for whole batches at once, exactly as the clients of Kafka say it.

Must not reorder records of one key: joins and state rely on their order.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.spec.streams import Partitioner
from holdfast_runtime.columns.hashes import Numbers, crc32, murmur2

_SIGN_OFF = np.uint32(0x7FFFFFFF)


def place(keys: pa.Array, count: int, partitioner: Partitioner = "murmur2", *, position: int = 0) -> Numbers:
    """The partition of each key among `count`. Null keys go round in turn, starting from `position`.

    Where the partitioner is `none`, nobody knows how others placed their keys; Holdfast takes murmur2.
    """
    hashes = crc32(keys) if partitioner == "crc32" else murmur2(keys) & _SIGN_OFF
    places = (hashes % np.uint32(count)).astype(np.int64)
    if keys.null_count:
        turns = (position + np.arange(len(keys), dtype=np.int64)) % count
        places = np.where(keys.is_null().to_numpy(zero_copy_only=False), turns, places)
    return places


def misplaced(keys: pa.Array, partition: int, count: int, partitioner: Partitioner) -> int:
    """How many keys in a partition belong to another one. What has no key belongs anywhere."""
    known = keys.drop_null()
    if partitioner == "crc32":
        # librdkafka's default partitioner takes an empty key for none.
        known = known.filter(pc.greater(pc.binary_length(known), 0))
    return int(np.count_nonzero(place(known, count, partitioner) != partition))


def split(records: pa.RecordBatch, places: Numbers) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Partition by partition, the records placed there, in their order."""
    order = np.argsort(places, kind="stable")
    found, starts = np.unique(places[order], return_index=True)
    ordered = records.take(pa.array(order))
    ends = [*starts.tolist(), len(places)][1:]
    for partition, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
        yield partition, ordered.slice(start, end - start)
