"""What becomes of a fetcher while topics, brokers and processes come and go."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them without saying so
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from holdfast_runtime.streams.kafka import fetcher as fast_module
from holdfast_runtime.streams.kafka import gathering
from holdfast_runtime.streams.kafka.consumer import Consumer
from holdfast_runtime.streams.kafka.fetcher import Fetcher
from holdfast_runtime.streams.kafka.fetching import READER, Fetching, make_fetcher
from holdfast_runtime.streams.kafka.plain_fetcher import PlainFetcher
from holdfast_runtime.streams.kafka.reading import Limits
from holdfast_runtime.streams.kafka.trouble import (
    KafkaBusyError,
    KafkaConfigError,
    KafkaForbiddenError,
    KafkaLoginError,
    RecordsDamagedError,
)
from holdfast_runtime.streams.records import (
    OffsetAgedOutError,
    OffsetBeyondEndError,
    RangeTooLargeError,
    StreamMissingError,
)
from tests.kafka.broker import ANSWER_TIMEOUT, PASSWORD, USER, Broker, free_ports, wait_until
from tests.kafka.known import LIMITS, READERS, Known, create, reader, settings_of

pytestmark = pytest.mark.kafka

SOON = Limits(silence=1.0, doubt=0.3)


@pytest.fixture(params=READERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened() -> Iterator[Callable[..., Fetching]]:
    """Makes fetchers that are closed in the end."""
    made: list[Fetching] = []

    def open_one(kind: str, bootstrap: str, limits: Limits = LIMITS, **config: str) -> Fetching:
        made.append(reader(kind, settings_of(bootstrap, **config), limits))
        return made[-1]

    yield open_one
    for one in made:
        one.close()


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Where the fast fetcher has begun anew."""
    found: list[tuple[str, int, int]] = []
    real = Consumer.start

    def start(self: Consumer, topic: str, partition: int, offset: int) -> Any:
        found.append((topic, partition, offset))
        return real(self, topic, partition, offset)

    monkeypatch.setattr(Consumer, "start", start)
    return found


def filled(broker: Broker, topic: str, partitions: int = 1, rows: int = 100) -> list[Known]:
    create(broker, topic, partitions)
    known = [Known(broker, topic, partition) for partition in range(partitions)]
    for one in known:
        one.write([{"value": b"%s/%d: %d" % (topic.encode(), one.partition, i)} for i in range(rows)])
    return known


def check(fetcher: Fetching, known: Known, start: int, end: int) -> None:
    assert fetcher.fetch(known.topic, known.partition, start, end).to_pylist() == known.expected(start, end)


def test_ranges_that_follow_each_other_begin_once(
    broker: Broker, opened: Callable[..., Fetching], starts: list[tuple[str, int, int]]
) -> None:
    (known,) = filled(broker, "follow")
    fetcher = opened("fast", broker.bootstrap)
    for at in range(0, 100, 10):
        check(fetcher, known, at, at + 10)
    known.write([{"value": b"later"}] * 5)
    check(fetcher, known, 100, 105)
    assert starts == [("follow", 0, 0)]


def test_going_back_begins_anew(broker: Broker, opened: Callable[..., Fetching], kind: str) -> None:
    (known,) = filled(broker, f"back-{kind}")
    fetcher = opened(kind, broker.bootstrap)
    for start, end in ((0, 50), (20, 60), (20, 60), (0, 100), (99, 100), (0, 1), (50, 60)):
        check(fetcher, known, start, end)


def test_going_back_behind_control_records_does_not_end_where_it_was(
    broker: Broker, opened: Callable[..., Fetching], kind: str
) -> None:
    # The client's own idea of where it is may be that of before.
    topic = f"back-control-{kind}"
    (known,) = filled(broker, topic, rows=3)
    producer = known.producer(transactional_id=topic)
    producer.init_transactions(ANSWER_TIMEOUT)
    producer.begin_transaction()
    rows = known.sent(producer, [{"value": b"in"}] * 2)
    producer.commit_transaction(ANSWER_TIMEOUT)
    known.rows |= rows
    fetcher = opened(kind, broker.bootstrap)
    for _ in range(5):
        check(fetcher, known, 0, 6)
        check(fetcher, known, 4, 6)
        check(fetcher, known, 5, 6)
        check(fetcher, known, 3, 6)


