"""Records of intermediate streams as bytes: a user's record, or a control message (watermark, end of stream).

One type byte, then the payload, which is a user's record unchanged or a control message as JSON. The event time of a
user's record is the timestamp of the record, in milliseconds; the microseconds that it has beyond that, if any, are two
bytes in between. `slot.user_records` does the same for whole columns. Must not decide what a message means for a task,
and must raise nothing but `ControlRecordError`, whatever bytes come in.
"""

import json
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

from holdfast.control.runs import WriterRun, WriterTasks
from holdfast.errors import UserActionError
from holdfast.times import MICROS_PER_MILLI

PAYLOAD_VERSION: Final = 1
EARLIEST: Final = -(2**63) + 1
"""The watermark of a producer that is idle and has had no row: it promises nothing."""
END_OF_TIME: Final = 2**63 - 1
"""The watermark of a producer that has ended, above every watermark that can be sent."""
MICROS_BYTES: Final = 2
_SHOWN = 12
"""How many bytes of an unreadable record messages show."""


class RecordKind(IntEnum):
    """The kind of a record, from its type byte."""

    USER = 0
    WATERMARK = 1
    END_OF_STREAM = 2
    USER_WITH_MICROS = 3


_KINDS = tuple(RecordKind)


class MessageNumber(NamedTuple):
    """The number of a message among its producer's messages: greater for a later message, equal for a replay."""

    batch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A record of the user, in the format of its stream."""

    payload: bytes
    micros: int = 0
    """How many microseconds its event time is behind the timestamp of the record, less than a millisecond."""


@dataclass(frozen=True, slots=True)
class WatermarkMessage:
    """No row with an earlier event time follows from this producer."""

    timestamp: int
    """Event time in milliseconds since 1970; before that it is negative."""
    at: MessageNumber
    task: str | None = None
    """The producing task; None: the source itself, or a relay that sends for all producers."""
    task_count: int | None = None
    """How many tasks produce the stream, as the producer knows it; set if `task` is."""
    run: WriterRun | None = None
    """The run of the app that wrote it; None: the source itself, or an older release."""
    idle: bool = False
    """Nothing that the producer reads is to be waited for, so neither is the producer, until its next message."""
    task_digest: str = ""
    """A digest of the names of all tasks that produce the stream."""

    @property
    def writers(self) -> WriterTasks | None:
        """The tasks that produce the stream; None: the message speaks for all of them."""
        return None if self.task_count is None else WriterTasks(self.task_count, self.task_digest)


@dataclass(frozen=True, slots=True)
class EndOfStreamMessage:
    """No row at all follows from this producer."""

    stream: str
    """The producer's name of the stream."""
    at: MessageNumber
    task: str | None = None
    task_count: int | None = None
    run: WriterRun | None = None
    task_digest: str = ""

    @property
    def writers(self) -> WriterTasks | None:
        """The tasks that produce the stream; None: the message speaks for all of them."""
        return None if self.task_count is None else WriterTasks(self.task_count, self.task_digest)


ControlMessage = WatermarkMessage | EndOfStreamMessage
StreamRecord = UserRecord | ControlMessage


class ControlRecordError(UserActionError):
    """A record of an intermediate stream that can't be read."""


def kind_of(first_byte: int) -> RecordKind | None:
    """Return the kind of a record that starts with this byte; None if unknown: `decode` then raises the error."""
    return _KINDS[first_byte] if first_byte < len(_KINDS) else None


def user_head(micros: int) -> bytes:
    """Return what stands before the payload of a user's record."""
    if not micros:
        return bytes((RecordKind.USER,))
    return bytes((RecordKind.USER_WITH_MICROS,)) + micros.to_bytes(MICROS_BYTES, "big")


def encode(record: StreamRecord) -> bytes:
    """Return the value of a record; refuse what `decode` would refuse, since a topic would keep it."""
    if isinstance(record, UserRecord):
        return user_head(record.micros) + record.payload
    tree: dict[str, Any] = {
        "version": PAYLOAD_VERSION,
        "taskName": record.task,
        "taskCount": record.task_count,
        "batch": record.at.batch,
        "sequence": record.at.sequence,
    }
    if record.run is not None:
        tree["run"], tree["attempt"] = record.run
    if record.task_digest:
        tree["taskDigest"] = record.task_digest
    if isinstance(record, WatermarkMessage):
        kind, tree["timestamp"] = RecordKind.WATERMARK, record.timestamp
        if record.idle:
            tree["idle"] = True
    else:
        kind, tree["streamId"] = RecordKind.END_OF_STREAM, record.stream
    _message_in(kind, tree, "a control message to be written")
    return bytes((kind,)) + json.dumps(tree, separators=(",", ":"), ensure_ascii=False).encode()


