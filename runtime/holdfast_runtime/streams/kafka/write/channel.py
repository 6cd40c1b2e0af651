"""The channel of records to brokers, through librdkafka: by its own calls if available, else by confluent-kafka's.

Both behave the same: calls that fail raise `ChannelError` with the client's message. An Arrow batch goes into the fast
one by one call into gather.c. `deliver` writes outside of a transaction: when it returns, brokers have everything, else
it raises. Must not wait longer than asked, nor decide what follows.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import byref, c_int32
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from holdfast_runtime.streams.kafka.client.connection import QUIET
from holdfast_runtime.streams.kafka.client.errors import FailedRecord, KafkaBusyError, blamed, trouble
from holdfast_runtime.streams.kafka.client.librdkafka import (
    BinarySource,
    Handle,
    Library,
    RecordColumns,
    destroy_client,
    failed_records,
    library,
    new_client,
)
from holdfast_runtime.streams.kafka.client.settings import Config, KafkaSettings
from holdfast_runtime.streams.kafka.client.topic_limits import kafka_times
from holdfast_runtime.streams.records import HEADERS


class SendResult(NamedTuple):
    """How much of a batch was taken."""

    rows: int
    """The number of rows that were taken."""
    err: int
    """Why the next row was not, as a code of the client; 0 if all were."""


def send(
    library: Library, producer: Handle, topic: Handle, partition: int, records: pa.RecordBatch, first: int = 0
) -> SendResult:
    """Give the rows of a `WRITTEN` batch, which may have headers, from `first` on to a producer, which copies them."""
    err = c_int32(0)
    times = records.column("timestamp")
    headers = records.column(HEADERS.name) if HEADERS.name in records.schema.names else None
    pairs = None if headers is None else headers.values
    addresses = RecordColumns(
        _readable(records.column("key")),
        _readable(records.column("value")),
        times.buffers()[1].address + times.offset * 8 if len(times) else None,
        _NOTHING if headers is None else _lists(headers),
        *((_NOTHING, _NOTHING) if pairs is None else (_readable(pairs.field("key")), _readable(pairs.field("value")))),
    )
    rows = library.loops.send(
        byref(library.functions), producer, topic, partition, byref(addresses), first, len(times), byref(err)
    )
    return SendResult(rows, err.value)


_NOTHING = BinarySource(None, None, None, 0)


def _lists(column: pa.ListArray) -> BinarySource:
    valid, ends, *_ = column.buffers()
    return BinarySource(
        None if ends is None else ends.address,
        None,
        None if valid is None or column.null_count == 0 else valid.address,
        column.offset,
    )


def _readable(column: pa.Array) -> BinarySource:
    valid, ends, content = column.buffers()
    if column.null_count == 0:
        valid = None
    return BinarySource(
        *(None if buffer is None else buffer.address for buffer in (ends, content, valid)), column.offset
    )


_NAP = 0.01
_T = TypeVar("_T")
_QUEUE_FULL = int(KafkaError._QUEUE_FULL)  # noqa: SLF001 - it has no other name
_PURGE_ALL = 0x3
_TELL_FAILURES_ONLY = {"delivery.report.only.error": "true"}


class ChannelError(Exception):
    """The client refused a call."""

    def __init__(self, code: int, text: str, *, again: bool = False) -> None:
        self.code, self.text, self.again = code, text, again
        """`again`: the same call, or the same transaction from its beginning, may succeed."""
        super().__init__(text)


class Channel(Protocol):
    """One client that writes. `seconds` is how long a call may take without progress."""

    def init(self, seconds: float) -> None:
        """Take the transactional id."""

    def begin(self) -> None:
        """Begin a transaction."""

    def commit(self, seconds: float) -> None:
        """Commit the transaction with all records that were given."""

    def give(self, topic: str, partition: int, records: pa.RecordBatch) -> None:
        """Take records, in their order."""

    def hurry(self) -> None:
        """Send at once; return when brokers have all, or a moment later. What follows tells of failures."""

    def flush(self, seconds: float) -> int:
        """Wait until brokers have the given records; return how many are missing, 0 if none. Raises for failed ones."""

    def close(self) -> None:
        """Close, dropping what no broker has."""


def open_channel(settings: KafkaSettings, config: Config, *, fast: bool = True) -> Channel:
    """Return a client with this config, which `settings` made."""
    shared_library = library() if fast else None
    return PlainChannel(settings, config) if shared_library is None else FastChannel(shared_library, settings, config)


class FastChannel:
    """By librdkafka's own calls, without a Python object per record."""

    def __init__(self, library: Library, settings: KafkaSettings, config: Config) -> None:
        self._library = library
        self._client = new_client(library, "producer", settings, {**config, **_TELL_FAILURES_ONLY})
        self._queue: Handle = library.kafka.queue_get_main(self._client)
        self._topics: dict[str, Handle] = {}
        self._open = True

    def init(self, seconds: float) -> None:
        """Take the transactional id."""
        self._checked(self._library.kafka.init_transactions(self._client, int(seconds * 1000)))

    def begin(self) -> None:
        """Begin a transaction."""
        self._checked(self._library.kafka.begin_transaction(self._client))

    def commit(self, seconds: float) -> None:
        """Commit the transaction with all records that were given."""
        failed = list[FailedRecord]()
        # Collect failed records first: the commit would wait for them until somebody reads the failures.
        left = _drained(self._left, seconds, lambda: failed.extend(failed_records(self._library, self._queue)))
        with _for_good(failed):
            wait = _NAP if left else seconds
            self._checked(self._library.kafka.commit_transaction(self._client, int(wait * 1000)))

    def give(self, topic: str, partition: int, records: pa.RecordBatch) -> None:
        """Take records, in their order."""
        column = records.schema.get_field_index("timestamp")
        timed_records = records.set_column(column, records.schema.field(column), kafka_times(records.column(column)))
        first = 0
        while first < timed_records.num_rows:
            rows, err = send(self._library, self._client, self._topic(topic), partition, timed_records, first)
            first += rows
            if err == _QUEUE_FULL:
                self._check_delivered()
                self._library.kafka.flush(self._client, int(_NAP * 1000))
            elif err:
                raise _refusal(_record_at(timed_records, first, topic, partition, err, self._text(err)))

    def hurry(self) -> None:
        """Send at once; return when brokers have all, or a moment later."""
        self._left()

    def flush(self, seconds: float) -> int:
        """Wait until brokers have the given records; return how many are missing, 0 if none."""
        left = _drained(self._left, seconds, self._check_delivered)
        self._check_delivered()
        return left

    def close(self) -> None:
        """Close, dropping what no broker has."""
        if self._open:
            self._open = False
            kafka = self._library.kafka
            kafka.purge(self._client, _PURGE_ALL)
            with contextlib.suppress(ChannelError):
                self._check_delivered()
            for topic in self._topics.values():
                kafka.topic_destroy(topic)
            kafka.queue_destroy(self._queue)
            destroy_client(self._library, self._client)

    def _left(self) -> int:
        """Wait a moment, and return how many records brokers don't have or whose result was not read."""
        self._library.kafka.flush(self._client, int(_NAP * 1000))
        return int(self._library.kafka.outq_len(self._client))

    def _topic(self, name: str) -> Handle:
        if name not in self._topics:
            self._topics[name] = self._library.kafka.topic_new(self._client, name.encode(), None)
        return self._topics[name]

    def _check_delivered(self) -> None:
        _check_none(failed_records(self._library, self._queue))

    def _checked(self, error: Handle | None) -> None:
        if error is None:
            return
        kafka = self._library.kafka
        code = int(kafka.error_code(error))
        text = (kafka.error_string(error) or b"").decode(errors="replace")
        retriable = bool(kafka.error_is_retriable(error) or kafka.error_txn_requires_abort(error))
        kafka.error_destroy(error)
        raise ChannelError(code, text, again=retriable)

    def _text(self, code: int) -> str:
        return str((self._library.kafka.err2str(code) or b"").decode(errors="replace"))


