"""Questions to brokers whose leaders change and die: which are asked again, by a fresh client, and which are not."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them unsaid
    AdminClient,
    ListOffsetsResultInfo,
    OffsetSpec,
)

from holdfast_runtime.streams.kafka.client import questions as module
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError
from holdfast_runtime.streams.kafka.client.questions import BrokerQuestions, QuestionRefusedError
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from tests.kafka.admins import BLANK, SILENCE, AdminAnswer, Admins

_END = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_STALE = (KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION)


def end(questions: BrokerQuestions) -> int:
    place = TopicPartition("clicks", 0)

    def ask(client: AdminClient, seconds: float) -> "Mapping[TopicPartition, Future[ListOffsetsResultInfo]]":
        return client.list_offsets({place: _END}, request_timeout=seconds)

    return int(questions.answers("clicks/0", ["clicks"], ask)[place].offset)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FIRST_TRY", "_GRACE", "_FIRST_PAUSE"):
        monkeypatch.setattr(module, name, 0.01)


def asked(
    monkeypatch: pytest.MonkeyPatch, *lives: AdminAnswer, patience: float = 5.0
) -> tuple[BrokerQuestions, Admins]:
    """Each client gives the same answer for as long as it lives."""
    admins = Admins(*lives)
    monkeypatch.setattr(module, "AdminClient", admins)
    return BrokerQuestions(KafkaSettings("events", "a:1,b:1", {}), patience), admins


@pytest.mark.parametrize("first", [*_STALE, KafkaError._ALL_BROKERS_DOWN, KafkaError._NOENT, SILENCE, BLANK])  # noqa: SLF001 - have no other names
def test_a_client_that_asks_whoever_led_before_is_replaced(first: AdminAnswer, monkeypatch: pytest.MonkeyPatch) -> None:
    questions, admins = asked(monkeypatch, first, ListOffsetsResultInfo(7, -1, 3))
    assert end(questions) == 7
    assert end(questions) == 7
    assert len(admins.configs) == 2


def test_a_refusal_that_any_client_would_hear_is_heard_once(monkeypatch: pytest.MonkeyPatch) -> None:
    questions, admins = asked(monkeypatch, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(QuestionRefusedError) as refusal:
        end(questions)
    assert (refusal.value.code, refusal.value.part) == (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        TopicPartition("clicks", 0),
    )
    assert len(admins.configs) == 1


@pytest.mark.parametrize(("answer", "why"), [
    (KafkaError.FENCED_LEADER_EPOCH, "no answer about clicks/0 from a:1,b:1: .*FENCED_LEADER_EPOCH"),
    (SILENCE, "nothing about clicks/0 came from a:1,b:1 in 0.5 s"),
    (BLANK, "nothing about clicks/0 came from a:1,b:1 in 0.5 s"),
])  # fmt: skip
def test_the_last_fault_is_raised_with_brokers_and_partition(
    answer: AdminAnswer, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions, admins = asked(monkeypatch, answer, patience=0.5)
    with pytest.raises(KafkaBusyError, match=why):
        end(questions)
    assert len(admins.configs) > 1


def test_slow_brokers_get_more_time_from_question_to_question(monkeypatch: pytest.MonkeyPatch) -> None:
    questions, admins = asked(monkeypatch, SILENCE, patience=0.2)
    for _ in range(5):  # each try gets twice the time of the one before, and each question has one at least
        with pytest.raises(KafkaBusyError):
            end(questions)
    assert admins.timeouts[0] == 0.01
    assert max(admins.timeouts) > 0.1


def test_a_fresh_client_knows_the_brokers_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    questions, admins = asked(monkeypatch, ListOffsetsResultInfo(7, -1, 3))
    end(questions)
    questions.close()
    end(questions)
    assert [config["bootstrap.servers"] for config in admins.configs] == ["a:1,b:1", "a:1,b:1,c:2,[::1]:3"]


def test_a_client_that_refuses_its_config_shows_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*_: object, **__: object) -> Any:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "no such value: hunter2"))  # noqa: SLF001 - its name

    monkeypatch.setattr(module, "AdminClient", refusing)
    with pytest.raises(Exception, match="its config can't be used") as raised:
        end(BrokerQuestions(KafkaSettings("events", "a:1", {"sasl.password": "hunter2"}), 1.0))
    assert "hunter2" not in str(raised.value)
