"""Kafka errors: the codes of librdkafka sorted by the way out of them, and the record to blame when some are refused.

Used by everything here that reads, writes or asks. Codes are plain numbers, the same from librdkafka and from
confluent_kafka. A broker refuses the records of one request together and mostly says the same of all of them, so the
record at fault has to be found among its neighbours. Pure: the fate of records comes in as arguments. Must not see a
config value: texts come here with those blanked.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from confluent_kafka import KafkaError

from holdfast.errors import AwayError, HoldfastError, UserActionError, WorldChangeError
from holdfast_runtime.streams.records import OffsetNotWrittenError, StreamMissingError

# ruff: noqa: SLF001 - codes that librdkafka makes itself have no other names


class KafkaBusyError(AwayError):
    """A broker or the way to it is in a moment of change, or has not answered in time."""


class KafkaForbiddenError(WorldChangeError):
    """The brokers know the login and do not allow it this operation."""


class _Way(NamedTuple):
    error: type[HoldfastError]
    code: str
    cure: str


_WAIT = _Way(KafkaBusyError, "KafkaBusyError", "It may pass by itself")
_MISSING = _Way(
    StreamMissingError,
    "StreamMissingError",
    "Create the topic, correct the stream's topic, or let the system's login see it",
)
_FORBIDDEN = _Way(KafkaForbiddenError, "KafkaForbiddenError", "Grant it to the login of the system")
_AWAY = _Way(AwayError, "KafkaAwayError", "Check that brokers run, and that their addresses can be reached from here")
_LOGIN = _Way(UserActionError, "KafkaLoginError", "Correct the login in the system's config or secret")
_CONFIG = _Way(
    UserActionError, "KafkaConfigError", "Correct the system's config or secret, or the settings of the topic"
)
_REFUSED = _Way(
    UserActionError,
    "RecordRefusedError",
    "It is written as soon as its topic takes it (max.message.bytes, message.timestamp.*.max.ms, cleanup.policy), and "
    "the config of the system (message.max.bytes); to have the batch planned again instead, name it in "
    "runtime.replan, or stop the run and use `holdfast offsets` with --replan (docs/running.md)",
)
_DAMAGED = _Way(
    UserActionError,
    "RecordsDamagedError",
    "Bring back the topic from a copy, or start a new run (another spec.runId) past it",
)
_OFFSET = _Way(
    OffsetNotWrittenError,
    "OffsetNotWrittenError",
    "Bring back the stream as it was, or start a new run (another spec.runId)",
)
_FENCED = _Way(HoldfastError, "FencedError", "A newer attempt has taken over; this one ends")

_NOT_KNOWN_HERE = (KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_CODES: Mapping[_Way, tuple[int, ...]] = {
    _WAIT: (
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._ISR_INSUFF,
        KafkaError._NODE_UPDATE,
        KafkaError._WAIT_COORD,
        KafkaError._WAIT_CACHE,
        KafkaError._IN_PROGRESS,
        KafkaError._PREV_IN_PROGRESS,
        KafkaError._RETRY,
        KafkaError._QUEUE_FULL,
        KafkaError._NOENT,  # an admin client that finds no leader
        KafkaError._PARTIAL,  # of a broker that has just started and knows of none
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        KafkaError._DESTROY_BROKER,
        KafkaError._INTR,
        KafkaError._OUTDATED,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_CONTROLLER,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.TRANSACTION_ABORTABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.REASSIGNMENT_IN_PROGRESS,
        KafkaError.FETCH_SESSION_ID_NOT_FOUND,
        KafkaError.INVALID_FETCH_SESSION_EPOCH,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.STALE_BROKER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNKNOWN_TOPIC_ID,  # the topic was created again; the client learns its new id
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError.REBOOTSTRAP_REQUIRED,
    ),
    _MISSING: (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_EXCEPTION,  # a name no topic can have
        *_NOT_KNOWN_HERE,
    ),
    _FORBIDDEN: (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ),
    _AWAY: (KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._UNKNOWN_BROKER),
    _LOGIN: (
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError.UNACCEPTABLE_CREDENTIAL,
        KafkaError.DELEGATION_TOKEN_EXPIRED,
        KafkaError.DELEGATION_TOKEN_NOT_FOUND,
    ),
    _CONFIG: (
        KafkaError._INVALID_ARG,
        KafkaError._NOT_CONFIGURED,
        KafkaError._NOT_IMPLEMENTED,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_REQUEST,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
        KafkaError.POLICY_VIOLATION,
        KafkaError.SECURITY_DISABLED,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.INVALID_GROUP_ID,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
    ),
    _REFUSED: (
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError._INVALID_DIFFERENT_RECORD,
    ),
    _DAMAGED: (
        KafkaError._BAD_MSG,  # the client would continue after the batch, whose records would be missing
        KafkaError._BAD_COMPRESSION,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
    ),
    _OFFSET: (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION),
    _FENCED: (
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
        KafkaError.FENCED_INSTANCE_ID,
    ),
}
_WAY_OF = {code: way for way, codes in _CODES.items() for code in codes}

END_OF_PARTITION = int(KafkaError._PARTITION_EOF)
NOT_ENCRYPTED = int(KafkaError._SSL)
NOT_REACHED = int(KafkaError._ALL_BROKERS_DOWN)
"""Follows each failed connection, and says less than the message before it."""


def is_passing(code: int) -> bool:
    """Whether the client recovers from this by itself. An unsorted code does not count."""
    return _WAY_OF.get(code) is _WAIT


def is_unknown(code: int) -> bool:
    """Whether the client knows no such topic or partition. A broker may know it: see `connection.unanswered`."""
    return code in _NOT_KNOWN_HERE


def is_silence(code: int) -> bool:
    """Whether a client that asked has heard nothing. A broker may know what it calls unknown."""
    return code in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT) or is_unknown(code)


def is_worth_a_fresh_client(code: int) -> bool:
    """Whether a client without memory may be answered: leaders and addresses are what the old one remembers."""
    return _WAY_OF.get(code) in (_WAIT, _AWAY)


def is_taken_over(code: int) -> bool:
    """Whether somebody else now writes under this name."""
    return _WAY_OF.get(code) is _FENCED


def is_refused_login(code: int) -> bool:
    """Whether waiting is useless, because the login or encryption is refused."""
    return _WAY_OF.get(code) is _LOGIN


def is_about_offset(code: int) -> bool:
    """Whether the partition lacks the offset. Which end it is beyond decides what that means."""
    return _WAY_OF.get(code) is _OFFSET


def trouble(code: int, what: str, client_text: str = "") -> HoldfastError:
    """Return the error to raise; `what` names system, topic and action, `client_text` is the client's own text.

    An unsorted code is tried again, because the attempts of an app have a limit of their own.
    """
    way, kafka_error = _WAY_OF.get(code, _WAIT), KafkaError(code)
    text = client_text or kafka_error.str()
    return way.error(f"{what}: {text} ({kafka_error.name()}). {way.cure}.", code=way.code)


_SHOWN = 80
_BY_SIZE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
_BESIDE = int(KafkaError._INVALID_DIFFERENT_RECORD)


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """One record that was given and not written."""

    code: int
    topic: str
    partition: int
    key: bytes | None
    value_bytes: int
    text: str
    """The meaning of the code, in the client's words."""
    remark: int = 0
    """The address of the client's further remark, equal for records with the same remark."""
    among: int = 1
    """How many records it is one of, when nothing tells which is at fault."""

    def __str__(self) -> str:
        key = "without a key" if self.key is None else f"with key {_shown(self.key)}"
        size = self.value_bytes + len(self.key or b"")
        neighbours = f", or another of the {self.among} sent with it" if self.among > 1 else ""
        return f"the record {key} for {self.topic}/{self.partition} ({size} bytes){neighbours}: {self.text}"


def blamed(failed: Sequence[FailedRecord]) -> FailedRecord | None:
    """Return the record that made others fail too; None if all may succeed when they are tried again."""
    refused = [record for record in failed if not is_passing(record.code)]
    guilty = [record for record in refused if record.code != _BESIDE] or refused
    if not guilty:
        return None
    same = [record for record in guilty if record.code == guilty[0].code]
    if same[0].code in _BY_SIZE:
        return max(same, key=lambda record: record.value_bytes + len(record.key or b""))
    # All neighbours get the same remark; each record at fault gets its own.
    remark_counts = Counter(record.remark for record in same)
    rare = [record for record in same if remark_counts[record.remark] == min(remark_counts.values())]
    # A compacted topic takes no record without a key.
    return replace(min(rare, key=lambda record: record.key is not None), among=len(rare))


def _shown(key: bytes) -> str:
    return repr(key) if len(key) <= _SHOWN else f"{key[:_SHOWN]!r} and {len(key) - _SHOWN} more bytes"