class PlainChannel:
    """By the calls of confluent-kafka."""

    def __init__(self, settings: KafkaSettings, config: Config) -> None:
        self._failed: list[FailedRecord] = []
        producer_config: dict[str, Any] = {**config, "delivery.report.only.error": True, "on_delivery": self._told}
        try:
            self._client = Producer(producer_config, logger=QUIET)
        except KafkaException as error:
            raise settings.invalid(error.args[0].str()) from None

    def init(self, seconds: float) -> None:
        """Take the transactional id."""
        self._call(lambda: self._client.init_transactions(seconds))

    def begin(self) -> None:
        """Begin a transaction."""
        self._call(self._client.begin_transaction)

    def commit(self, seconds: float) -> None:
        """Commit the transaction with all records that were given."""
        left = self._drained(seconds)
        with _for_good(self._failed):
            self._call(lambda: self._client.commit_transaction(_NAP if left else seconds))

    def give(self, topic: str, partition: int, records: pa.RecordBatch) -> None:
        """Take records, in their order."""
        column = records.schema.get_field_index("timestamp")
        timed_records = records.set_column(column, records.schema.field(column), kafka_times(records.column(column)))
        self._give(topic, partition, timed_records)

    def hurry(self) -> None:
        """Send at once; return when brokers have all, or a moment later."""
        self._client.flush(_NAP)

    def flush(self, seconds: float) -> int:
        """Wait until brokers have the given records; return how many are missing, 0 if none."""
        left = self._drained(seconds)
        _check_none(self._failed)
        return left

    def close(self) -> None:
        """Close, dropping what no broker has."""
        self._client.purge()
        self._client.poll(0)

    def _give(self, topic: str, partition: int, records: pa.RecordBatch) -> None:
        for row, (key, value, timestamp, headers) in enumerate(_rows(records)):
            while True:
                try:
                    self._client.produce(topic, value, key, partition, timestamp=timestamp, headers=headers)
                    break
                except BufferError:
                    self._client.poll(_NAP)
                except KafkaException as error:
                    kafka_error = error.args[0]
                    raise _refusal(
                        _record_at(records, row, topic, partition, kafka_error.code(), kafka_error.str())
                    ) from None

    def _drained(self, seconds: float) -> int:
        return self._call(lambda: _drained(lambda: int(self._client.flush(_NAP)), seconds))

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            key, value = message.key(), message.value()
            topic, partition = message.topic() or "", message.partition() or 0
            self._failed.append(
                FailedRecord(error.code(), topic, partition, _bytes(key), len(value or b""), error.str())
            )

    @staticmethod
    def _call(act: Callable[[], _T]) -> _T:
        try:
            return act()
        except KafkaException as error:
            kafka_error: KafkaError = error.args[0]
            retriable = kafka_error.retriable() or kafka_error.txn_requires_abort()
            raise ChannelError(kafka_error.code(), kafka_error.str(), again=retriable) from None


