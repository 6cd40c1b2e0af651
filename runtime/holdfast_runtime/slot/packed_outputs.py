"""What a task writes in one batch, stream by stream: records by partition, and as bytes of its delta.

As bytes the records of all partitions are in one Arrow stream, ordered by partition, and its schema says how many each
has: an Arrow stream for each partition would be 4 096 of them in each batch of a repartition among 64 tasks. Must not
know what records mean.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from holdfast.tasks.partitions import StreamPartition, parse_partition
from holdfast_runtime.streams.record_keys import Numbers, PartitionCounts, ordered, slices
from holdfast_runtime.streams.records import WRITTEN, alike, stacked

_COUNTS = b"records by partition"
_AS_USUAL = pa.ipc.IpcWriteOptions()
"""Without options pyarrow asks the environment for some, each time."""


class OutgoingRecords(NamedTuple):
    """Records of one stream, and the partition of each."""

    records: pa.RecordBatch
    partitions: Numbers


class OutgoingStreams(Mapping[str, bytes]):
    """Stream -> its records as bytes, which are made where a delta has them; what is written is the records."""

    def __init__(self, parts: Mapping[str, Sequence[OutgoingRecords]]) -> None:
        """`parts`: stream -> its records; those of one partition stay in their order."""
        self._streams = {stream: _by_partition(stream, parts[stream]) for stream in sorted(parts)}

    def __getitem__(self, stream: str) -> bytes:
        records, counts = self._streams[stream]
        sink, schema = pa.BufferOutputStream(), records.schema.with_metadata({_COUNTS: json.dumps(counts).encode()})
        with pa.ipc.new_stream(sink, schema, options=_AS_USUAL) as writer:
            writer.write_batch(records)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def size(self) -> int:
        """The bytes of the records."""
        return sum(records.nbytes for records, _ in self._streams.values())

    def partitions(self) -> Iterator[StreamPartition]:
        """Yield the partitions that get records."""
        for name, (_, counts) in self._streams.items():
            for number, _ in counts:
                yield StreamPartition(name, number)

    def by_partition(self) -> Iterator[tuple[StreamPartition, pa.RecordBatch]]:
        """Yield each partition with its records."""
        for name, (records, counts) in self._streams.items():
            for number, part in slices(records, counts):
                yield StreamPartition(name, number), part


def _by_partition(stream: str, parts: Sequence[OutgoingRecords]) -> tuple[pa.RecordBatch, PartitionCounts]:
    together = stacked(alike([part.records for part in parts]), WRITTEN, f"the records for {stream} from one task")
    return ordered(together, np.concatenate([part.partitions for part in parts]))


def records_of(outputs: Mapping[str, bytes]) -> Iterator[tuple[StreamPartition, pa.RecordBatch]]:
    """Yield each partition with its records."""
    if isinstance(outputs, OutgoingStreams):
        yield from outputs.by_partition()
        return
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
