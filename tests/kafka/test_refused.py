"""Records that a broker does not take: the one to blame is named, the run ends, and what could be written is."""

import time
import uuid
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.cimpl import NewTopic

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.kafka.client.errors import FailedRecord, blamed
from holdfast_runtime.streams.kafka.system import KafkaCluster
from holdfast_runtime.streams.kafka.write.producer import TransactionalProducer
from holdfast_runtime.streams.markers import AttemptId, AttemptSlot
from holdfast_runtime.streams.records import Marker, written_batch
from tests.error_codes import has_code
from tests.kafka.broker import Broker
from tests.kafka.reached import ANSWER_TIMEOUT
from tests.kafka.sent import seen, settings_of

HOUR = 3_600_000
BAD = FailedRecord(KafkaError.INVALID_RECORD, "out", 0, b"k", 5, "no")

BESIDE, PURGED = KafkaError._INVALID_DIFFERENT_RECORD, KafkaError._PURGE_QUEUE  # noqa: SLF001 - no other names


@pytest.mark.parametrize(
    ("failed", "at_fault"),
    [
        ([], None),
        ([replace(BAD, code=PURGED)], None),
        ([replace(BAD, code=BESIDE), BAD], 1),
        ([replace(BAD, code=BESIDE)], 0),
        ([BAD, replace(BAD, remark=5), BAD], 1),
        ([replace(BAD, code=KafkaError.MSG_SIZE_TOO_LARGE, value_bytes=size) for size in (1, 2, 9, 3)], 2),
    ],
)  # fmt: skip
def test_of_records_refused_together_the_one_at_fault_is_blamed(
    failed: list[FailedRecord], at_fault: int | None
) -> None:
    assert blamed(failed) == (None if at_fault is None else failed[at_fault])


def test_an_unknown_fault_among_several_records_is_said() -> None:
    assert (
        str(blamed([BAD, BAD])) == "the record with key b'k' for out/0 (6 bytes), or another of the 2 sent with it: no"
    )


def made(broker: Broker, config: Mapping[str, str] | None = None) -> str:
    name = f"out-{uuid.uuid4().hex[:8]}"
    with broker.admin() as admin:
        admin.create_topics([NewTopic(name, 1, 1, config=dict(config or {}))])[name].result(ANSWER_TIMEOUT)
    return name


@pytest.mark.kafka
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    ("config", "records", "message"),
    [
        ({"max.message.bytes": "5000"}, ("fine", "large"), r"with key b'large' .*\(6005 bytes.*size too large"),
        ({"cleanup.policy": "compact"}, ("fine", None), r"without a key for .*\(4 bytes"),
        ({}, ("fine", "huge"), r"with key b'huge' .*\(1100004 bytes.*size too large"),
    ],
)  # fmt: skip
def test_a_record_refused_for_good_is_named_and_not_retried(
    broker: Broker, config: Mapping[str, str], records: tuple[str | None, ...], message: str, *, fast: bool
) -> None:
    topic, sizes = made(broker, config), {"large": 6_000, "huge": 1_100_000}
    batch = written_batch(
        [None if key is None else key.encode() for key in records],
        [b"x" * sizes.get(key or "", 4) for key in records],
        int(time.time() * 1000),
    )
    producer = TransactionalProducer(settings_of(broker.bootstrap), f"t-{topic}", fast=fast)
    producer.open()
    try:
        with pytest.raises(UserActionError, match=message, check=has_code("RecordRefusedError")):
            _written(producer, topic, batch)
    finally:
        producer.close()


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("fast", "message"),
    [
        (True, r"with key b'bad' for .*/0 \(7 bytes\): .*INVALID_TIMESTAMP"),
        (False, r"with key b'fine' for .*/0 \(8 bytes\), or another of the 3 sent with it: .*INVALID_TIMESTAMP"),
    ],
)
def test_a_refused_time_is_blamed_on_its_record_where_known(broker: Broker, message: str, *, fast: bool) -> None:
    topic, now = made(broker), int(time.time() * 1000)
    producer = TransactionalProducer(settings_of(broker.bootstrap), f"t-{topic}", fast=fast)
    producer.open()
    try:
        with pytest.raises(UserActionError, match=message, check=has_code("RecordRefusedError")):
            _written(
                producer, topic, written_batch([b"fine", b"bad", b"too"], [b"four"] * 3, [now, now + 2 * HOUR, now])
            )
    finally:
        producer.close()


def _written(producer: TransactionalProducer, topic: str, batch: pa.RecordBatch) -> None:
    producer.begin()
    producer.put(topic, 0, batch)
    producer.commit()


@pytest.mark.kafka
@pytest.mark.parametrize("exactly_once", [True, False])
def test_bad_event_times_and_a_narrow_topic_stop_nobody(broker: Broker, *, exactly_once: bool) -> None:
    app = f"app-{uuid.uuid4().hex[:8]}"
    topic, who = made(broker, {"max.message.bytes": "5000"}), AttemptId(app, "1", 1)
    first = KafkaCluster(settings_of(broker.bootstrap), app, exactly_once)
    first.begin(who, 1, "somebody")
    kafka = KafkaCluster(settings_of(broker.bootstrap), app, exactly_once, limits=first.limits_of([topic]))
    times = [int(time.time() * 1000) + 2 * HOUR, -631_152_000_000, 0, 4_070_908_800_000, *[1_000] * 96]
    records = written_batch([b"k"] * 100, [b"%100d" % at for at in range(100)], times)
    try:
        kafka.write(
            AttemptSlot(who, 0),
            {StreamPartition(topic, 0): [(records, Marker(app, "a", 1, 1, "life", "digest"))]},
            lambda _: None,
            lambda: None,
        )
    finally:
        kafka.close()
        first.close()
    assert len(seen(broker, topic)) == 100