def test_partitions_by_turns_keep_what_was_fetched_ahead(
    broker: Broker, opened: Callable[..., Fetching], kind: str, starts: list[tuple[str, int, int]]
) -> None:
    known = filled(broker, f"turns-{kind}", partitions=3)
    fetcher = opened(kind, broker.bootstrap)
    fetcher.begin((one.topic, one.partition, 0) for one in known)
    for at in range(0, 100, 20):
        for one in known:
            check(fetcher, one, at, at + 20)
    if kind == "fast":
        assert starts == [(one.topic, one.partition, 0) for one in known]


def test_a_partition_that_nobody_asks_for_is_fetched_no_more(
    broker: Broker, opened: Callable[..., Fetching], starts: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = filled(broker, "idle", partitions=2)
    fetcher = opened("fast", broker.bootstrap)
    check(fetcher, one, 0, 10)
    check(fetcher, other, 0, 10)
    check(fetcher, one, 10, 20)
    assert len(starts) == 2
    monkeypatch.setattr(fast_module, "_IDLE", 0.0)
    check(fetcher, one, 20, 30)
    check(fetcher, other, 10, 20)
    assert starts[2:] == [("idle", 1, 10)]


def test_a_killed_broker_is_waited_for(opened: Callable[..., Fetching], kind: str) -> None:
    with Broker() as broker:
        (known,) = filled(broker, "killed")
        fetcher = opened(kind, broker.bootstrap, Limits())  # it does not know its topics at once
        check(fetcher, known, 0, 10)
        broker.kill()
        found: list[Any] = []
        waiting = threading.Thread(target=lambda: found.append(fetcher.fetch("killed", 0, 5, 100)))
        waiting.start()
        broker.restart()
        waiting.join(ANSWER_TIMEOUT)
        assert found[0].to_pylist() == known.expected(5, 100)
        known.write([{"value": b"after"}] * 20)
        check(fetcher, known, 100, 120)
        fetcher.close()


def test_a_broker_that_stays_away_is_a_matter_of_soon(
    opened: Callable[..., Fetching], kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    bootstrap = f"127.0.0.1:{free_ports(1)[0]}"
    fetcher = opened(kind, bootstrap, SOON)
    with pytest.raises(KafkaBusyError) as raised:
        fetcher.fetch("clicks", 3, 7, 9)
    message = str(raised.value)
    assert f"Kafka system events: nothing about clicks/3 from offset 7 on came from {bootstrap} in 1 s" in message
    assert "Connection refused" in message
    fetcher.close()
    assert capfd.readouterr() == ("", "")


def test_records_that_are_no_longer_kept_are_for_the_user(
    broker: Broker, opened: Callable[..., Fetching], kind: str
) -> None:
    topic = f"aged-{kind}"
    (known,) = filled(broker, topic)
    fetcher = opened(kind, broker.bootstrap)
    with broker.admin() as admin:
        (done,) = admin.delete_records([TopicPartition(topic, 0, 40)]).values()
        assert done.result(ANSWER_TIMEOUT).low_watermark == 40
    with pytest.raises(OffsetAgedOutError, match="offset 10 is wanted, but the oldest record kept is 40: 30 of the"):
        fetcher.fetch(topic, 0, 10, 60)
    check(fetcher, known, 40, 60)


def test_records_that_never_were_are_for_the_user(broker: Broker, opened: Callable[..., Fetching], kind: str) -> None:
    topic = f"beyond-{kind}"
    (known,) = filled(broker, topic)
    fetcher = opened(kind, broker.bootstrap)
    for start in (90, 100, 150):
        with pytest.raises(OffsetBeyondEndError, match="records up to offset 200 are wanted, but it ends at 100"):
            fetcher.fetch(topic, 0, start, 200)
    check(fetcher, known, 90, 100)


def test_an_end_that_comes_late_is_waited_for(broker: Broker, opened: Callable[..., Fetching], kind: str) -> None:
    topic = f"late-{kind}"
    (known,) = filled(broker, topic)
    fetcher = opened(kind, broker.bootstrap, Limits(silence=ANSWER_TIMEOUT, doubt=ANSWER_TIMEOUT))
    for start in (95, 101):
        asked = threading.Event()
        found: list[Any] = []

        def fetch(start: int = start, asked: threading.Event = asked, found: list[Any] = found) -> None:
            asked.set()
            found.append(fetcher.fetch(topic, 0, start, start + 10))

        waiting = threading.Thread(target=fetch)
        waiting.start()
        asked.wait()
        known.write([{"value": b"late"}] * (start + 10 - known.end()))
        waiting.join(ANSWER_TIMEOUT)
        assert found[0].to_pylist() == known.expected(start, start + 10)


@pytest.mark.parametrize("partition", [0, 7])
def test_a_topic_or_partition_that_is_not_there_is_missing(
    broker: Broker, opened: Callable[..., Fetching], kind: str, partition: int
) -> None:
    topic = "nowhere" if partition == 0 else f"few-{kind}"
    if partition:
        filled(broker, topic)
    fetcher = opened(kind, broker.bootstrap)
    with pytest.raises(StreamMissingError, match=f"Kafka system events: {topic}/{partition} can't be read"):
        fetcher.fetch(topic, partition, 0, 5)


def test_a_topic_made_anew_is_read_anew(broker: Broker, opened: Callable[..., Fetching], kind: str) -> None:
    topic = f"anew-{kind}"
    (known,) = filled(broker, topic)
    fetcher = opened(kind, broker.bootstrap)
    check(fetcher, known, 0, 50)
    with broker.admin() as admin:
        admin.delete_topics([topic])[topic].result(ANSWER_TIMEOUT)
        wait_until(lambda: topic not in admin.list_topics(timeout=5).topics, ANSWER_TIMEOUT, "the topic is gone")
    (known,) = filled(broker, topic, rows=30)
    with pytest.raises(OffsetBeyondEndError, match="it was created anew"):
        fetcher.fetch(topic, 0, 60, 70)
    check(fetcher, known, 0, 30)


def test_a_forked_process_reads_with_a_client_of_its_own(
    broker: Broker, opened: Callable[..., Fetching], kind: str
) -> None:
    (known,) = filled(broker, f"forked-{kind}")
    fetcher = opened(kind, broker.bootstrap)
    check(fetcher, known, 0, 10)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def child() -> None:
        rows = fetcher.fetch(known.topic, 0, 10, 20).to_pylist()
        more = fetcher.fetch(known.topic, 0, 0, 5).to_pylist()
        fetcher.close()
        theirs.send((rows, more, os.getpid()))

    process = context.Process(target=child)
    process.start()
    assert ours.poll(ANSWER_TIMEOUT)
    rows, more, pid = ours.recv()
    process.join(ANSWER_TIMEOUT)
    assert process.exitcode == 0
    assert (rows, more, pid) == (known.expected(10, 20), known.expected(0, 5), process.pid)
    check(fetcher, known, 10, 30)


def test_a_closed_fetcher_begins_anew(broker: Broker, opened: Callable[..., Fetching], kind: str) -> None:
    (known,) = filled(broker, f"closed-{kind}")
    fetcher = opened(kind, broker.bootstrap)
    fetcher.close()
    check(fetcher, known, 0, 10)
    fetcher.close()
    fetcher.close()
    check(fetcher, known, 10, 20)


def test_a_record_that_is_damaged_is_not_left_out(opened: Callable[..., Fetching], kind: str) -> None:
    # The client says so, and would go on with what follows.
    with Broker() as broker:
        (known,) = filled(broker, "damaged", rows=5)
        for text in (b"spoilt", b"behind"):
            known.write([{"value": text}])
        (log,) = broker._directory.glob("data/damaged-0/*.log")  # noqa: SLF001 - a disk is no part of its interface
        whole = log.read_bytes()
        with log.open("r+b") as file:
            file.seek(whole.index(b"spoilt"))
            file.write(b"SPOILT")
        fetcher = opened(kind, broker.bootstrap)
        check(fetcher, known, 0, 5)
        for _ in range(2):
            with pytest.raises(RecordsDamagedError, match=r"damaged/0 \[5, 7\) can't be read from offset 5 on: .*CRC"):
                fetcher.fetch("damaged", 0, 5, 7)
        check(fetcher, known, 6, 7)
        fetcher.close()


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_a_client_that_is_forgotten_ends(broker: Broker, kind: str) -> None:
    (known,) = filled(broker, f"forgotten-{kind}")
    before = threads()
    fetcher = reader(kind, settings_of(broker.bootstrap))
    check(fetcher, known, 0, 10)
    assert threads() > before
    del fetcher
    wait_until(lambda: threads() <= before, ANSWER_TIMEOUT, "its threads are gone")


def test_a_range_too_large_for_a_batch_is_refused_and_the_next_is_read(
    broker: Broker, opened: Callable[..., Fetching], monkeypatch: pytest.MonkeyPatch
) -> None:
    (known,) = filled(broker, "large")
    fetcher = opened("fast", broker.bootstrap)
    with monkeypatch.context() as patch:
        patch.setattr(gathering, "MOST_BYTES", 500)
        with pytest.raises(RangeTooLargeError, match=r"lower runtime\.trigger\.maxRecordsPerPartition"):
            fetcher.fetch("large", 0, 0, 100)
    check(fetcher, known, 0, 100)


def test_a_small_range_takes_no_longer_than_its_records(
    broker: Broker, opened: Callable[..., Fetching], kind: str
) -> None:
    (known,) = filled(broker, f"small-{kind}")
    fetcher = opened(kind, broker.bootstrap)
    check(fetcher, known, 0, 1)
    started = time.monotonic()
    for at in range(1, 51):
        check(fetcher, known, at, at + 1)
    assert time.monotonic() - started < 1  # 50 waits for a full batch would be many seconds


def test_the_environment_can_ask_for_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of("127.0.0.1:1")
    assert isinstance(make_fetcher(settings), Fetcher)
    monkeypatch.setenv(READER, "plain")
    assert isinstance(make_fetcher(settings), PlainFetcher)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"sasl_pasword": "hunter2"}, 'No such configuration property: "sasl.pasword"'),
        ({"security_protocol": "hunter2"}, 'Invalid value "***" for configuration property "security.protocol"'),
        ({"security_protocol": "SSL", "ssl_key_pem": "hunter2"}, "ssl.key.pem failed"),
    ],
)
def test_a_config_the_client_rejects_names_the_key_and_no_value(
    kind: str, opened: Callable[..., Fetching], config: dict[str, str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    fetcher = opened(kind, "127.0.0.1:1", **config)
    with pytest.raises(KafkaConfigError) as raised:
        fetcher.fetch("clicks", 0, 0, 1)
    assert said in str(raised.value)
    assert "hunter2" not in str(raised.value)
    assert raised.value.__context__ is None
    assert capfd.readouterr() == ("", "")


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[Broker, Known]]:
    """A broker with logins, and a topic its user may read."""
    with Broker(sasl=True) as running:
        (known,) = filled(running, "readable")
        filled(running, "hidden")
        filled(running, "described")
        rules = [allowed("readable", AclOperation.READ), allowed("described", AclOperation.DESCRIBE)]
        with running.admin() as admin:
            for future in admin.create_acls(rules).values():
                future.result(ANSWER_TIMEOUT)
        yield running, known


def allowed(topic: str, what: AclOperation) -> AclBinding:
    who = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*")
    return AclBinding(*who, what, AclPermissionType.ALLOW)


def login(password: str = PASSWORD) -> dict[str, str]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": USER,
        "sasl_password": password,
    }


