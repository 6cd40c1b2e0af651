"""Why: what is written outside of a transaction is with the brokers when the call returns, or it says why not.

Must not open or close a channel: who has it decides how long it lives.
"""

from collections.abc import Iterable

import pyarrow as pa

from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError, trouble
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.write.channel import Channel, ChannelError

PartitionRecords = tuple[str, int, pa.RecordBatch]
"""Topic, partition, and records in their order."""


def deliver(
    channel: Channel, settings: KafkaSettings, what: str, given: Iterable[PartitionRecords], seconds: float
) -> None:
    """Write it; all of it is there when this returns. `what` names it in errors."""
    try:
        for topic, partition, records in given:
            channel.give(topic, partition, records)
        left = channel.flush(seconds)
    except ChannelError as error:
        text = settings.without_values(error.text)
        raise trouble(error.code, f"{what} can't be written", text) from None
    if left:
        message = f"{what}: not all records were taken within {seconds:g} s. It is tried again"
        raise KafkaBusyError(message)