def _drained(left: Callable[[], int], seconds: float, each: Callable[[], object] = lambda: None) -> int:
    """Wait until nothing is left, or nothing moves for `seconds`; return what is left. Calls `each` in every round."""
    now = least = left()
    deadline = time.monotonic() + seconds
    while now and time.monotonic() < deadline:
        each()
        now = left()
        if now < least:
            # A slow connection is not a broken one: what is given up would be sent again, as slowly.
            least, deadline = now, time.monotonic() + seconds
    return now


@contextlib.contextmanager
def _for_good(failed: Sequence[FailedRecord]) -> Iterator[None]:
    """Turn a failed commit into a final refusal if one of its records would fail again."""
    try:
        yield
    except ChannelError as error:
        cause = blamed(failed)
        if error.again and cause is not None:
            raise _refusal(cause) from None
        raise


def _check_none(failed: Sequence[FailedRecord]) -> None:
    if failed:
        raise _refusal(blamed(failed) or failed[0])


def _refusal(record: FailedRecord) -> ChannelError:
    return ChannelError(record.code, str(record))


def _record_at(records: pa.RecordBatch, row: int, topic: str, partition: int, code: int, text: str) -> FailedRecord:
    """Return the record that the client refuses."""
    key, value = (records.column(name)[row].as_py() for name in ("key", "value"))
    return FailedRecord(code, topic, partition, key, len(value or b""), text)


_Headers = list[tuple[str, str | bytes | None]] | None


def _rows(records: pa.RecordBatch) -> Iterator[tuple[bytes | None, bytes | None, int, _Headers]]:
    columns = [records.column(name).to_pylist() for name in ("key", "value", "timestamp")]
    headers: list[_Headers] = [None] * records.num_rows
    if HEADERS.name in records.schema.names:
        of_rows = records.column(HEADERS.name).to_pylist()
        headers = [pairs and [(pair["key"] or "", pair["value"]) for pair in pairs] for pairs in of_rows]
    return zip(*columns, headers, strict=True)


def _bytes(key: str | bytes | None) -> bytes | None:
    return key.encode() if isinstance(key, str) else key


PartitionRecords = tuple[str, int, pa.RecordBatch]
"""Topic, partition, and records in their order."""


def deliver(
    channel: Channel, settings: KafkaSettings, what: str, outputs: Iterable[PartitionRecords], seconds: float
) -> None:
    """Write everything before returning, or raise. `what` names it in errors."""
    try:
        for topic, partition, records in outputs:
            channel.give(topic, partition, records)
        left = channel.flush(seconds)
    except ChannelError as error:
        text = settings.without_values(error.text)
        raise trouble(error.code, f"{what} can't be written", text) from None
    if left:
        message = f"{what}: not all records were taken within {seconds:g} s"
        raise KafkaBusyError(message)
