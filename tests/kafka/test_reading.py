"""When a range is complete and when hope ends, on a clock of our own. No broker."""

from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from holdfast.errors import HoldfastError, UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.kafka.client.connection import ConnectionState
from holdfast_runtime.streams.kafka.client.errors import END_OF_PARTITION, KafkaBusyError, trouble
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.read.range_read import FetchPatience, RangeRead
from holdfast_runtime.streams.records import (
    OffsetBounds,
    OffsetNotWrittenError,
    OffsetRange,
    StreamMissingError,
    with_offsets,
    written_batch,
)
from tests.error_codes import has_code

# ruff: noqa: SLF001 - codes that librdkafka makes itself have no other names

SETTINGS = KafkaSettings("events", "a:1", {"sasl.password": "hunter2"})
HERE = OffsetBounds(0, 100)
REFUSED = int(KafkaError._AUTHENTICATION)


@dataclass
class World:
    """Time and a broker, as far as a reading sees them."""

    now: float = 0.0
    bounds: OffsetBounds | HoldfastError = HERE
    looks: list[float] = field(default_factory=list)
    connection: ConnectionState = field(default_factory=lambda: ConnectionState(SETTINGS))

    def reading(self, start: int, end: int) -> RangeRead:
        offset_range = OffsetRange(StreamPartition("clicks", 0), start, end)
        return RangeRead(SETTINGS, offset_range, FetchPatience(30, 5), self.connection, self.look, lambda: self.now)

    def look(self) -> OffsetBounds:
        self.looks.append(self.now)
        if isinstance(self.bounds, HoldfastError):
            raise self.bounds
        return self.bounds


def rows(first: int, count: int) -> pa.RecordBatch:
    return with_offsets(written_batch([None] * count, [b"v"] * count, 0), first)


def test_it_is_complete_at_the_last_offset_or_past_it() -> None:
    whole = World().reading(0, 10)
    whole.add(rows(0, 9))
    assert whole.next == 9
    whole.add(rows(9, 1))
    assert whole.complete
    holed = World().reading(0, 10)
    holed.add(rows(0, 3))
    holed.reached(12)
    assert (holed.complete, holed.next) == (True, 10)
    assert holed.records().num_rows == 3


def test_the_partitions_end_completes_it_only_at_its_end() -> None:
    reading = World().reading(0, 10)
    reading.told(END_OF_PARTITION, "", 9)
    assert reading.next == 9
    reading.told(END_OF_PARTITION, "", 10)
    assert reading.complete


def test_silence_ends_hope_after_its_time_since_the_last_progress() -> None:
    world = World()
    reading = world.reading(0, 10)
    world.now = 29
    reading.check()
    reading.add(rows(0, 5))
    world.now = 58
    reading.check()
    world.now = 59
    with pytest.raises(KafkaBusyError, match="nothing about clicks/0 from offset 5 on came from a:1 in 30 s"):
        reading.check()


def test_silence_names_what_the_client_said_without_values() -> None:
    world = World()
    reading = world.reading(0, 10)
    world.connection.heard(int(KafkaError._TRANSPORT), "refused hunter2")
    world.connection.heard(int(KafkaError._ALL_BROKERS_DOWN), "2/2 brokers are down")
    world.now = 30
    with pytest.raises(KafkaBusyError, match=r"last said: refused \*\*\*\."):
        reading.check()


def test_an_early_end_is_believed_only_when_it_stays() -> None:
    world = World(bounds=OffsetBounds(0, 5))
    reading = world.reading(0, 10)
    reading.add(rows(0, 5))
    reading.told(END_OF_PARTITION, "", 5)
    for now in (0.0, 2.0, 4.9):
        world.now = now
        reading.check()
    world.bounds = OffsetBounds(0, 10)
    world.now = 5.5
    reading.check()
    world.bounds = OffsetBounds(0, 5)
    for now in (6.0, 10.9):
        world.now = now
        reading.check()
    world.now = 11.2
    with pytest.raises(OffsetNotWrittenError, match="up to offset 10 are wanted, but it ends at 5"):
        reading.check()


def test_what_aged_out_is_seen_at_once_and_counted() -> None:
    world = World(bounds=OffsetBounds(50, 100))
    reading = world.reading(0, 80)
    reading.add(rows(0, 20))
    reading.told(int(KafkaError._AUTO_OFFSET_RESET), "", 20)
    assert reading.restart
    with pytest.raises(
        UserActionError,
        match="offset 20 is wanted, but the oldest record kept is 50: 30 of the",
        check=has_code("OffsetAgedOutError"),
    ):
        reading.check()


def test_a_missing_topic_is_believed_only_when_it_stays() -> None:
    world = World(bounds=trouble(int(KafkaError._UNKNOWN_PARTITION), "clicks/0 can't be read"))
    reading = world.reading(0, 10)
    for now in (3.0, 7.9):
        world.now = now
        reading.check()
    world.now = 8.2
    with pytest.raises(StreamMissingError):
        reading.check()


def test_a_client_that_knows_nothing_of_a_partition_is_doubted() -> None:
    world = World()
    reading = world.reading(0, 10)
    reading.told(int(KafkaError._UNKNOWN_PARTITION), "", 0)
    assert reading.restart
    reading.check()
    assert world.looks == [0.0]


def test_nobody_is_asked_without_doubt_or_too_often() -> None:
    world = World(bounds=trouble(int(KafkaError._TRANSPORT), "x"))
    reading = world.reading(0, 10)
    for now in (0.0, 0.5, 0.9):
        world.now = now
        reading.check()
    assert world.looks == []
    for now in (1.0, 1.1, 1.2, 1.3):
        world.now = now
        reading.check()
    assert world.looks == [1.0, 1.3]


def test_a_login_refused_from_the_start_is_not_waited_for() -> None:
    world = World()
    reading = world.reading(0, 10)
    world.connection.heard(REFUSED, "bad hunter2")
    with pytest.raises(
        UserActionError,
        match=r"refused the login: bad \*\*\*\. Correct sasl.password",
        check=has_code("KafkaLoginError"),
    ):
        reading.check()


def test_a_login_refused_later_is_waited_for() -> None:
    world = World()
    reading = world.reading(0, 10)
    reading.add(rows(0, 5))
    world.connection.heard(REFUSED, "coming up")
    reading.check()
    world.now = 30
    with pytest.raises(UserActionError, check=has_code("KafkaLoginError")):
        reading.check()


def test_what_passes_is_waited_for_and_other_trouble_is_raised() -> None:
    reading = World().reading(0, 10)
    reading.told(int(KafkaError.NOT_LEADER_FOR_PARTITION), "moved", 3)
    reading.check()
    with pytest.raises(
        UserActionError,
        match=r"clicks/0 \[0, 10\) can't be read from offset 0 on: crc of \*\*\*",
        check=has_code("RecordsDamagedError"),
    ):
        reading.told(int(KafkaError._BAD_MSG), "crc of hunter2", 3)
