"""Why: a client of librdkafka, made by its own calls: silent, and telling its troubles when it is asked.

Must not outlive a fork: the threads of a client stay with the parent. Whoever makes one sees to that.
"""

import ctypes
from typing import Literal

from holdfast_runtime.streams.kafka.client.librdkafka import Handle, Library, Message
from holdfast_runtime.streams.kafka.client.refused import FailedRecord
from holdfast_runtime.streams.kafka.client.settings import Config, KafkaSettings

_KINDS = {"producer": 0, "consumer": 1}
_EVENT_DELIVERY, _EVENT_ERROR = 0x1, 0x8
_TEXT = 512
_LEAVE_NO_GROUP = 0x8


def new_client(
    library: Library, kind: Literal["producer", "consumer"], settings: KafkaSettings, config: Config
) -> Handle:
    """A client; `config` is one of those that `settings` makes."""
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
    """What the client has said on its main queue since it was last asked, as codes and texts."""
    kafka, found = library.kafka, []
    while (event := kafka.queue_poll(queue, 0)) is not None:
        if kafka.event_type(event) == _EVENT_ERROR:
            text = kafka.event_error_string(event) or b""
            found.append((kafka.event_error(event), text.decode(errors="replace")))
        kafka.event_destroy(event)
    return found


def failed_records(library: Library, queue: Handle) -> list[FailedRecord]:
    """The records that have failed since it was last asked."""
    kafka, found = library.kafka, list[FailedRecord]()
    while (event := kafka.queue_poll(queue, 0)) is not None:
        if kafka.event_type(event) == _EVENT_DELIVERY:
            while message := kafka.event_message_next(event):
                if message.contents.err:
                    found.append(_failed(library, message))
        kafka.event_destroy(event)
    return found


def _failed(library: Library, message: "ctypes._Pointer[Message]") -> FailedRecord:
    kafka, one = library.kafka, message.contents
    return FailedRecord(
        one.err,
        (kafka.topic_name(one.topic) or b"").decode(errors="replace"),
        one.partition,
        None if one.key is None else ctypes.string_at(one.key, one.key_size),
        one.value_size,
        (kafka.err2str(one.err) or b"").decode(errors="replace"),
        # Never read: where it tells of a single record, the client has freed it by now.
        kafka.message_produce_errstr(message) or 0,
    )


def destroy_client(library: Library, client: Handle) -> None:
    """End a client; all its queues, topics and messages must be gone."""
    library.kafka.destroy_flags(client, _LEAVE_NO_GROUP)
