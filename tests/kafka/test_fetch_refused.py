"""What a fetcher can't read is said by its type, with names, numbers and the cure, and never left out."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them without saying so
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from holdfast.errors import UserActionError
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError, KafkaForbiddenError
from holdfast_runtime.streams.kafka.read import consumer
from holdfast_runtime.streams.kafka.read.fetcher import RangeFetcher
from holdfast_runtime.streams.kafka.read.range_read import FetchPatience
from holdfast_runtime.streams.records import BatchTooLargeError, OffsetNotWrittenError, StreamMissingError
from tests.error_codes import has_code
from tests.kafka.broker import PASSWORD, USER, Broker, free_ports
from tests.kafka.known import LIMITS, Known, check, filled, settings_of
from tests.kafka.reached import ANSWER_TIMEOUT

pytestmark = pytest.mark.kafka

SOON = FetchPatience(silence=1.0, doubt=0.3)


def test_a_broker_that_stays_away_is_a_matter_of_soon(
    opened: Callable[..., RangeFetcher], kind: str, capfd: pytest.CaptureFixture[str]
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
    broker: Broker, opened: Callable[..., RangeFetcher], kind: str
) -> None:
    topic = f"aged-{kind}"
    (known,) = filled(broker, topic)
    fetcher = opened(kind, broker.bootstrap)
    with broker.admin() as admin:
        (done,) = admin.delete_records([TopicPartition(topic, 0, 40)]).values()
        assert done.result(ANSWER_TIMEOUT).low_watermark == 40
    with pytest.raises(
        UserActionError,
        match="offset 10 is wanted, but the oldest record kept is 40: 30 of the",
        check=has_code("OffsetAgedOutError"),
    ):
        fetcher.fetch(topic, 0, 10, 60)
    check(fetcher, known, 40, 60)


def test_records_that_never_were_are_for_the_user(
    broker: Broker, opened: Callable[..., RangeFetcher], kind: str
) -> None:
    topic = f"beyond-{kind}"
    (known,) = filled(broker, topic)
    fetcher = opened(kind, broker.bootstrap)
    for start in (90, 100, 150):
        with pytest.raises(OffsetNotWrittenError, match="records up to offset 200 are wanted, but it ends at 100"):
            fetcher.fetch(topic, 0, start, 200)
    check(fetcher, known, 90, 100)


@pytest.mark.parametrize("partition", [0, 7])
def test_a_topic_or_partition_that_is_not_there_is_missing(
    broker: Broker, opened: Callable[..., RangeFetcher], kind: str, partition: int
) -> None:
    topic = "nowhere" if partition == 0 else f"few-{kind}"
    if partition:
        filled(broker, topic)
    fetcher = opened(kind, broker.bootstrap)
    with pytest.raises(StreamMissingError, match=f"Kafka system events: {topic}/{partition} can't be read"):
        fetcher.fetch(topic, partition, 0, 5)


def test_a_record_that_is_damaged_is_not_left_out(opened: Callable[..., RangeFetcher], kind: str) -> None:
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
            with pytest.raises(
                UserActionError,
                match=r"damaged/0 \[5, 7\) can't be read from offset 5 on: .*CRC",
                check=has_code("RecordsDamagedError"),
            ):
                fetcher.fetch("damaged", 0, 5, 7)
        check(fetcher, known, 6, 7)
        fetcher.close()


def test_a_too_large_range_is_refused_and_the_next_read(
    broker: Broker, opened: Callable[..., RangeFetcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    (known,) = filled(broker, "large")
    fetcher = opened("fast", broker.bootstrap)
    with monkeypatch.context() as patch:
        patch.setattr(consumer, "MOST_BYTES", 500)
        with pytest.raises(BatchTooLargeError, match=r"Lower runtime\.trigger\.maxRecordsPerPartition"):
            fetcher.fetch("large", 0, 0, 100)
    check(fetcher, known, 0, 100)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"sasl_pasword": "hunter2"}, '"sasl.pasword" is no setting that can be given; did you mean sasl.password?'),
        ({"security_protocol": "hunter2"}, 'Invalid value "***" for configuration property "security.protocol"'),
        ({"security_protocol": "SSL", "ssl_key_pem": "hunter2"}, "ssl.key.pem failed"),
    ],
)
def test_a_rejected_config_names_the_key_and_no_value(
    kind: str,
    opened: Callable[..., RangeFetcher],
    config: dict[str, str],
    reason: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(UserActionError, check=has_code("KafkaConfigError")) as raised:
        opened(kind, "127.0.0.1:1", **config).fetch("clicks", 0, 0, 1)
    assert reason in str(raised.value)
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
    guarded: tuple[Broker, Known], opened: Callable[..., RangeFetcher], kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    broker, known = guarded
    fetcher = opened(kind, broker.sasl_bootstrap, **login())
    check(fetcher, known, 0, 100)
    assert PASSWORD not in repr(settings_of(broker.sasl_bootstrap, **login()))
    assert capfd.readouterr() == ("", "")


def test_a_wrong_login_is_for_the_user_at_once(
    guarded: tuple[Broker, Known], opened: Callable[..., RangeFetcher], kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    fetcher = opened(kind, guarded[0].sasl_bootstrap, **login("not-the-pass.word"))
    started = time.monotonic()
    with pytest.raises(UserActionError, check=has_code("KafkaLoginError")) as raised:
        fetcher.fetch("readable", 0, 0, 100)
    assert time.monotonic() - started < LIMITS.silence / 2
    message = str(raised.value)
    assert "refused the login" in message
    assert "Correct sasl.mechanism, sasl.password, sasl.username, security.protocol" in message
    assert "not-the-pass.word" not in message
    fetcher.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("topic", "error", "reason"),
    [
        ("described", KafkaForbiddenError, "Grant it to the login"),
        ("hidden", KafkaForbiddenError, "Grant it to the login"),
    ],
)
def test_a_topic_the_login_may_not_read_awaits_a_right(
    guarded: tuple[Broker, Known], opened: Callable[..., RangeFetcher], kind: str, topic: str, error: type, reason: str
) -> None:
    fetcher = opened(kind, guarded[0].sasl_bootstrap, **login())
    with pytest.raises(error, match=reason) as raised:
        fetcher.fetch(topic, 0, 0, 10)
    assert f"{topic}/0" in str(raised.value)
