"""Topics are made as they were planned, and those that are there are taken only if they fit."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]  # it exports them unsaid

from holdfast_runtime.streams.kafka.system import Kafka
from holdfast_runtime.streams.kafka.topics import INTERMEDIATE, MARKERS, TopicPartitionsError, Topics
from holdfast_runtime.streams.kafka.trouble import KafkaBusyError
from tests.kafka.broker import Broker, free_ports
from tests.kafka.sent import Attempt, Worker, rows_of, seen, settings_of

pytestmark = pytest.mark.kafka


@pytest.fixture
def name() -> str:
    return f"topic-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topics(broker: Broker) -> Topics:
    return Topics(settings_of(broker.bootstrap))


def config_of(broker: Broker, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    with broker.admin() as admin:
        return {key: one.value for key, one in admin.describe_configs([resource])[resource].result(30).items()}


def test_a_topic_that_is_not_there_is_made_with_what_it_needs(broker: Broker, topics: Topics, name: str) -> None:
    assert topics.count(name) is None
    assert topics.ensure(name, 3, INTERMEDIATE) == 3
    assert topics.count(name) == 3
    assert config_of(broker, name).items() >= INTERMEDIATE.items()


def test_a_topic_that_is_there_is_taken_if_it_fits_and_refused_with_both_numbers_if_not(
    topics: Topics, name: str
) -> None:
    topics.ensure(name, 3, {})
    assert topics.ensure(name, 3, {}) == 3
    with pytest.raises(TopicPartitionsError, match=f"topic {name} has 3 partitions, but 5 are planned; set partitions"):
        topics.ensure(name, 5, {})
    assert topics.count(name) == 3


def test_a_topic_of_holdfasts_own_gets_more_partitions_and_never_fewer(topics: Topics, name: str) -> None:
    assert topics.ensure(name, 3, MARKERS, ours=True) == 3
    assert topics.ensure(name, 5, MARKERS, ours=True) == 5
    assert topics.ensure(name, 4, MARKERS, ours=True) == 5


def test_several_who_make_the_same_topic_at_once_get_the_same_one(broker: Broker, name: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = pool.map(lambda _: Topics(settings_of(broker.bootstrap)).ensure(name, 2, {}), range(4))
        assert list(made) == [2, 2, 2, 2]


def test_without_transactions_all_is_there_when_a_write_returns_and_twice_if_it_is_repeated(
    broker: Broker, name: str
) -> None:
    broker.create_topic(f"{name}-out", 2)
    kafka = Kafka(settings_of(broker.bootstrap), name, exactly_once=False)
    attempt = Attempt(broker.bootstrap, name, 1)
    assert kafka.begin(attempt.who, 2) == {}
    worker = Worker(attempt, kafka)
    worker.send(1)
    assert seen(broker, f"{name}-out") == rows_of("a", range(1, 2))
    worker.send(1)
    kafka.close()
    assert seen(broker, f"{name}-out") == sorted(2 * rows_of("a", range(1, 2)))


def test_without_brokers_a_write_without_transactions_says_that_it_waits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast_runtime.streams.kafka.untransacted._PATIENCE", 0.5)
    (port,) = free_ports(1)
    kafka = Kafka(settings_of(f"127.0.0.1:{port}"), name, exactly_once=False)
    with pytest.raises(KafkaBusyError, match=r"not all records were taken within 0.5 s"):
        Worker(Attempt("", name, 1), kafka).send(1)
    kafka.close()
