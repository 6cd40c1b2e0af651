"""Records of topics that are written once more, at the end of their partitions, and the memory of that.

The memory is a topic of the app with a note for each record, written in the transaction that writes the record: nothing
is put back twice by a process that dies and is repeated. Two at once shut each other out by the transactional id. Must
not decide which records are put back, nor read them.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.clocks import now
from holdfast_runtime.streams.kafka.admin.topics import KafkaTopics, TopicUse, wanted
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.write.marker_topic import MarkerTopic
from holdfast_runtime.streams.kafka.write.producer import TransactionalProducer
from holdfast_runtime.streams.markers import marker_topic
from holdfast_runtime.streams.records import written_batch

_PATIENCE = 10.0
Times = dict[StreamPartition, dict[int, int]]
"""Partition of a topic -> offset -> how often the record was put back."""


def times_put_back(settings: KafkaSettings, app: str) -> Times:
    """Return how often records were put back."""
    return _PutBackTopic(settings, app).times()


@contextmanager
def opened_put_back(settings: KafkaSettings, app: str, replication: int | None) -> Iterator["TopicPutBack"]:
    """Shut out whoever else puts records of the app back, and return what puts them back."""
    memory = _PutBackTopic(settings, app)
    memory.ensure(replication)
    producer = TransactionalProducer(settings, f"{marker_topic(app)}/put-back")
    try:
        producer.open()
        # Only now nobody else adds to it.
        yield TopicPutBack(producer, memory.topic, memory.times())
    finally:
        producer.close()


@dataclass(frozen=True, slots=True)
class TopicPutBack:
    """Puts records back."""

    producer: TransactionalProducer
    memory: str
    done: Times

    def is_done(self, partition: StreamPartition, offset: int, time: int) -> bool:
        """Whether this record was put back for that time."""
        return self.done.get(partition, {}).get(offset, 0) >= time

    def put_back(self, partition: StreamPartition, times: Mapping[int, int], records: pa.RecordBatch) -> None:
        """Write these records again, all or none; `times`: the offset of each -> for which time, in their order."""
        notes = [_note(partition, offset, time) for offset, time in times.items()]
        keys, values = zip(*notes, strict=True)
        self.producer.begin()
        self.producer.put(partition.stream, partition.partition, records)
        self.producer.put(self.memory, 0, written_batch(keys, values, now()))
        self.producer.commit()


@dataclass(frozen=True, slots=True)
class _PutBackTopic:
    """The topic that remembers what was put back."""

    settings: KafkaSettings
    app: str

    @property
    def topic(self) -> str:
        return f"{marker_topic(self.app)}.put-back"

    def ensure(self, replication: int | None) -> None:
        KafkaTopics(self.settings, _PATIENCE).ensure(self.topic, wanted(TopicUse.MARKERS, 1, replication), ours=True)

    def times(self) -> Times:
        if KafkaTopics(self.settings, _PATIENCE).count(self.topic) is None:
            return {}
        notes, times = MarkerTopic(self.settings, self.topic), Times()
        try:
            for key, value in notes.read(0):
                partition, offset, time = self._read(key, value)
                times.setdefault(partition, {})[offset] = time
        finally:
            notes.close()
        return times

    def _read(self, key: bytes, value: bytes | None) -> tuple[StreamPartition, int, int]:
        try:
            topic, number, offset = json.loads(key)
            return StreamPartition(str(topic), int(number)), int(offset), int(value or b"0")
        except (ValueError, TypeError) as error:
            message = (
                f"topic {self.topic} holds a record with the key {key[:200]!r} that Holdfast did not write; delete the "
                "topic: what was put back is then known no more"
            )
            raise UserActionError(message, code="MarkerUnreadableError") from error


def _note(partition: StreamPartition, offset: int, time: int) -> tuple[bytes, bytes]:
    key = json.dumps([partition.stream, partition.partition, offset], separators=(",", ":"), ensure_ascii=False)
    return key.encode(), b"%d" % time
