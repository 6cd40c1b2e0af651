"""What slots write to Kafka is there once, whatever dies, moves or comes back from the dead."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pyarrow as pa
import pytest
from confluent_kafka.cimpl import NewTopic

from holdfast.errors import HoldfastError, RetrySoonError, UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.state.errors import CheckpointUnavailableError
from holdfast_runtime.streams.kafka.admin.topics import TopicUse
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError
from holdfast_runtime.streams.kafka.system import KafkaCluster
from holdfast_runtime.streams.kafka.write import fencing
from holdfast_runtime.streams.kafka.write.marker_notes import slot_note, slot_partition
from holdfast_runtime.streams.kafka.write.producer import TakenOverError, TransactionalProducer
from holdfast_runtime.streams.markers import AttemptSlot, TaskMarkers
from holdfast_runtime.streams.records import NO_TIME, Marker, OffsetRange, written_batch
from tests.error_codes import has_code
from tests.kafka.broker import Broker
from tests.kafka.reached import ANSWER_TIMEOUT
from tests.kafka.sent import Attempt, rows_of, seen, settings_of, writes
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture
def app(broker: Broker) -> str:
    name = f"app-{uuid.uuid4().hex[:8]}"
    broker.create_topic(f"{name}-out", 2)
    return name


def attempt(broker: Broker, app: str, number: int, **more: object) -> Attempt:
    return Attempt(broker.bootstrap, app, number, **more)  # type: ignore[arg-type]


@pytest.mark.smoke
def test_a_batch_that_is_sent_again_is_there_once(broker: Broker, app: str) -> None:
    first = attempt(broker, app, 1).begin()
    with first.worker() as worker:
        worker.send(1, "ab")
        worker.send(1, "ab")
        worker.send(2, "ab")
    with first.worker() as other_worker:
        other_worker.send(2, "ab")
    assert seen(broker, f"{app}-out") == rows_of("ab", range(1, 3))


def test_only_the_tasks_that_are_missing_are_written(broker: Broker, app: str) -> None:
    first = attempt(broker, app, 1).begin()
    with first.worker() as worker:
        worker.send(1, "a", slot=0)
    second = attempt(broker, app, 2).begin()
    assert second.turns == {"a": 1}
    with second.worker() as worker:
        worker.send(1, "ab", slot=1)
    assert seen(broker, f"{app}-out") == rows_of("ab", range(1, 2))


def test_what_several_attempts_wrote_is_known_to_the_next(broker: Broker, app: str) -> None:
    for number in (1, 2, 3):
        now = attempt(broker, app, number).begin()
        with now.worker() as worker:
            worker.send(number, "ab"[number % 2])
    assert attempt(broker, app, 4).begin().turns == {"a": 2, "b": 3}


def test_a_slot_may_go_to_and_fro_between_processes(broker: Broker, app: str) -> None:
    first = attempt(broker, app, 1).begin()
    with first.worker() as worker, first.worker() as other_worker:
        for batch in range(1, 7):
            (worker, other_worker)[batch % 2].send(batch)
    assert seen(broker, f"{app}-out") == rows_of("a", range(1, 7))


def test_an_open_transaction_of_another_slot_hides_no_marker(broker: Broker, app: str) -> None:
    # With all markers in one partition, a reader of committed records stops before the marker that is looked for, and
    # the batch is written twice.
    first = attempt(broker, app, 1).begin()
    holder = TransactionalProducer(settings_of(broker.bootstrap), first.who.transactional_id(1))
    holder.open()
    holder.begin()
    key, value = slot_note(first.who, 1, {"b": Marker(first.who.owner, "b", 1, 1, "life", "digest")})
    holder.put(f"{app}.holdfast", slot_partition(1), written_batch([key], [value], 1_000))
    holder.put(f"{app}-out", 0, written_batch([b"b"], [b"b-1-0"], 1_000))
    holder.flush()
    with first.worker() as worker:
        worker.send(1, "a", slot=0)
    with first.worker() as again:
        again.send(1, "a", slot=0)
    holder.commit()
    holder.close()
    assert seen(broker, f"{app}-out") == sorted([*rows_of("a", range(1, 2)), "b-1-0"])


@pytest.mark.smoke
def test_an_earlier_attempt_stopped_before_its_commit_commits_nothing(broker: Broker, app: str) -> None:
    first = attempt(broker, app, 1).begin()
    with first.worker() as zombie:

        def successor(step: str) -> None:
            if step == "transaction filled":
                second = attempt(broker, app, 2).begin()
                with second.worker() as worker:
                    worker.send(1)
                    worker.send(2)

        with pytest.raises(
            HoldfastError,
            match=r"attempt 1 of run 1 of .* may not write any more: attempt 2",
            check=has_code("FencedError"),
        ):
            zombie.send(1, at=successor)
    assert seen(broker, f"{app}-out") == rows_of("a", range(1, 3))


def test_a_held_name_that_is_lost_is_not_taken_again(broker: Broker, app: str) -> None:
    first = attempt(broker, app, 1).begin()
    slot = AttemptSlot(first.who, 0)
    with first.worker() as held, first.worker() as other_worker:
        assert held.kafka.hold(slot, anew=False) == {}
        held.send(1)
        (marker,) = other_worker.kafka.hold(slot, anew=True).values()
        assert (marker.task, marker.batch) == ("a", 1)
        with pytest.raises(RetrySoonError, match="taken over by another process"):
            held.send(2)
        other_worker.send(2)
        assert held.kafka.hold(slot, anew=True)["a"].batch == 2
        held.send(3)
    assert seen(broker, f"{app}-out") == rows_of("a", range(1, 4))


@pytest.mark.parametrize("committed", [True, False])
def test_whoever_takes_a_name_knows_what_was_committed_under_it(broker: Broker, app: str, committed: bool) -> None:
    first = attempt(broker, app, 1).begin()
    slot, known = AttemptSlot(first.who, 0), list[TaskMarkers]()
    with first.worker() as held, first.worker() as other_worker:
        held.kafka.hold(slot, anew=False)

        def taken(step: str) -> None:
            if step == ("transaction committed" if committed else "transaction filled"):
                known.append(other_worker.kafka.hold(slot, anew=True))

        with nullcontext() if committed else pytest.raises(RetrySoonError):
            held.send(1, at=taken)
        assert [[*markers] for markers in known] == [["a"] if committed else []]
        other_worker.send(1)
    assert seen(broker, f"{app}-out") == rows_of("a", range(1, 2))


@pytest.mark.parametrize("exactly_once", [True, False])
def test_nothing_is_seen_before_it_is_decided(broker: Broker, app: str, exactly_once: bool) -> None:
    first = attempt(broker, app, 1)
    if exactly_once:
        first.begin()
    kafka = KafkaCluster(settings_of(broker.bootstrap), app, exactly_once)
    sender, batch = AttemptSlot(first.who, 0), writes(first, 1, "ab", 3)

    def undecided() -> None:
        assert seen(broker, f"{app}-out") == []
        raise CheckpointUnavailableError

    try:
        with pytest.raises(CheckpointUnavailableError):
            kafka.write(sender, batch, lambda _: None, undecided)
        assert seen(broker, f"{app}-out") == []
        kafka.write(sender, batch, lambda _: None, lambda: None)
    finally:
        kafka.close()
    assert seen(broker, f"{app}-out") == rows_of("ab", range(1, 2))


def test_an_earlier_attempt_that_returns_nameless_takes_no_name(broker: Broker, app: str) -> None:
    first = attempt(broker, app, 1).begin()
    second = attempt(broker, app, 2).begin()
    with first.worker() as zombie, second.worker() as worker:
        worker.send(1)
        with pytest.raises(HoldfastError, check=has_code("FencedError")):
            zombie.send(1)
        worker.send(2)
    assert seen(broker, f"{app}-out") == rows_of("a", range(1, 3))


def test_an_earlier_attempt_that_begins_late_shuts_nobody_out(broker: Broker, app: str) -> None:
    second = attempt(broker, app, 2).begin()
    with second.worker() as worker:
        worker.send(1)
        with pytest.raises(HoldfastError, check=has_code("FencedError")):
            attempt(broker, app, 1).begin()
        worker.send(2)
        with second.worker() as fresh:
            fresh.send(3)
    assert seen(broker, f"{app}-out") == rows_of("a", range(1, 4))


def test_another_run_shuts_out_the_run_before(broker: Broker, app: str) -> None:
    old = attempt(broker, app, 7).begin()
    with old.worker() as zombie:
        zombie.send(5)
        new = attempt(broker, app, 1, run="2").begin()
        assert new.turns == {}
        with pytest.raises(HoldfastError, match="attempt 1 of run 2", check=has_code("FencedError")):
            zombie.send(6)
        with new.worker() as worker:
            worker.send(1)
    assert seen(broker, f"{app}-out") == sorted(rows_of("a", range(5, 6)) + rows_of("a", range(1, 2)))


def test_a_namesake_of_another_owner_shuts_nobody_out(broker: Broker, app: str) -> None:
    first = attempt(broker, app, 1).begin()
    with first.worker() as worker:
        worker.send(1)
        for run, owner in (("1", "namespace other"), ("2", "namespace other"), ("1", "holdfast run")):
            message = (
                rf"the name {app} belongs to .* \(namespace shop\), and this one is of {owner}.*another metadata.name"
            )
            with pytest.raises(UserActionError, match=message, check=has_code("NameTakenError")):
                attempt(broker, app, 9, run=run, owner=owner).begin()
        worker.send(2)
        with first.worker() as fresh:
            fresh.send(3)
    assert attempt(broker, app, 2).begin().turns == {"a": 3}
    assert seen(broker, f"{app}-out") == rows_of("a", range(1, 4))


def test_one_of_two_simultaneous_owners_gets_the_name(broker: Broker, app: str) -> None:
    owners = [f"namespace n{number}" for number in range(4)]

    def begins(owner: str) -> bool:
        try:
            attempt(broker, app, 1, owner=owner).begin()
        except UserActionError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(begins, owners))
    assert outcomes.count(True) == 1
    assert not begins(owners[outcomes.index(False)])


@pytest.mark.parametrize(
    ("batch", "more", "why"),
    [
        (3, {}, "batch 3 is to be written, up to batch 9"),
        (9, {"content": "planned again"}, "batch 9 is to be written, with other content"),
        (9, {"life": "another"}, "batch 9 is to be written, of another checkpoint"),
        (10, {"life": "another"}, "batch 10 is to be written, of another checkpoint"),
    ],
)
def test_a_batch_that_does_not_follow_is_refused_whole(
    broker: Broker, app: str, batch: int, more: dict[str, str], why: str
) -> None:
    first = attempt(broker, app, 1).begin()
    with first.worker() as worker:
        worker.send(9)
    second = attempt(broker, app, 2, **more).begin()
    with (
        second.worker() as worker,
        pytest.raises(
            UserActionError, match=rf"holds batch 9 of a of {app}/1 .*{why}", check=has_code("OutputsAheadError")
        ),
    ):
        worker.send(batch, "ba")
    assert seen(broker, f"{app}-out") == rows_of("a", range(9, 10))


def test_an_attempt_with_more_slots_gets_room_for_their_markers(broker: Broker, app: str) -> None:
    attempt(broker, app, 1, slots=1).begin()
    wide = attempt(broker, app, 2, slots=5).begin()
    with wide.worker() as worker:
        worker.send(1, "a", slot=4)
    assert attempt(broker, app, 3, slots=1).begin().turns == {"a": 1}


def test_a_crash_between_beginning_and_tidying_loses_no_marker(
    broker: Broker, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = attempt(broker, app, 1).begin()
    with first.worker() as worker:
        worker.send(1)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    for number, step in enumerate(("_shut_out", "before_note", "_superfluous"), start=2):
        now = attempt(broker, app, number)
        with monkeypatch.context() as patched:
            patched.setattr(fencing, step, dies)
            with pytest.raises(KeyboardInterrupt):
                now.begin()
    assert attempt(broker, app, 5).begin().turns == {"a": 1}


def test_event_times_unknown_to_kafka_travel_through_an_own_topic(broker: Broker, app: str) -> None:
    kafka, topic = KafkaCluster(settings_of(broker.bootstrap), app), f"{app}-moved"
    kafka.ensure(topic, 1, TopicUse.INTERMEDIATE)
    times = pa.array([NO_TIME, -(10**14), -1, 0, 1, 1_700_000_000_000, 10**15])
    producer = TransactionalProducer(kafka.settings, f"{app}-times")
    producer.open()
    producer.begin()
    producer.put(topic, 0, written_batch([None] * len(times), [b"row"] * len(times), times))
    producer.commit()
    producer.close()
    fetched: list[pa.RecordBatch] = []

    def there() -> bool:
        bounds = kafka.bounds([topic])[topic][0]
        fetched[:] = [kafka.fetch(OffsetRange(StreamPartition(topic, 0), 0, bounds.end))]
        return bool(fetched[0].num_rows)

    wait_until(there, 30, "the transaction is seen")
    kafka.close()
    assert fetched[0].column("timestamp").equals(times)


@pytest.mark.parametrize("fast", [True, False])
def test_a_record_brokers_never_take_is_not_tried_for_ever(broker: Broker, app: str, fast: bool) -> None:
    topic = f"{app}-small"
    with broker.admin() as admin:
        new = NewTopic(topic, 1, 1, config={"max.message.bytes": "1000"})
        admin.create_topics([new])[topic].result(ANSWER_TIMEOUT)
    producer = TransactionalProducer(settings_of(broker.bootstrap), f"{app}-{fast}", fast=fast)
    producer.open()
    producer.begin()
    producer.put(topic, 0, written_batch([None], [b"x" * 5_000], 1_000))
    with pytest.raises(UserActionError, match="as soon as its topic takes it", check=has_code("RecordRefusedError")):
        producer.commit()
    producer.close()


@pytest.mark.parametrize("fast", [True, False])
def test_who_has_lost_its_name_hears_so_at_each_call(broker: Broker, app: str, fast: bool) -> None:
    first, second = (TransactionalProducer(settings_of(broker.bootstrap), f"{app}-{fast}", fast=fast) for _ in "ab")
    records = written_batch([b"k"], [b"v"], 0)
    try:
        first.open()
        first.begin()
        second.open()
        first.put(f"{app}-out", 0, records)
        with pytest.raises(TakenOverError):
            first.commit()
        with pytest.raises(TakenOverError):
            first.put(f"{app}-out", 0, records)
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("fast", [True, False])
def test_a_stuck_transaction_is_given_up_exactly_after_its_patience(app: str, fast: bool) -> None:
    patience = 3.0
    with Broker() as broker:
        broker.create_topic(f"{app}-out", 1)
        patient = TransactionalProducer(settings_of(broker.bootstrap), app, fast=fast)
        patient.open()  # a broker that has just started may take longer than the patience to look after a name
        patient.close()
        producer = TransactionalProducer(settings_of(broker.bootstrap), app, fast=fast, patience=patience)
        producer.open()
        producer.begin()
        broker.kill()
        producer.put(f"{app}-out", 0, written_batch([b"k"] * 100, [b"v"] * 100, 0))
        began = time.monotonic()
        with pytest.raises(KafkaBusyError, match="within"):
            producer.commit()
        # It once waited so long for its records, and then as long again for the transaction.
        assert time.monotonic() - began < 1.9 * patience
        producer.close()
