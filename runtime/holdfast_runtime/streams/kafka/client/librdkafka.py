"""librdkafka by its own calls: bindings of it and of the loops of gather.c, and clients made with them.

The confluent-kafka package makes a Python object of each record, which is too slow here. The library is the one that
package ships and has loaded; the loops are ours. If either is missing, `library()` is None and the plain fetcher and
channel are used. Clients don't log, and report problems when asked. They must not outlive a fork, because their threads
stay with the parent: whoever makes one ensures that. Must not know ranges, batches or tasks.
"""

import ctypes
import functools
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from pathlib import Path
from typing import Any, Literal

import confluent_kafka

from holdfast_runtime.streams.kafka.client.errors import FailedRecord
from holdfast_runtime.streams.kafka.client.settings import Config, KafkaSettings

LOOPS_VERSION = 3
"""The version of the structs and functions of gather.c: a library of another build is not used."""
LOOPS = Path(__file__).with_name("gather.so")

Handle = int
"""The address of a librdkafka object."""


class Message(Structure):
    """The public part of a message; an error message has its text as value."""

    _fields_ = (
        ("err", c_int32),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("value", c_void_p),
        ("value_size", c_size_t),
        ("key", c_void_p),
        ("key_size", c_size_t),
        ("offset", c_int64),
        ("own", c_void_p),
    )


class TopicPartition(Structure):
    """One entry of a list of partitions."""

    _fields_ = (
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("err", c_int32),
        ("own", c_void_p),
    )


class Functions(Structure):
    """The addresses of the functions that the loops call."""

    _fields_ = (
        ("timestamp", c_void_p),
        ("destroy", c_void_p),
        ("headers", c_void_p),
        ("header_count", c_void_p),
        ("header", c_void_p),
        ("produce", c_void_p),
        ("headers_new", c_void_p),
        ("header_add", c_void_p),
        ("headers_destroy", c_void_p),
    )


class Sizes(Structure):
    """The space that messages need as columns."""

    _fields_ = tuple(
        (name, c_int64)
        for name in (
            "records",
            "key_bytes",
            "null_keys",
            "value_bytes",
            "null_values",
            "with_headers",
            "headers",
            "name_bytes",
            "content_bytes",
            "null_contents",
        )
    )


class Binary(Structure):
    """Output buffers of a binary column."""

    _fields_ = (("ends", c_void_p), ("bytes", c_void_p), ("valid", c_void_p))


class MessageColumns(Structure):
    """Output buffers for messages."""

    _fields_ = (
        ("offsets", c_void_p),
        ("timestamps", c_void_p),
        ("keys", Binary),
        ("values", Binary),
        ("header_ends", c_void_p),
        ("with_headers", c_void_p),
        ("names", Binary),
        ("contents", Binary),
    )


class BinarySource(Structure):
    """Input buffers of a binary column."""

    _fields_ = (("ends", c_void_p), ("bytes", c_void_p), ("valid", c_void_p), ("first", c_int64))


class RecordColumns(Structure):
    """Input buffers of records to write."""

    _fields_ = (
        ("keys", BinarySource),
        ("values", BinarySource),
        ("timestamps", c_void_p),
        ("headers", BinarySource),
        ("names", BinarySource),
        ("contents", BinarySource),
    )


_P, _S = c_void_p, c_char_p
_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "conf_new": (_P, ()),
    "conf_set": (c_int, (_P, _S, _S, _S, c_size_t)),
    "conf_destroy": (None, (_P,)),
    "conf_set_log_cb": (None, (_P, _P)),
    "conf_set_events": (None, (_P, c_int)),
    "new": (_P, (c_int, _P, _S, c_size_t)),
    "destroy_flags": (None, (_P, c_int)),
    "last_error": (c_int, ()),
    "poll": (c_int, (_P, c_int)),
    "flush": (c_int, (_P, c_int)),
    "outq_len": (c_int, (_P,)),
    "topic_new": (_P, (_P, _S, _P)),
    "topic_destroy": (None, (_P,)),
    "queue_new": (_P, (_P,)),
    "queue_get_main": (_P, (_P,)),
    "queue_destroy": (None, (_P,)),
    "queue_poll": (_P, (_P, c_int)),
    "init_transactions": (_P, (_P, c_int)),
    "begin_transaction": (_P, (_P,)),
    "commit_transaction": (_P, (_P, c_int)),
    "error_code": (c_int, (_P,)),
    "error_string": (_S, (_P,)),
    "error_is_retriable": (c_int, (_P,)),
    "error_txn_requires_abort": (c_int, (_P,)),
    "error_destroy": (None, (_P,)),
    "err2str": (_S, (c_int,)),
    "purge": (c_int, (_P, c_int)),
    "event_message_next": (POINTER(Message), (_P,)),
    "message_produce_errstr": (_P, (POINTER(Message),)),
    "topic_name": (_S, (_P,)),
    "queue_io_event_enable": (None, (_P, c_int, _S, c_size_t)),
    "event_type": (c_int, (_P,)),
    "event_error": (c_int, (_P,)),
    "event_error_string": (_S, (_P,)),
    "event_destroy": (None, (_P,)),
    "consume_start_queue": (c_int, (_P, c_int32, c_int64, _P)),
    "consume_stop": (c_int, (_P, c_int32)),
    "consume_batch_queue": (c_ssize_t, (_P, c_int, _P, c_size_t)),
    "query_watermark_offsets": (c_int, (_P, _S, c_int32, POINTER(c_int64), POINTER(c_int64), c_int)),
    "position": (c_int, (_P, _P)),
    "topic_partition_list_new": (_P, (c_int,)),
    "topic_partition_list_add": (POINTER(TopicPartition), (_P, _S, c_int32)),
    "topic_partition_list_destroy": (None, (_P,)),
}
_LOOP_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "loops_version": (c_int32, ()),
    "measure": (None, (POINTER(Functions), _P, c_int64, c_int64, POINTER(Sizes))),
    "gather": (None, (POINTER(Functions), _P, c_int64, POINTER(MessageColumns))),
    "without_ends": (c_int64, (POINTER(Functions), _P, c_int64, c_int32)),
    "destroy": (None, (POINTER(Functions), _P, c_int64)),
    "send": (
        c_int64,
        (POINTER(Functions), _P, _P, c_int32, POINTER(RecordColumns), c_int64, c_int64, POINTER(c_int32)),
    ),
}
_CALLED_BY_LOOPS = {
    "timestamp": "message_timestamp",
    "destroy": "message_destroy",
    "headers": "message_headers",
    "header_count": "header_cnt",
    "header": "header_get_all",
    "produce": "producev",
    "headers_new": "headers_new",
    "header_add": "header_add",
    "headers_destroy": "headers_destroy",
}


