"""What a task writes into one stream in one batch, as bytes of its delta, and back.

The records of all partitions are in one Arrow stream, ordered by partition, and its schema says how many each has: an
Arrow stream for each partition would be 4 096 of them in each batch of a repartition among 64 tasks. Must not know what
records mean.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from holdfast.tasks.partitions import StreamPartition, parse_partition
from holdfast_runtime.streams.record_keys import Numbers, ordered, slices
from holdfast_runtime.streams.records import WRITTEN, alike, stacked

_COUNTS = b"records by partition"


class OutgoingRecords(NamedTuple):
    """Records of one stream, and the partition of each."""

    records: pa.RecordBatch
    partitions: Numbers


def pack_stream(stream: str, parts: Sequence[OutgoingRecords]) -> bytes:
    """Return the records as bytes; those of one partition stay in their order."""
    together = stacked(alike([part.records for part in parts]), WRITTEN, f"the records for {stream} from one task")
    records, counts = ordered(together, np.concatenate([part.partitions for part in parts]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, records.schema.with_metadata({_COUNTS: json.dumps(counts).encode()})) as writer:
        writer.write_batch(records)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpack_outputs(outputs: Mapping[str, bytes]) -> Iterator[tuple[StreamPartition, pa.RecordBatch]]:
    """Yield each partition with its records."""
    for name, content in outputs.items():
        with pa.ipc.open_stream(pa.py_buffer(content)) as stream:
            records = stacked([batch.replace_schema_metadata() for batch in stream], WRITTEN, f"the records for {name}")
            counts = stream.schema.metadata
        if not counts:
            # Earlier releases made bytes of each partition, under its name.
            yield parse_partition(name), records
            continue
        for number, part in slices(records, json.loads(counts[_COUNTS])):
            yield StreamPartition(name, number), part
