"""Why: how a topic is to be: what it needs for its use, and what the spec asks for, in one place.

Where the spec says nothing, brokers decide and nothing is checked. Must not ask brokers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from holdfast.spec.values import millis
from holdfast_runtime.streams.kafka.client.topic_limits import AHEAD, ANY_TIME, BEHIND, TYPE

FOR_EVER = "-1"
_RETENTION = "retention.ms"
MARKERS = {"cleanup.policy": "compact", "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}
TIMED = {TYPE: "CreateTime", AHEAD: str(ANY_TIME), BEHIND: str(ANY_TIME)}
"""Of topics in whose records' timestamps event times travel: whatever they are, and as they are."""
# By event times, a history that is read again would be old at once.
INTERMEDIATE = {_RETENTION: FOR_EVER, **TIMED}


class TopicUse(Enum):
    """What a topic is for."""

    READ = auto()
    """Others write it: how many brokers hold it is theirs to say."""
    WRITTEN = auto()
    """The app writes it for others."""
    TIMED = auto()
    """The app writes it, and readers know event times by the timestamps of its records."""
    INTERMEDIATE = auto()
    """The app writes and reads it."""
    MARKERS = auto()
    """The app notes there what it has written."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """How a topic is to be."""

    partitions: int
    replication: int | None
    """None: as brokers make it."""
    config: Mapping[str, str]
    """What it gets if it is made."""
    checked: Mapping[str, str]
    """What of it must be so too if it is there."""
    others: bool = False
    """Whether others decide about its replicas where it is there."""


def wanted(use: TopicUse, partitions: int, replication: int | None, retention: str | None = None) -> TopicSpec:
    """A topic of this use, as the spec says of its system and of itself."""
    if use is TopicUse.MARKERS:
        return TopicSpec(partitions, replication, MARKERS, {})
    if use is TopicUse.INTERMEDIATE:
        # Checked unasked: records would be gone before they are read, or event times be others, or be refused.
        return TopicSpec(partitions, replication, INTERMEDIATE, INTERMEDIATE)
    kept = _kept(retention)
    if use is TopicUse.TIMED:
        kept = {**kept, **TIMED}
    return TopicSpec(partitions, replication, kept, kept, others=use is TopicUse.READ)


def _kept(retention: str | None) -> dict[str, str]:
    if retention is None:
        return {}
    return {_RETENTION: FOR_EVER if retention == "Forever" else str(millis(retention))}
