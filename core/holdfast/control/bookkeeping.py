"""The control bookkeeping of a task: the watermarks and ends of its partitions, as one value that each batch updates.

A slot calls `batch` once per batch. The bookkeeping is part of the task's state, so a restart loses nothing: `entries`
returns what changed since the last batch, `restored` reads it again. Must not read or write the store.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from holdfast.control.bookkeeping_format import (
    END,
    WATERMARK,
    end_bytes,
    end_in,
    key_of,
    parse_key,
    watermark_bytes,
    watermark_in,
)
from holdfast.control.end_of_stream import EndOfStream, PartitionEnd, no_ends
from holdfast.control.partition_watermark import PartitionWatermark
from holdfast.control.producers import Delivery, Producers
from holdfast.control.watermark import Watermarks, no_watermarks
from holdfast.tasks.partitions import StreamPartition


@dataclass(frozen=True, slots=True)
class ControlInputs:
    """The partitions a task reads in this attempt, and the producers of their streams."""

    partitions: tuple[StreamPartition, ...]
    """All partitions, including those of side inputs."""
    producers: Mapping[str, Producers] = field(default_factory=dict)
    """Stream -> producers, for intermediate streams and streams of other apps; a source has none."""
    side_inputs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Bookkeeping:
    """Watermarks and ends of everything a task reads."""

    watermarks: Watermarks
    ends: EndOfStream

    @classmethod
    def started(cls, inputs: ControlInputs, now: int) -> "Bookkeeping":
        """Return the bookkeeping of a new task."""
        return cls(no_watermarks(), no_ends()).tracking(inputs, now)

    def tracking(self, inputs: ControlInputs, now: int) -> "Bookkeeping":
        """Return the bookkeeping for the inputs of this attempt."""
        return Bookkeeping(
            self.watermarks.tracking(inputs.partitions, inputs.producers, now),
            self.ends.tracking(inputs.partitions, inputs.producers, inputs.side_inputs),
        )

    def resumed(self, now: int) -> "Bookkeeping":
        """Return the bookkeeping at the start of an attempt: see `Watermarks.resumed`."""
        return replace(self, watermarks=self.watermarks.resumed(now))

    def believed(self, limits: Mapping[str, int], now: int) -> "Bookkeeping":
        """Return the bookkeeping without impossible watermarks: see `Watermarks.believed`."""
        return replace(self, watermarks=self.watermarks.believed(limits, now))

    def batch(self, deliveries: Iterable[Delivery], now: int) -> "Bookkeeping":
        """Return the bookkeeping after a batch with these control messages; checks idleness also without messages."""
        heard = tuple(deliveries)
        return Bookkeeping(self.watermarks.apply(heard, now).tick(now), self.ends.apply(heard))

    def entries(self, before: "Bookkeeping | None" = None) -> dict[bytes, bytes | None]:
        """Return the entries to write where the store has `before`; None: delete. Without `before`: all entries."""
        changed: dict[bytes, bytes | None] = {}
        old_watermarks: Mapping[StreamPartition, PartitionWatermark] = before.watermarks.partitions if before else {}
        old_ends: Mapping[StreamPartition, PartitionEnd] = before.ends.partitions if before else {}
        for partition, watermark in self.watermarks.partitions.items():
            if watermark is not old_watermarks.get(partition):
                changed[key_of(WATERMARK, partition)] = watermark_bytes(watermark)
        for partition, end in self.ends.partitions.items():
            if end is not old_ends.get(partition):
                changed[key_of(END, partition)] = end_bytes(end)
        for partition in old_watermarks.keys() - self.watermarks.partitions.keys():
            changed[key_of(WATERMARK, partition)] = None
            changed[key_of(END, partition)] = None
        return changed

    @classmethod
    def restored(cls, entries: Mapping[bytes, bytes], inputs: ControlInputs, now: int) -> "Bookkeeping":
        """Return the bookkeeping in these entries, for what is read now; raise `StoredBookkeepingError`."""
        watermarks: dict[StreamPartition, PartitionWatermark] = {}
        ends: dict[StreamPartition, PartitionEnd] = {}
        for key, value in entries.items():
            kind, partition = parse_key(key)
            if kind == WATERMARK:
                watermarks[partition] = watermark_in(value, partition)
            else:
                ends[partition] = end_in(value, partition)
        stored = cls(Watermarks(watermarks, inputs.producers), EndOfStream(ends, inputs.producers, inputs.side_inputs))
        return stored.tracking(inputs, now)
