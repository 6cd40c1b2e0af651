"""Which way out each of the client's codes has. No broker."""

import pytest
from confluent_kafka import KafkaError

from holdfast.errors import HoldfastError, RetrySoonError, UserActionError
from holdfast_runtime.streams.kafka.client import errors as module
from holdfast_runtime.streams.kafka.client.errors import (
    KafkaAwayError,
    KafkaBusyError,
    KafkaConfigError,
    KafkaForbiddenError,
    KafkaLoginError,
    RecordRefusedError,
    RecordsDamagedError,
    is_about_offset,
    is_passing,
    is_refused_login,
    trouble,
)
from holdfast_runtime.streams.records import FencedError, StreamMissingError

# ruff: noqa: SLF001 - codes that librdkafka makes itself have no other names


@pytest.mark.parametrize(
    ("code", "way"),
    [
        (KafkaError._TRANSPORT, RetrySoonError),
        (KafkaError._TIMED_OUT, RetrySoonError),
        (KafkaError.NOT_LEADER_FOR_PARTITION, RetrySoonError),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, RetrySoonError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, StreamMissingError),
        (KafkaError._UNKNOWN_PARTITION, StreamMissingError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaForbiddenError),
        (KafkaError._ALL_BROKERS_DOWN, KafkaAwayError),
        (KafkaError._AUTHENTICATION, KafkaLoginError),
        (KafkaError.SASL_AUTHENTICATION_FAILED, KafkaLoginError),
        (KafkaError._INVALID_ARG, KafkaConfigError),
        (KafkaError.MSG_SIZE_TOO_LARGE, RecordRefusedError),
        (KafkaError.INVALID_TIMESTAMP, RecordRefusedError),
        (KafkaError._INVALID_DIFFERENT_RECORD, RecordRefusedError),
        (KafkaError._BAD_MSG, RecordsDamagedError),
        (KafkaError.OFFSET_OUT_OF_RANGE, UserActionError),
        (KafkaError._FENCED, FencedError),
        (KafkaError.PRODUCER_FENCED, FencedError),
        (KafkaError.INVALID_PRODUCER_EPOCH, FencedError),
        (-12345, KafkaBusyError),
    ],
)
def test_each_code_has_a_way_out(code: int, way: type[HoldfastError]) -> None:
    assert isinstance(trouble(code, "clicks/0 can't be read"), way)


def test_no_code_has_two_ways() -> None:
    codes = [code for codes in module._CODES.values() for code in codes]
    assert len(codes) == len(set(codes))


def test_a_message_says_what_where_and_the_cure() -> None:
    error = trouble(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Kafka system events: clicks/0 can't be read")
    assert str(error) == (
        "Kafka system events: clicks/0 can't be read: Broker: Topic authorization failed (TOPIC_AUTHORIZATION_FAILED). "
        "Grant it to the login of the system."
    )
    assert "as it said itself (_TRANSPORT)" in str(trouble(KafkaError._TRANSPORT, "x", "as it said itself"))


def test_an_unknown_code_is_not_taken_for_one_that_passes() -> None:
    assert is_passing(KafkaError._TRANSPORT)
    assert not is_passing(-12345)  # or records might be missed without a word
    assert not is_passing(KafkaError._BAD_MSG)
    assert is_refused_login(KafkaError._AUTHENTICATION)
    assert is_about_offset(KafkaError._AUTO_OFFSET_RESET)
