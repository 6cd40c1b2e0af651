"""The fast and the plain fetcher give the same, and it is what was written, however odd the records are."""

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from holdfast_runtime.streams.kafka.read.fetcher import RangeFetcher
from holdfast_runtime.streams.records import FETCHED
from tests.kafka.broker import Broker
from tests.kafka.known import READERS, Known, create, reader, settings_of
from tests.kafka.reached import ANSWER_TIMEOUT
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka

# ruff: noqa: S311 - nothing that is random here is a secret

Readers = dict[str, RangeFetcher]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ODD: list[dict[str, Any]] = [
    {"key": b"k", "value": b"v"},
    {"key": None, "value": b"no key"},
    {"key": b"no value", "value": None},
    {"key": None, "value": None},
    {"key": b"", "value": b""},
    {"key": b"", "value": None},
    {"key": None, "value": b""},
    {"key": b"timed", "value": b"v", "timestamp": 1_000},
    {"key": b"\x00\xff\xfe", "value": bytes(range(256))},
    {"key": b"h", "value": b"v", "headers": [("one", b"1")]},
    {"key": b"h", "value": b"v", "headers": [("twice", b"1"), ("twice", b"2"), ("null", None), ("empty", b"")]},
    {"key": b"h", "value": None, "headers": [("", b"no name"), ("ünïcode", "ö".encode())]},
    {"key": b"plain again", "value": b"v"},
]


@pytest.fixture(scope="module")
def readers(broker: Broker) -> Iterator[Readers]:
    made = {kind: reader(kind, settings_of(broker.bootstrap)) for kind in READERS}
    yield made
    for fetcher in made.values():
        fetcher.close()


@pytest.fixture(scope="module")
def odd(broker: Broker) -> Known:
    """Everything in one partition of several segments: odd and large records, codecs, transactions, their marks."""
    create(broker, "odd", segment_bytes=str(1 << 20))
    known, chance = Known(broker, "odd"), random.Random(7)
    for codec in CODECS:
        known.write(ODD, compression_type=codec)
        known.write(
            [{"value": chance.randbytes(100_000) * 2, "key": b"large"} for _ in range(3)], compression_type=codec
        )
        known.write([{"value": b"%d" % i, "key": b"small"} for i in range(200)], compression_type=codec)
    interleave(known, [True, False, True, True, False, False, True])
    return known


def interleave(known: Known, ends: list[bool]) -> None:
    """Transactions of two producers side by side, committed or aborted."""
    pair = [known.producer(transactional_id=f"{known.topic}-{one}", compression_type=one) for one in ("none", "lz4")]
    for producer in pair:
        producer.init_transactions(ANSWER_TIMEOUT)
    for turn, commit in enumerate(ends):
        opened: list[dict[int, Any]] = [{}, {}]
        for producer in pair:
            producer.begin_transaction()
        for _ in range(3):
            for index, producer in enumerate(pair):
                opened[index] |= known.sent(producer, ODD[: 3 + turn])
        for index, producer in enumerate(pair):
            if commit is (index == 0):
                producer.commit_transaction(ANSWER_TIMEOUT)
                known.rows |= opened[index]
            else:
                producer.abort_transaction(ANSWER_TIMEOUT)


def same(readers: Readers, known: Known, start: int, end: int) -> pa.RecordBatch:
    """What both give for a range, if it is what was written."""
    fast, plain = (readers[kind].fetch(known.topic, known.partition, start, end) for kind in READERS)
    fast.validate(full=True)
    assert fast.equals(plain), (start, end)
    assert fast.to_pylist() == known.expected(start, end), (start, end)
    return fast


def test_everything_at_once_is_as_it_was_written(readers: Readers, odd: Known) -> None:
    end = odd.end()
    assert end > odd.written  # there are control records among them
    same(readers, odd, 0, end)


def test_any_range_is_as_it_was_written(readers: Readers, odd: Known) -> None:
    chance, end = random.Random(11), odd.end()
    for _ in range(60):
        start = chance.randrange(end)
        same(readers, odd, start, min(end, start + chance.choice((1, 2, 7, 50, 400))))


def test_ranges_one_after_the_other_miss_nothing(readers: Readers, odd: Known) -> None:
    chance, at, end = random.Random(13), 0, odd.end()
    while at < end:
        to = min(end, at + chance.choice((0, 1, 1, 2, 30, 120)))
        same(readers, odd, at, to)
        at = to


