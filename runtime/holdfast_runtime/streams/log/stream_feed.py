"""Records written into a stream of the embedded log from outside, each to the partition of its key, as producers do.

Must not know how values are made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.spec.streams import Partitioner
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.record_keys import key_bytes, place, split
from holdfast_runtime.streams.records import written_batch


@dataclass(slots=True)
class StreamFeed:
    """A stream that is written."""

    log: EmbeddedLog
    topic: str
    partitioner: Partitioner
    written: int = 0
    """How many records."""

    @classmethod
    def into(
        cls, directory: Path, topic: str, partitioner: Partitioner, count: int | None, now: int
    ) -> "StreamFeed | None":
        """Return the feed of a stream of this log, created with `count` partitions; None: it is not there."""
        log = EmbeddedLog(directory)
        if count is not None:
            log.ensure(topic, count, now=now)
        return cls(log, topic, partitioner) if log.has(topic) else None

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return self.log.meta(self.topic).partitions

    def write(self, keys: pa.RecordBatch, by: Sequence[str] | None, values: Sequence[bytes | None], times: Any) -> None:
        """Write a record for each row of `keys`, whose columns `by` are its key; `times`: of each, or of all."""
        self.append(written_batch(key_bytes(keys, by), values, times))

    def append(self, records: pa.RecordBatch) -> None:
        """Write each record to the partition of its key; those without one go round."""
        bounds = self.log.bounds(self.topic)
        turn = sum(partition.end for partition in bounds.values())
        for number, part in split(records, place(records.column("key"), len(bounds), self.partitioner, position=turn)):
            self.log.append(StreamPartition(self.topic, number), part)
            self.written += part.num_rows
