"""What Kafka has of an app's topics before there is a plan: how many partitions, and which topics are near a name.

For planning, which needs no stream opened. Must not change a topic.
"""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.spec.app import AppSpec
from holdfast.spec.streams import System
from holdfast_runtime.streams.kafka.admin.topics import KafkaTopics
from holdfast_runtime.streams.kafka.client.settings import kafka_settings


def kafka_counts(spec: AppSpec, secrets: Path | None) -> dict[str, int | None]:
    """Return the partition counts of an app's streams in Kafka, by stream; None if the topic does not exist."""
    counts: dict[str, int | None] = {}
    for system in spec.systems:
        if system.kafka is not None:
            topics = KafkaTopics(kafka_settings(system, secrets))
            counts |= {
                stream.name: topics.count(stream.topic or stream.name)
                for stream in spec.streams
                if stream.system == system.name
            }
    return counts


def kafka_topic_names(system: System, secrets: Path | None) -> Collection[str]:
    """Return the names of all topics that the app's login may see; none if the system is not Kafka or says nothing."""
    with suppress(HoldfastError):
        return () if system.kafka is None else KafkaTopics(kafka_settings(system, secrets)).names()
    return ()