def test_each_record_alone_is_there(readers: Readers, odd: Known) -> None:
    for offset in range(len(ODD)):
        assert same(readers, odd, offset, offset + 1).num_rows == 1


def test_a_range_of_aborted_and_control_records_alone_is_empty(readers: Readers, odd: Known) -> None:
    end = odd.end()
    holes = [offset for offset in range(end) if offset not in odd.rows]
    assert holes[-1] == end - 1  # the partition ends in them
    for hole in holes:
        assert same(readers, odd, hole, hole + 1).num_rows == 0
    last = max(odd.rows)
    assert same(readers, odd, last + 1, end).num_rows == 0
    assert same(readers, odd, last, end).num_rows == 1


def test_an_empty_range_has_the_columns_and_asks_nobody(readers: Readers) -> None:
    for fetcher in readers.values():
        records = fetcher.fetch("no-such-topic", 7, 5, 5)
        assert records.num_rows == 0
        assert records.schema == FETCHED


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 4)])
def test_what_is_no_range_is_refused(readers: Readers, kind: str, start: int, end: int) -> None:
    with pytest.raises(ValueError, match="is no range"):
        readers[kind].fetch("odd", 0, start, end)


def test_headers_are_a_column_only_where_a_record_has_some(readers: Readers, odd: Known) -> None:
    assert same(readers, odd, 0, 5).schema == FETCHED
    records = same(readers, odd, 0, len(ODD))
    assert records.schema.names == [*FETCHED.names, "headers"]
    assert records.column("headers")[10].as_py()[2] == {"key": "null", "value": None}
    assert not records.column("headers")[0].is_valid


def test_times_are_the_producers_or_the_brokers(broker: Broker, readers: Readers, odd: Known) -> None:
    assert same(readers, odd, 7, 8).column("timestamp").to_pylist() == [1_000]
    create(broker, "append-time", message_timestamp_type="LogAppendTime")
    known = Known(broker, "append-time")
    known.write(ODD)
    assert same(readers, known, 0, len(ODD)).column("timestamp")[7].as_py() > 1_000_000


def test_an_open_transaction_hides_what_follows_it_until_it_ends(broker: Broker, readers: Readers) -> None:
    create(broker, "open")
    known = Known(broker, "open")
    known.write(ODD[:2])
    producer = known.producer(transactional_id="opener")
    producer.init_transactions(ANSWER_TIMEOUT)
    producer.begin_transaction()
    opened = known.sent(producer, ODD[:3])
    known.write(ODD[:4])
    assert known.end() == 2
    same(readers, known, 0, 2)
    producer.commit_transaction(ANSWER_TIMEOUT)
    known.rows |= opened
    wait_until(lambda: known.end() == 10, ANSWER_TIMEOUT, "the transaction ends")
    assert same(readers, known, 2, 10).num_rows == 7


def test_a_compacted_topic_has_holes() -> None:
    with Broker(settings={"log.cleaner.backoff.ms": "50"}) as broker:
        create(broker, "compacted", cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
        known, times = Known(broker, "compacted"), iter(range(1_000, 10**9, 1_000))
        ours = {kind: reader(kind, settings_of(broker.bootstrap)) for kind in READERS}

        def cleaned() -> bool:
            # Segments are closed by the times of what follows, and only closed ones are cleaned.
            known.write([{"key": b"%d" % (i % 3), "value": b"%d" % i, "timestamp": next(times)} for i in range(20)])
            count: int = ours["plain"].fetch("compacted", 0, 0, known.end()).num_rows
            return count < known.written - 20

        wait_until(cleaned, ANSWER_TIMEOUT, "the broker has cleaned a segment")
        end, chance = known.end(), random.Random(17)
        for start in (0, *(chance.randrange(end) for _ in range(30))):
            # It may clean on between the two; what one has and the other has not can only be gone since.
            before, fast, after = (
                ours[kind].fetch("compacted", 0, start, end).to_pylist() for kind in ("plain", "fast", "plain")
            )
            assert all(row in before for row in fast)
            assert all(row in fast for row in after)
            assert all(row in known.expected(start, end) for row in before)
        assert len(ours["fast"].fetch("compacted", 0, 0, end)) >= 3
        for fetcher in ours.values():
            fetcher.close()
