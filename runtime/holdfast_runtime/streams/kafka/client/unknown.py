"""Why: a consumer says "unknown" of a partition that is not there, and just so of one whose broker it can't reach.

Only a broker knows which of the two it is. Must not decide how long doubt may last.
"""

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from holdfast.errors import HoldfastError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.kafka.client.errors import is_unknown, trouble
from holdfast_runtime.streams.kafka.client.quiet import QUIET
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings


def unanswered(settings: KafkaSettings, partition: StreamPartition, code: int, seconds: float) -> HoldfastError:
    """The error to raise where a consumer's question for a partition's bounds ended with this code."""
    if is_unknown(code):
        code = _said_by_a_broker(settings, partition, seconds)
    return trouble(code, f"Kafka system {settings.system}: {partition} can't be read")


def _said_by_a_broker(settings: KafkaSettings, partition: StreamPartition, seconds: float) -> int:
    client = AdminClient(settings.asking(), logger=QUIET)
    # Not list_topics(name): on a broker with auto.create.topics.enable that creates the topic.
    (asked,) = client.describe_topics(TopicCollection([partition.stream]), request_timeout=seconds).values()
    try:
        found = asked.result()
    except KafkaException as error:
        return int(error.args[0].code())
    there = partition.partition in {one.id for one in found.partitions}
    return int(KafkaError.LEADER_NOT_AVAILABLE if there else KafkaError.UNKNOWN_TOPIC_OR_PART)
