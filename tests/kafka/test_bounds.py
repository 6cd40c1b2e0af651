"""What there is of topics, asked of a real broker."""

import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition

from holdfast.errors import UserActionError
from holdfast_runtime.streams.kafka.admin import bounds as module
from holdfast_runtime.streams.kafka.admin.bounds import TopicBounds
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError, KafkaForbiddenError
from holdfast_runtime.streams.records import OffsetBounds, StreamMissingError
from tests.error_codes import has_code
from tests.kafka.broker import USER, Broker, free_ports
from tests.kafka.known import Known, create, settings_of
from tests.kafka.reached import ANSWER_TIMEOUT
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic_bounds(broker: Broker) -> TopicBounds:
    return TopicBounds(settings_of(broker.bootstrap))


@pytest.fixture(scope="module")
def creating() -> Iterator[Broker]:
    """A broker with logins, and one that creates topics for whoever names them."""
    with Broker(sasl=True, settings={"auto.create.topics.enable": "true"}) as running:
        yield running


def fill(broker: Broker, topic: str, partition: int, rows: int) -> Known:
    known = Known(broker, topic, partition)
    known.write([{"value": b"v"}] * rows)
    return known


def test_all_partitions_of_all_topics_are_answered(broker: Broker, topic_bounds: TopicBounds) -> None:
    create(broker, "bounds.one", 1)
    create(broker, "bounds.three", 3)
    fill(broker, "bounds.three", 1, 7)
    assert topic_bounds.bounds(["bounds.three", "bounds.one"]) == {
        "bounds.one": {0: OffsetBounds(0, 0, epoch=0)},
        "bounds.three": {
            0: OffsetBounds(0, 0, epoch=0),
            1: OffsetBounds(0, 7, epoch=0),
            2: OffsetBounds(0, 0, epoch=0),
        },
    }
    assert topic_bounds.bounds([]) == {}


def test_ends_are_asked_each_time_and_oldest_offsets_sometimes(
    broker: Broker, topic_bounds: TopicBounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker, "bounds.moving")
    fill(broker, "bounds.moving", 0, 10)
    assert topic_bounds.bounds(["bounds.moving"]) == {"bounds.moving": {0: OffsetBounds(0, 10, epoch=0)}}
    with broker.admin() as admin:
        (done,) = admin.delete_records([TopicPartition("bounds.moving", 0, 4)]).values()
        done.result(ANSWER_TIMEOUT)
    fill(broker, "bounds.moving", 0, 5)
    assert topic_bounds.bounds(["bounds.moving"]) == {"bounds.moving": {0: OffsetBounds(0, 15, epoch=0)}}
    monkeypatch.setattr(module, "_FRESH", 0.0)
    assert topic_bounds.bounds(["bounds.moving"]) == {"bounds.moving": {0: OffsetBounds(4, 15, epoch=0)}}


def test_the_end_is_that_of_what_is_committed(broker: Broker, topic_bounds: TopicBounds) -> None:
    create(broker, "bounds.open")
    known = fill(broker, "bounds.open", 0, 3)
    producer = known.producer(transactional_id="bounds")
    producer.init_transactions(ANSWER_TIMEOUT)
    producer.begin_transaction()
    known.sent(producer, [{"value": b"t"}] * 2)
    assert topic_bounds.bounds(["bounds.open"]) == {"bounds.open": {0: OffsetBounds(0, 3, epoch=0)}}
    producer.commit_transaction(ANSWER_TIMEOUT)
    wait_until(
        lambda: topic_bounds.bounds(["bounds.open"])["bounds.open"][0] == OffsetBounds(0, 6, epoch=0),
        ANSWER_TIMEOUT,
        "it is committed",
    )


def test_growth_is_seen(broker: Broker, topic_bounds: TopicBounds, monkeypatch: pytest.MonkeyPatch) -> None:
    create(broker, "bounds.grows", 2)
    assert len(topic_bounds.bounds(["bounds.grows"])["bounds.grows"]) == 2
    broker.grow_topic("bounds.grows", 5)
    monkeypatch.setattr(module, "_FRESH", 0.0)
    assert topic_bounds.bounds(["bounds.grows"]) == {
        "bounds.grows": dict.fromkeys(range(5), OffsetBounds(0, 0, epoch=0))
    }


@pytest.mark.parametrize("name", ["bounds.nowhere", ".", "two words", ""])
def test_a_topic_that_is_not_there_is_missing(broker: Broker, topic_bounds: TopicBounds, name: str) -> None:
    create(broker, f"bounds.there-{len(name)}")
    with pytest.raises(StreamMissingError, match=r"Kafka system events: .*Create the topic"):
        topic_bounds.bounds([f"bounds.there-{len(name)}", name])


