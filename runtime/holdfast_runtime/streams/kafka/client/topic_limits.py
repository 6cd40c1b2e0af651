"""The limits of a topic: how large a record may be, which timestamps it may have, and how event times fit into these.

Asked once per attempt, before a batch is decided, because what is decided has to be writable. A login that may not ask
learns nothing; then the brokers' defaults are assumed for timestamps, and nothing for sizes. Event times travel as
timestamps, but Kafka accepts only those after 1970 and takes 0 for "now". Others, and "none", become times far in the
future, which topics that Holdfast creates accept. Must not ask brokers, nor touch other timestamps.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from holdfast_runtime.streams.app_streams import ANY_TIME, DEFAULT_AHEAD, TopicLimits
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.records import NO_TIME, RecordLimit

RECORD_BYTES = "max.message.bytes"
RETENTION, FOR_EVER, CLEANUP = "retention.ms", "-1", "cleanup.policy"
TYPE, AHEAD, BEHIND = "message.timestamp.type", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms"
EITHER = "message.timestamp.difference.max.ms"
"""The setting that brokers before 3.6 have instead of the two."""
_FRAME = 100
"""More than a batch of one record takes beside its key and value."""
_CLIENT, _OF_CLIENT = "message.max.bytes", 1_000_000
_COMPRESSION = ("compression.type", "compression.codec")


def topic_limits(config: Mapping[str, str]) -> TopicLimits:
    """Return the limits in the settings of a topic."""
    size = config.get(RECORD_BYTES)
    if config.get(TYPE) == "LogAppendTime":
        # Brokers set their own time, and ignore any other.
        return TopicLimits(None if size is None else int(size), ANY_TIME, ANY_TIME)
    either = config.get(EITHER)
    ahead, before = config.get(AHEAD, either), config.get(BEHIND, either)
    behind = ANY_TIME if before is None else int(before)
    return TopicLimits(
        None if size is None else int(size),
        DEFAULT_AHEAD if ahead is None else int(ahead),
        behind,
        _lifetime(config, behind),
    )


def _lifetime(config: Mapping[str, str], behind: int) -> int | None:
    lifetime = int(config.get(RETENTION, FOR_EVER))
    deletes = "delete" in config.get(CLEANUP, "delete")
    return lifetime if deletes and 0 <= lifetime < behind else None


def record_limit(topic: str, limits: TopicLimits, settings: KafkaSettings) -> RecordLimit:
    """Return the smaller of the client's and the topic's limit."""
    of_client = int(settings.given.get(_CLIENT, _OF_CLIENT))
    by_client = RecordLimit(of_client, f"{_CLIENT} in the config of system {settings.system}")
    packed = any(settings.given.get(key, "none") not in ("none", "inherit") for key in _COMPRESSION)
    # Brokers measure compressed batches, whose size nobody knows in advance.
    if limits.record_bytes is None or packed or limits.record_bytes - _FRAME >= of_client:
        return by_client
    return RecordLimit(limits.record_bytes - _FRAME, f"{RECORD_BYTES} of topic {topic}")


def request_bytes(limits: Mapping[str, TopicLimits], usual: int) -> int:
    """Return how much the client may put into one batch for all these topics, because brokers measure batches."""
    sizes = [limit.record_bytes - _FRAME for limit in limits.values() if limit.record_bytes is not None]
    return max(1, min([usual, *sizes]))


_FUTURE = 2**62
_NONE = 2**63 - 1


def kafka_times(times: pa.Array) -> pa.Array:
    """Convert event times to Kafka timestamps, both in milliseconds since 1970."""
    values = times.to_numpy()
    if not len(values) or values.min() > 0:
        return times
    odd = values <= 0
    turned = np.where(values == NO_TIME, _NONE, _FUTURE - np.where(values == NO_TIME, 0, values))
    return pa.array(np.where(odd, turned, values))


def event_times(times: pa.Array) -> pa.Array:
    """Convert Kafka timestamps back to event times."""
    values = times.to_numpy()
    if not len(values) or values.max() < _FUTURE:
        return times
    turned = np.where(values == _NONE, NO_TIME, _FUTURE - values)
    return pa.array(np.where(values >= _FUTURE, turned, values))