def test_the_right_login_reads(
    guarded: tuple[Broker, Known], opened: Callable[..., Fetching], kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    broker, known = guarded
    fetcher = opened(kind, broker.sasl_bootstrap, **login())
    check(fetcher, known, 0, 100)
    assert PASSWORD not in repr(settings_of(broker.sasl_bootstrap, **login()))
    assert capfd.readouterr() == ("", "")


def test_a_wrong_login_is_for_the_user_at_once(
    guarded: tuple[Broker, Known], opened: Callable[..., Fetching], kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    fetcher = opened(kind, guarded[0].sasl_bootstrap, **login("not-the-pass.word"))
    started = time.monotonic()
    with pytest.raises(KafkaLoginError) as raised:
        fetcher.fetch("readable", 0, 0, 100)
    assert time.monotonic() - started < LIMITS.silence / 2
    message = str(raised.value)
    assert "refused the login" in message
    assert "Correct sasl.mechanism, sasl.password, sasl.username, security.protocol" in message
    assert "not-the-pass.word" not in message
    fetcher.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("topic", "error", "said"),
    [
        ("described", KafkaForbiddenError, "Grant it to the login"),
        ("hidden", StreamMissingError, "let the system's login see it"),  # a broker does not tell what it hides
    ],
)
def test_a_topic_the_login_may_not_read_waits_for_a_right(
    guarded: tuple[Broker, Known], opened: Callable[..., Fetching], kind: str, topic: str, error: type, said: str
) -> None:
    fetcher = opened(kind, guarded[0].sasl_bootstrap, **login())
    with pytest.raises(error, match=said) as raised:
        fetcher.fetch(topic, 0, 0, 10)
    assert f"{topic}/0" in str(raised.value)