def test_asking_creates_no_topic(creating: Broker) -> None:
    topic_bounds = TopicBounds(settings_of(creating.bootstrap))
    with pytest.raises(StreamMissingError):
        topic_bounds.bounds(["asked-for"])
    with creating.admin() as admin:
        admin.list_topics("named", timeout=ANSWER_TIMEOUT)
        wait_until(
            lambda: "named" in admin.list_topics(timeout=ANSWER_TIMEOUT).topics,
            ANSWER_TIMEOUT,
            "naming a topic creates it",
        )
        assert "asked-for" not in admin.list_topics(timeout=ANSWER_TIMEOUT).topics


def test_a_topic_made_anew_has_its_own_id_and_bounds(
    broker: Broker, topic_bounds: TopicBounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker, "bounds.anew", 3)
    fill(broker, "bounds.anew", 0, 10)
    before = topic_bounds.topic_id("bounds.anew")
    assert topic_bounds.topic_id("bounds.anew") == before
    assert topic_bounds.bounds(["bounds.anew"])["bounds.anew"][0] == OffsetBounds(0, 10, epoch=0)
    with broker.admin() as admin:
        admin.delete_topics(["bounds.anew"])["bounds.anew"].result(ANSWER_TIMEOUT)
        wait_until(
            lambda: "bounds.anew" not in admin.list_topics(timeout=ANSWER_TIMEOUT).topics, ANSWER_TIMEOUT, "it is gone"
        )
    with pytest.raises(StreamMissingError):
        topic_bounds.bounds(["bounds.anew"])
    create(broker, "bounds.anew", 1)
    assert topic_bounds.bounds(["bounds.anew"]) == {"bounds.anew": {0: OffsetBounds(0, 0, epoch=0)}}
    monkeypatch.setattr(module, "_FRESH", 0.0)
    assert topic_bounds.topic_id("bounds.anew") != before


def test_a_broker_that_is_away_is_a_matter_of_soon(capfd: pytest.CaptureFixture[str]) -> None:
    bootstrap = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(KafkaBusyError) as raised:
        TopicBounds(settings_of(bootstrap), timeout=2.0).bounds(["clicks"])
    assert f"nothing about clicks came from {bootstrap} in 2 s; the Kafka client last said" in str(raised.value)
    assert "Connection refused" in str(raised.value)
    assert capfd.readouterr() == ("", "")


def test_a_killed_broker_is_waited_for() -> None:
    with Broker() as broker:
        create(broker, "killed", 2)
        topic_bounds = TopicBounds(settings_of(broker.bootstrap), timeout=ANSWER_TIMEOUT)
        before = topic_bounds.bounds(["killed"])
        broker.kill()
        answers: list[dict[str, dict[int, OffsetBounds]]] = []
        waiting = threading.Thread(target=lambda: answers.append(topic_bounds.bounds(["killed"])))
        waiting.start()
        broker.restart()
        waiting.join(ANSWER_TIMEOUT)
        assert len(answers) == 1
        assert {number: bounds[:2] for number, bounds in answers[0]["killed"].items()} == dict.fromkeys(
            before["killed"], (0, 0)
        )


def test_a_wrong_login_is_for_the_user_at_once(creating: Broker, capfd: pytest.CaptureFixture[str]) -> None:
    config = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": USER}
    settings = settings_of(creating.sasl_bootstrap, **config, sasl_password="not-the-pass.word")  # noqa: S106
    topic_bounds = TopicBounds(settings, timeout=ANSWER_TIMEOUT)
    started = time.monotonic()
    with pytest.raises(UserActionError, match="refused the login", check=has_code("KafkaLoginError")) as raised:
        topic_bounds.bounds(["clicks"])
    assert time.monotonic() - started < ANSWER_TIMEOUT / 2
    assert "not-the-pass.word" not in str(raised.value)
    assert capfd.readouterr() == ("", "")


def test_a_topic_the_login_may_not_see_is_forbidden(creating: Broker) -> None:
    config = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": USER}
    topic_bounds = TopicBounds(settings_of(creating.sasl_bootstrap, **config, sasl_password="a right password"))  # noqa: S106
    with pytest.raises(KafkaForbiddenError, match="no answer about hidden"):
        topic_bounds.bounds(["hidden"])


def test_a_rejected_config_names_the_key_and_no_value() -> None:
    with pytest.raises(UserActionError, match=r'"sasl\.pasword"', check=has_code("KafkaConfigError")) as raised:
        TopicBounds(settings_of("127.0.0.1:1", sasl_pasword="hunter2")).bounds(["clicks"])  # noqa: S106
    assert "hunter2" not in str(raised.value)
    assert raised.value.__context__ is None
