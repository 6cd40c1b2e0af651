"""What a topic takes: how large a record may be, which timestamps it may have, and how event times fit into these.

Asked once per attempt, before a batch is decided: what is decided has to be written, so it must be possible. A
login that may not ask is told nothing; then the brokers' defaults are assumed of timestamps, and nothing of sizes.
Event times travel as timestamps, but Kafka knows only those after 1970 and takes 0 for "now": others, and "none",
become times far in the future, which topics that Holdfast makes accept. Must not ask brokers, nor touch other
timestamps.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.limits import ANY_TIME, DEFAULT_AHEAD, TopicLimits
from holdfast_runtime.streams.records import NO_TIME, RecordLimit

RECORD_BYTES = "max.message.bytes"
TYPE, AHEAD, BEHIND = "message.timestamp.type", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms"
EITHER = "message.timestamp.difference.max.ms"
"""What brokers before 3.6 have in place of the two."""
_FRAME = 100
"""More than a batch of one record takes beside its key and value."""
_CLIENT, _OF_CLIENT = "message.max.bytes", 1_000_000
_COMPRESSION = ("compression.type", "compression.codec")


def topic_limits(config: Mapping[str, str]) -> TopicLimits:
    """The limits that a topic's settings say."""
    size = config.get(RECORD_BYTES)
    if config.get(TYPE) == "LogAppendTime":
        # Brokers put their own time there, and look at no other.
        return TopicLimits(None if size is None else int(size), ANY_TIME, ANY_TIME)
    either = config.get(EITHER)
    ahead, behind = config.get(AHEAD, either), config.get(BEHIND, either)
    return TopicLimits(
        None if size is None else int(size),
        DEFAULT_AHEAD if ahead is None else int(ahead),
        ANY_TIME if behind is None else int(behind),
    )


def record_limit(topic: str, limits: TopicLimits, settings: KafkaSettings) -> RecordLimit:
    """The smaller of what the client takes and what the topic does."""
    of_client = int(settings.given.get(_CLIENT, _OF_CLIENT))
    by_client = RecordLimit(of_client, f"{_CLIENT} in the config of system {settings.system}")
    packed = any(settings.given.get(key, "none") not in ("none", "inherit") for key in _COMPRESSION)
    # What is compressed is measured by the brokers as it comes, which nobody knows before it is.
    if limits.record_bytes is None or packed or limits.record_bytes - _FRAME >= of_client:
        return by_client
    return RecordLimit(limits.record_bytes - _FRAME, f"{RECORD_BYTES} of topic {topic}")


def request_bytes(limits: Mapping[str, TopicLimits], usual: int) -> int:
    """How much the client may put into one batch of records, for all of these topics: brokers measure batches."""
    sizes = [one.record_bytes - _FRAME for one in limits.values() if one.record_bytes is not None]
    return max(1, min([usual, *sizes]))


_FUTURE = 2**62
_NONE = 2**63 - 1


def kafka_times(times: pa.Array) -> pa.Array:
    """As they are written; milliseconds since 1970."""
    values = times.to_numpy()
    if not len(values) or values.min() > 0:
        return times
    odd = values <= 0
    turned = np.where(values == NO_TIME, _NONE, _FUTURE - np.where(values == NO_TIME, 0, values))
    return pa.array(np.where(odd, turned, values))


def event_times(times: pa.Array) -> pa.Array:
    """As they were meant."""
    values = times.to_numpy()
    if not len(values) or values.max() < _FUTURE:
        return times
    turned = np.where(values == _NONE, NO_TIME, _FUTURE - values)
    return pa.array(np.where(values >= _FUTURE, turned, values))
