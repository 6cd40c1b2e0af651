"""Topics are made as they were planned, and those that are there are taken only if they fit."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]  # it exports them unsaid

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.planning.plan import plan
from holdfast.spec.parse import parse_app
from holdfast_runtime.streams.app_streams import StreamsEnvironment
from holdfast_runtime.streams.kafka.admin.topics import INTERMEDIATE, KafkaTopics, TopicSpec, TopicUse, wanted
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError
from holdfast_runtime.streams.kafka.system import KafkaCluster
from holdfast_runtime.streams.records import StreamMissingError
from holdfast_runtime.streams.systems import Streams
from tests.error_codes import has_code
from tests.kafka.broker import Broker, free_ports
from tests.kafka.reached import ANSWER_TIMEOUT
from tests.kafka.sent import Attempt, Worker, rows_of, seen, settings_of
from tests.waiting import patience

pytestmark = pytest.mark.kafka


@pytest.fixture
def name() -> str:
    return f"topic-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topics(broker: Broker) -> KafkaTopics:
    return KafkaTopics(settings_of(broker.bootstrap))


def config_of(broker: Broker, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    with broker.admin() as admin:
        return {
            key: setting.value
            for key, setting in admin.describe_configs([resource])[resource].result(ANSWER_TIMEOUT).items()
        }


def so(
    partitions: int, use: TopicUse = TopicUse.WRITTEN, retention: str | None = None, replication: int | None = None
) -> TopicSpec:
    return wanted(use, partitions, replication, retention)


def test_a_missing_topic_is_made_with_what_it_needs(broker: Broker, topics: KafkaTopics, name: str) -> None:
    assert topics.count(name) is None
    assert topics.ensure(name, so(3, TopicUse.INTERMEDIATE)) == 3
    assert topics.count(name) == 3
    assert config_of(broker, name).items() >= INTERMEDIATE.items()


def test_an_input_is_made_only_if_the_spec_says(
    broker: Broker, topics: KafkaTopics, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KafkaTopics.__init__, "__defaults__", (patience(0.5),))
    stream = {"system": "events", "partitions": 2, "schema": "k STRING"}
    spec = {
        "systems": [{"name": "events", "kafka": {"bootstrapServers": broker.bootstrap}}],
        "streams": [
            {"name": "asked", "topic": f"{name}-asked", "create": True, **stream},
            {"name": "left", "topic": f"{name}-left", **stream},
            {"name": "out", "topic": f"{name}-out", "system": "events", "partitions": 2},
        ],
        "steps": [
            {"name": "all", "from": ["asked", "left"], "merge": {}},
            {"name": "written", "from": ["all"], "to": "out"},
        ],
    }
    tree = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": name}, "spec": spec}
    app = parse_app(tree)
    streams = Streams(name, app.spec, plan(app), StreamsEnvironment(None, {}), lambda: 0)
    for made in ("asked", "out"):
        streams.ensure(made, 2, 0)
    with pytest.raises(StreamMissingError, match=f"topic {name}-left .*Create the topic"):
        streams.ensure("left", 2, 0)
    assert {topic for topic in topics.names() if topic.startswith(name)} == {f"{name}-asked", f"{name}-out"}
    broker.create_topic(f"{name}-left", 2)
    streams.ensure("left", 2, 0)


def test_an_existing_topic_is_taken_unless_its_partition_count_differs(topics: KafkaTopics, name: str) -> None:
    topics.ensure(name, so(3))
    assert topics.ensure(name, so(3)) == 3
    with pytest.raises(
        UserActionError,
        match=f"topic {name} has 3 partitions, but 5 are planned; set partitions",
        check=has_code("TopicPartitionsError"),
    ):
        topics.ensure(name, so(5))
    assert topics.count(name) == 3


@pytest.mark.parametrize(("retention", "millis"), [("168h", "604800000"), ("90m", "5400000"), ("Forever", "-1")])
def test_a_topic_gets_the_replicas_and_retention_asked_for(
    broker: Broker, topics: KafkaTopics, name: str, retention: str, millis: str
) -> None:
    spec = so(1, retention=retention, replication=1)
    topics.ensure(name, spec)
    assert config_of(broker, name)["retention.ms"] == millis
    assert topics.ensure(name, spec) == 1


@pytest.mark.parametrize(
    ("spec", "difference"),
    [
        (so(1, replication=2), "replication 1, but 2 is asked for"),
        (so(1, retention="1h"), "retention.ms 5400000, but 3600000 is asked for"),
        (so(1, retention="Forever"), "retention.ms 5400000, but -1 is asked for"),
        (
            so(1, TopicUse.INTERMEDIATE),
            "retention.ms 5400000, but -1 is asked for, and message.timestamp.after.max.ms 3600000, but 9.*event times",
        ),
        (
            so(1, TopicUse.TIMED),
            "message.timestamp.after.max.ms 3600000, but 9223372036854775807 is asked for; event times",
        ),
        (so(1, TopicUse.READ, retention="1h"), "retention.ms 5400000, but 3600000 is asked for"),
        (so(1, TopicUse.MARKERS, replication=2), "replication 1, but 2 is asked for"),
        (
            so(1, replication=3, retention="1h"),
            "replication 1, but 3 is asked for, and retention.ms 5400000, but 3600000",
        ),
    ],
)
def test_an_existing_topic_of_other_settings_is_refused_with_both(
    broker: Broker, topics: KafkaTopics, name: str, spec: TopicSpec, difference: str
) -> None:
    topics.ensure(name, so(1, retention="90m"))
    before = config_of(broker, name)
    with pytest.raises(
        UserActionError,
        match=rf"topic {name} has {difference}.*change it with Kafka's tools, or let",
        check=has_code("TopicDiffersError"),
    ):
        topics.ensure(name, spec)
    assert config_of(broker, name) == before


def test_what_the_spec_does_not_say_is_not_checked(topics: KafkaTopics, name: str) -> None:
    topics.ensure(name, so(1, retention="90m"))
    assert topics.ensure(name, so(1)) == 1
    # Others write it: they decide how many brokers hold it.
    assert topics.ensure(name, so(1, TopicUse.READ, replication=3)) == 1


@pytest.mark.parametrize("order", [(TopicUse.TIMED, TopicUse.TIMED_READ), (TopicUse.TIMED_READ, TopicUse.TIMED)])
def test_the_first_of_two_apps_makes_the_topic_between_them(
    topics: KafkaTopics, name: str, order: tuple[TopicUse, TopicUse]
) -> None:
    for use in order:
        assert topics.ensure(name, so(2, use)) == 2


def test_more_replicas_than_brokers_are_said_with_both_numbers(topics: KafkaTopics, name: str) -> None:
    with pytest.raises(
        WorldChangeError,
        match=r"2 replicas, as the cluster has 1 broker: set kafka.replicat",
        check=has_code("TooFewBrokersError"),
    ):
        topics.ensure(name, so(1, replication=2))
    assert topics.count(name) is None


def test_an_own_topic_gets_more_partitions_and_never_fewer(topics: KafkaTopics, name: str) -> None:
    assert topics.ensure(name, so(3, TopicUse.MARKERS), ours=True) == 3
    assert topics.ensure(name, so(5, TopicUse.MARKERS), ours=True) == 5
    assert topics.ensure(name, so(4, TopicUse.MARKERS), ours=True) == 5


def test_simultaneous_makers_of_a_topic_get_the_same_one(broker: Broker, name: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = pool.map(lambda _: KafkaTopics(settings_of(broker.bootstrap)).ensure(name, so(2)), range(4))
        assert list(made) == [2, 2, 2, 2]


def test_without_transactions_a_repeated_write_is_there_twice(broker: Broker, name: str) -> None:
    broker.create_topic(f"{name}-out", 2)
    kafka = KafkaCluster(settings_of(broker.bootstrap), name, exactly_once=False)
    attempt = Attempt(broker.bootstrap, name, 1)
    assert kafka.begin(attempt.who, 2, attempt.owner) == {}
    worker = Worker(attempt, kafka)
    worker.send(1)
    assert seen(broker, f"{name}-out") == rows_of("a", range(1, 2))
    worker.send(1)
    kafka.close()
    assert seen(broker, f"{name}-out") == sorted(2 * rows_of("a", range(1, 2)))


def test_without_brokers_a_write_without_transactions_says_that_it_waits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast_runtime.streams.kafka.write.slot_writers.PATIENCE", 0.5)
    (port,) = free_ports(1)
    kafka = KafkaCluster(settings_of(f"127.0.0.1:{port}"), name, exactly_once=False)
    with pytest.raises(KafkaBusyError, match=r"not all records were taken within 0.5 s"):
        Worker(Attempt("", name, 1), kafka).send(1)
    kafka.close()