def decode(value: bytes | None, record_name: str = "a record") -> StreamRecord:
    """Return the record in a value. `record_name` is for errors, e.g. `clicks/3 at offset 17`."""
    if not value:
        what = "has a null value" if value is None else "has an empty value"
        message = f"{record_name} {what}, but every record of an intermediate stream starts with a type byte; {_CAUSES}"
        raise ControlRecordError(message, code="UnknownTypeByteError")
    kind = kind_of(value[0])
    if kind is None:
        message = (
            f"{record_name} starts with type byte {value[0]} (first bytes {value[:_SHOWN].hex(' ')}, as text "
            f"{value[:_SHOWN]!r}), but there are 0 and 3 (user), 1 (watermark) and 2 (end of stream); {_CAUSES}"
        )
        raise ControlRecordError(message, code="UnknownTypeByteError")
    if kind is RecordKind.USER:
        return UserRecord(value[1:])
    if kind is RecordKind.USER_WITH_MICROS:
        return _user_with_micros(value, record_name)
    return _message_in(kind, _tree(value, record_name), record_name)


def _user_with_micros(value: bytes, record_name: str) -> UserRecord:
    micros, payload = value[1 : 1 + MICROS_BYTES], value[1 + MICROS_BYTES :]
    if len(micros) < MICROS_BYTES or not 0 < int.from_bytes(micros, "big") < MICROS_PER_MILLI:
        message = (
            f"{record_name} starts with type byte 3, so two bytes with 1 to 999 microseconds follow, and not "
            f"{micros.hex(' ') or 'nothing'}; {_CAUSES}"
        )
        raise ControlRecordError(message, code="UnknownTypeByteError")
    return UserRecord(payload, int.from_bytes(micros, "big"))


_CAUSES = (
    "likely causes: the stream is no intermediate stream of Holdfast and `control: true` is set by mistake (remove "
    "it); something else writes to its topic too (give that one a topic of its own); or a newer release of Holdfast "
    "wrote it (upgrade the app that reads)"
)


def _tree(value: bytes, record_name: str) -> dict[str, Any]:
    try:
        # Decode first: given bytes, json would accept UTF-16 and UTF-32 too.
        tree = json.loads(value[1:].decode())
    except (ValueError, RecursionError) as error:
        message = (
            f"{record_name} is a control message, but its payload is no JSON (first bytes {value[:_SHOWN]!r}): {error}"
        )
        raise ControlRecordError(message, code="ControlPayloadError") from error
    if not isinstance(tree, dict):
        message = f"{record_name} is a control message, but its payload is {type(tree).__name__} and not an object"
        raise ControlRecordError(message, code="ControlPayloadError")
    return tree


def _message_in(kind: RecordKind, tree: dict[str, Any], record_name: str) -> ControlMessage:
    version = _whole(tree, "version", 0, record_name)
    if version != PAYLOAD_VERSION:
        message = (
            f"{record_name} is a control message of version {version}, and this release reads version "
            f"{PAYLOAD_VERSION}: upgrade the app that reads before the one that writes"
        )
        raise ControlRecordError(message, code="ControlVersionError")
    task = None if tree.get("taskName") is None else _text(tree, "taskName", record_name)
    # Without a count a reader could not tell whether all producers have sent a message.
    unneeded = task is None and tree.get("taskCount") is None
    task_count = None if unneeded else _whole(tree, "taskCount", 1, record_name)
    number = MessageNumber(_whole(tree, "batch", 0, record_name), _whole(tree, "sequence", 0, record_name))
    run = None
    if tree.get("run") is not None:
        run = WriterRun(_text(tree, "run", record_name), _whole(tree, "attempt", 0, record_name))
    digest = "" if tree.get("taskDigest") is None else _text(tree, "taskDigest", record_name)
    if kind is RecordKind.WATERMARK:
        timestamp = _whole(tree, "timestamp", -(2**63), record_name)
        return WatermarkMessage(timestamp, number, task, task_count, run, tree.get("idle") is True, digest)
    return EndOfStreamMessage(_text(tree, "streamId", record_name), number, task, task_count, run, digest)


def _whole(tree: dict[str, Any], name: str, least: int, record_name: str) -> int:
    number = tree.get(name)
    if type(number) is not int or not least <= number < END_OF_TIME:  # `True` is an int to isinstance
        message = (
            f"{record_name} is a control message whose {name} is {number!r}; it must be a whole number from {least} on"
        )
        raise ControlRecordError(message, code="ControlPayloadError")
    return number


def _text(tree: dict[str, Any], name: str, record_name: str) -> str:
    text = tree.get(name)
    if not isinstance(text, str) or not text or not _writable(text):
        message = f"{record_name} is a control message whose {name} is {text!r}; it must be text"
        raise ControlRecordError(message, code="ControlPayloadError")
    return text


def _writable(text: str) -> bool:
    """Whether a text can be written as UTF-8. A lone surrogate can't, although JSON can contain it."""
    return not any("\ud800" <= char <= "\udfff" for char in text)
