"""Records of the embedded log that are written once more, at the end of their partition, and the memory of that.

The memory is a marker for each record, written in the transaction that writes the record. So nothing is put back twice
by a process that dies and is repeated, nor by two at once. It belongs to the stream and not to an app, because all
readers of the stream would get the record twice. Must not decide which records are put back.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.records import WRITTEN, Marker, OffsetRange, offset_spans

_OWNER = "put-back"
"""No run has this owner: theirs have a slash."""
_SPAN = 10_000
"""The widest range that is fetched, and written, at once."""


def times_put_back(log: EmbeddedLog, topic: str) -> dict[StreamPartition, dict[int, int]]:
    """Return how often records of a stream were put back: partition -> offset -> times."""
    return {
        partition: {int(marker.task): marker.batch for marker in markers}
        for partition, markers in log.markers(topic, _OWNER).items()
    }


def put_back(log: EmbeddedLog, partition: StreamPartition, times: Mapping[int, int]) -> int:
    """Write records of a partition again; `times`: offset -> for which time. Return how many were not there yet."""
    written = 0
    for offsets in offset_spans(sorted(times), _SPAN):
        first = offsets[0]
        fetched = log.fetch(OffsetRange(partition, first, offsets[-1] + 1))
        records = fetched.take(pa.array(np.array(offsets) - first)).select(WRITTEN.names)
        markers = (Marker(_OWNER, str(offset), times[offset], 0, "", "") for offset in offsets)
        done = log.append_all(partition, [(records.slice(row, 1), marker) for row, marker in enumerate(markers)])
        written += sum(done)
    return written
