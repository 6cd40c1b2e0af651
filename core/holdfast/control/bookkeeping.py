"""The control bookkeeping of a task: watermarks and ends, as one value that goes with its rows from batch to batch.

`batch` is the one step a slot takes. It is part of the task's state, so a restart loses nothing: `entries` says what
changed since the last batch, `restored` takes it back. Must not read or write the store.
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
    """What a task reads in this attempt, and who writes it."""

    partitions: tuple[StreamPartition, ...]
    """Side inputs among them."""
    producers: Mapping[str, Producers] = field(default_factory=dict)
    """Of intermediate streams, and of streams of other apps; a source has none."""
    side_inputs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Bookkeeping:
    """Watermarks and ends of everything a task reads."""

    watermarks: Watermarks
    ends: EndOfStream

    @classmethod
    def started(cls, inputs: ControlInputs, now: int) -> "Bookkeeping":
        """Of a task that begins."""
        return cls(no_watermarks(), no_ends()).tracking(inputs, now)

    def tracking(self, inputs: ControlInputs, now: int) -> "Bookkeeping":
        """The same for what this attempt reads."""
        return Bookkeeping(
            self.watermarks.tracking(inputs.partitions, inputs.producers, now),
            self.ends.tracking(inputs.partitions, inputs.producers, inputs.side_inputs),
        )

    def resumed(self, now: int) -> "Bookkeeping":
        """The same when an attempt starts: see `Watermarks.resumed`."""
        return replace(self, watermarks=self.watermarks.resumed(now))

    def believed(self, limits: Mapping[str, int], now: int) -> "Bookkeeping":
        """The same without watermarks that can't be true: see `Watermarks.believed`."""
        return replace(self, watermarks=self.watermarks.believed(limits, now))

    def batch(self, deliveries: Iterable[Delivery], now: int) -> "Bookkeeping":
        """The state after a batch with these control messages, looking at the clock also where there is none."""
        heard = tuple(deliveries)
        return Bookkeeping(self.watermarks.apply(heard, now).tick(now), self.ends.apply(heard))

    def entries(self, before: "Bookkeeping | None" = None) -> dict[bytes, bytes | None]:
        """What to write so that the store goes from `before` to this; None: delete. Without `before`: everything."""
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
        """The state in these entries, for what is read now; raises `StoredBookkeepingError`."""
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
