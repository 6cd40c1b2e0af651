"""The offsets of a topic at a moment, by the timestamps of its records.

Asked by a consumer and not by an admin client: whose answer is the same for a partition without such a record and for
one whose leader is away, and taken for the former it would leave records out.
"""

from collections.abc import Collection
from contextlib import closing

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from holdfast.errors import HoldfastError
from holdfast_runtime.streams.kafka.client.connection import QUIET
from holdfast_runtime.streams.kafka.client.errors import trouble
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings

_GROUP = {"group.id": "holdfast-moments", "enable.auto.commit": "false", "isolation.level": "read_committed"}
"""A consumer must have a group; it joins none, since it subscribes to nothing."""


def offsets_since(
    settings: KafkaSettings, topic: str, partitions: Collection[int], moment: int, timeout: float = 30.0
) -> dict[int, int]:
    """Return the first offsets with a timestamp at this moment or later, of partitions that have one."""
    places = [TopicPartition(topic, number, moment) for number in partitions]
    with closing(Consumer(settings.client({}, _GROUP), logger=QUIET)) as consumer:
        try:
            answers = consumer.offsets_for_times(places, timeout=timeout)
        except KafkaException as error:
            raise _unanswered(settings, topic, error.args[0]) from None
    for answer in answers:
        if answer.error is not None:
            raise _unanswered(settings, topic, answer.error)
    return {answer.partition: answer.offset for answer in answers if answer.offset != OFFSET_END}


def _unanswered(settings: KafkaSettings, topic: str, error: KafkaError) -> HoldfastError:
    what = f"Kafka system {settings.system}: no answer where {topic} was at a moment"
    return trouble(error.code(), what, settings.without_values(error.str()))
