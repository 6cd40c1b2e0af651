"""A topic that is new is there for one broker before another: who knows that it was made asks again."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from holdfast_runtime.streams.kafka.admin.bounds import TopicBounds
from holdfast_runtime.streams.kafka.admin.topics import KafkaTopics, TopicUse, wanted
from holdfast_runtime.streams.kafka.client import questions
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError
from holdfast_runtime.streams.kafka.client.questions import QuestionRefusedError
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.records import StreamMissingError
from tests.kafka.admins import AdminAnswer, Admins

SETTINGS = KafkaSettings("events", "a:1,b:1", {})
UNKNOWN = KafkaError.UNKNOWN_TOPIC_OR_PART
KNOWN = SimpleNamespace(topic_id="7", partitions=[SimpleNamespace(replicas=[])])


def brokers(monkeypatch: pytest.MonkeyPatch, *answers: AdminAnswer) -> None:
    monkeypatch.setattr(questions, "AdminClient", Admins(*answers))
    monkeypatch.setattr(questions, "_FIRST_PAUSE", 0.001)


def test_settings_are_asked_for_until_the_broker_knows_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = {"max.message.bytes": SimpleNamespace(value="1234")}
    brokers(monkeypatch, UNKNOWN, UNKNOWN, limit)
    assert KafkaTopics(SETTINGS).limits("clicks").record_bytes == 1234


def test_a_topic_is_asked_for_until_the_broker_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers(monkeypatch, UNKNOWN, UNKNOWN, KNOWN)
    bounds = TopicBounds(SETTINGS)
    with pytest.raises(StreamMissingError):
        bounds.topic_id("clicks")
    bounds.made("clicks")
    assert bounds.topic_id("clicks") == "7"


def test_a_topic_is_made_later_where_all_brokers_are_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    part, fenced = "topic clicks", "Unable to replicate the partition 1 time(s): All brokers are currently fenced."

    def refused(*_: object) -> None:
        raise QuestionRefusedError(part, KafkaError.INVALID_REPLICATION_FACTOR, fenced)

    monkeypatch.setattr(KafkaTopics, "_found", lambda *_: None)
    monkeypatch.setattr(KafkaTopics, "_answer", refused)
    with pytest.raises(KafkaBusyError, match=r"topic clicks: .*fenced.*It may pass by itself"):
        KafkaTopics(SETTINGS).ensure("clicks", wanted(TopicUse.WRITTEN, 1, 1))