class Library:
    """The functions of librdkafka without `rd_kafka_`, and ours without `holdfast_`; all release the GIL."""

    def __init__(self, kafka: ctypes.CDLL, loops: ctypes.CDLL) -> None:
        self.kafka = _Calls(kafka, "rd_kafka_", _PROTOTYPES)
        self.loops = _Calls(loops, "holdfast_", _LOOP_PROTOTYPES)
        addresses = {
            field: ctypes.cast(getattr(kafka, f"rd_kafka_{name}"), c_void_p) for field, name in _CALLED_BY_LOOPS.items()
        }
        self.functions = Functions(**addresses)


class _Calls:
    """Functions of a library with their types, as attributes."""

    def __init__(self, library: ctypes.CDLL, prefix: str, prototypes: dict[str, tuple[Any, tuple[Any, ...]]]) -> None:
        for name, (result, arguments) in prototypes.items():
            function = getattr(library, prefix + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        """Called only for missing functions, but lets mypy accept all of them."""
        raise AttributeError(name)


@functools.cache
def library() -> Library | None:
    """Return both libraries, opened once; None if one is missing, or of another version than this release knows."""
    shipped = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    paths = sorted(shipped.glob("librdkafka-*.so*"))
    if len(paths) != 1:
        return None  # built from source against the system's librdkafka, or not for Linux
    try:
        loops = ctypes.CDLL(str(LOOPS))
        if loops.holdfast_loops_version() != LOOPS_VERSION:
            return None
        return Library(ctypes.CDLL(str(paths[0])), loops)
    except (OSError, AttributeError):
        return None  # no compiler when this was installed, or another processor's library; the plain path needs neither


_KINDS = {"producer": 0, "consumer": 1}
_EVENT_DELIVERY, _EVENT_ERROR = 0x1, 0x8
_TEXT = 512
_LEAVE_NO_GROUP = 0x8


def new_client(
    library: Library, kind: Literal["producer", "consumer"], settings: KafkaSettings, config: Config
) -> Handle:
    """Return a new client; `config` is one of those that `settings` makes."""
    kafka, text = library.kafka, ctypes.create_string_buffer(_TEXT)
    conf = kafka.conf_new()
    for key, value in config.items():
        if kafka.conf_set(conf, key.encode(), str(value).encode(), text, _TEXT):
            kafka.conf_destroy(conf)
            raise settings.invalid(text.value.decode(errors="replace"))
    kafka.conf_set_log_cb(conf, None)  # it would print to stderr
    kafka.conf_set_events(conf, _EVENT_ERROR | _EVENT_DELIVERY)
    client: Handle | None = kafka.new(_KINDS[kind], conf, text, _TEXT)
    if client is None:
        kafka.conf_destroy(conf)
        raise settings.invalid(text.value.decode(errors="replace"))
    return client


def troubles(library: Library, queue: Handle) -> list[tuple[int, str]]:
    """Return the client's messages since the last call, as codes and texts from its main queue."""
    kafka, messages = library.kafka, []
    while (event := kafka.queue_poll(queue, 0)) is not None:
        if kafka.event_type(event) == _EVENT_ERROR:
            text = kafka.event_error_string(event) or b""
            messages.append((kafka.event_error(event), text.decode(errors="replace")))
        kafka.event_destroy(event)
    return messages


def failed_records(library: Library, queue: Handle) -> list[FailedRecord]:
    """Return the records that have failed since the last call."""
    kafka, records = library.kafka, list[FailedRecord]()
    while (event := kafka.queue_poll(queue, 0)) is not None:
        if kafka.event_type(event) == _EVENT_DELIVERY:
            while message := kafka.event_message_next(event):
                if message.contents.err:
                    records.append(_failed(library, message))
        kafka.event_destroy(event)
    return records


def _failed(library: Library, message: "ctypes._Pointer[Message]") -> FailedRecord:
    kafka, contents = library.kafka, message.contents
    return FailedRecord(
        contents.err,
        (kafka.topic_name(contents.topic) or b"").decode(errors="replace"),
        contents.partition,
        None if contents.key is None else ctypes.string_at(contents.key, contents.key_size),
        contents.value_size,
        (kafka.err2str(contents.err) or b"").decode(errors="replace"),
        # Never dereferenced: if it concerns a single record, the client has freed it by now.
        kafka.message_produce_errstr(message) or 0,
    )


def destroy_client(library: Library, client: Handle) -> None:
    """Destroy a client; all its queues, topics and messages must be gone."""
    library.kafka.destroy_flags(client, _LEAVE_NO_GROUP)
