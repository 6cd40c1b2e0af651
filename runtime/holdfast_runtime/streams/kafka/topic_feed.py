"""Records written into a topic from outside of apps, each to the partition of its key, as other producers do.

By an idempotent producer without transactions: whoever reads sees the records when `write` returns. Must not create a
topic, nor know how values are made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.spec.streams import Partitioner
from holdfast_runtime.streams.kafka.admin.bounds import TopicBounds
from holdfast_runtime.streams.kafka.admin.topics import KafkaTopics
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.client.topic_limits import record_limit, request_bytes
from holdfast_runtime.streams.kafka.write.channel import Channel, ChannelError, open_channel
from holdfast_runtime.streams.kafka.write.producer import PATIENCE, REQUEST_BYTES, usual
from holdfast_runtime.streams.kafka.write.slot_writers import IN_ORDER
from holdfast_runtime.streams.record_keys import key_bytes, place, split
from holdfast_runtime.streams.records import RecordLimit, written_batch


@dataclass(slots=True)
class TopicFeed:
    """A topic that is written."""

    settings: KafkaSettings
    topic: str
    partitioner: Partitioner
    partitions: int
    """Their number."""
    turn: int
    """The partition, counted round and round, of the first record without a key."""
    limit: RecordLimit
    channel: Channel
    written: int = 0
    """How many records."""

    @classmethod
    def into(cls, settings: KafkaSettings, topic: str, partitioner: Partitioner) -> Self:
        """Return the feed of a topic, connected; raise an error if the topic is not there."""
        bounds = TopicBounds(settings).bounds([topic])[topic]
        limits = KafkaTopics(settings).limits(topic)
        config = settings.client(usual(request_bytes({topic: limits}, REQUEST_BYTES)), IN_ORDER)
        turn = sum(partition_bounds.end for partition_bounds in bounds.values())
        limit = record_limit(topic, limits, settings)
        return cls(settings, topic, partitioner, len(bounds), turn, limit, open_channel(settings, config))

    def write(self, keys: pa.RecordBatch, by: Sequence[str] | None, values: Sequence[bytes | None], times: Any) -> None:
        """Write a record for each row of `keys`, whose columns `by` are its key; `times`: of each, or of all.

        Those before a record that is too large for the topic are written.
        """
        records = written_batch(key_bytes(keys, by), values, times)
        sizes = pc.add(*(pc.fill_null(pc.binary_length(records.column(name)), 0) for name in ("key", "value")))
        too_large = pc.index(pc.greater(sizes, self.limit.most), value=True).as_py()
        self._send(records if too_large < 0 else records.slice(0, too_large))
        if too_large >= 0:
            message = (
                f"the next record has {sizes[too_large].as_py()} bytes, and {self.topic} takes {self.limit.most} "
                f"({self.limit.setting})"
            )
            raise UserActionError(message, code="RecordTooLargeError")

    def close(self) -> None:
        """Close the connection."""
        self.channel.close()

    def _send(self, records: pa.RecordBatch) -> None:
        """Write records, and wait until brokers have them; those without a key go round."""
        what = f"Kafka system {self.settings.system}: {self.topic} can't be written"
        unsure = f"Of {records.num_rows} records that were being sent, some may be there"
        places = place(records.column("key"), self.partitions, self.partitioner, position=self.turn + self.written)
        try:
            for number, part in split(records, places):
                self.channel.give(self.topic, number, part)
            left = self.channel.flush(PATIENCE)
        except ChannelError as error:
            # Not what an app is told: nobody sends these again.
            message = f"{what}: {self.settings.without_values(error.text)}. {unsure}"
            raise WorldChangeError(message, code="RecordsNotWrittenError") from None
        if left:
            message = f"{what}: brokers took no more for {PATIENCE:g} s. {unsure}"
            raise WorldChangeError(message, code="RecordsNotWrittenError")
        self.written += records.num_rows
