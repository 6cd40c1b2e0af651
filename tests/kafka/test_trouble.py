"""Which way out each of the client's codes has. No broker."""

import pytest
from confluent_kafka import KafkaError

from holdfast.errors import AwayError, HoldfastError, RetrySoonError, UserActionError
from holdfast_runtime.streams.kafka.client import errors as module
from holdfast_runtime.streams.kafka.client.errors import (
    KafkaBusyError,
    KafkaForbiddenError,
    is_about_offset,
    is_passing,
    is_refused_login,
    trouble,
)
from holdfast_runtime.streams.records import StreamMissingError

# ruff: noqa: SLF001 - codes that librdkafka makes itself have no other names


@pytest.mark.parametrize(
    ("number", "way", "code"),
    [
        (KafkaError._TRANSPORT, RetrySoonError, "KafkaBusyError"),
        (KafkaError._TIMED_OUT, RetrySoonError, "KafkaBusyError"),
        (KafkaError.NOT_LEADER_FOR_PARTITION, RetrySoonError, "KafkaBusyError"),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, RetrySoonError, "KafkaBusyError"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, StreamMissingError, "StreamMissingError"),
        (KafkaError._UNKNOWN_PARTITION, StreamMissingError, "StreamMissingError"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaForbiddenError, "KafkaForbiddenError"),
        (KafkaError._ALL_BROKERS_DOWN, AwayError, "KafkaAwayError"),
        (KafkaError._AUTHENTICATION, UserActionError, "KafkaLoginError"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, UserActionError, "KafkaLoginError"),
        (KafkaError._INVALID_ARG, UserActionError, "KafkaConfigError"),
        (KafkaError.MSG_SIZE_TOO_LARGE, UserActionError, "RecordRefusedError"),
        (KafkaError.INVALID_TIMESTAMP, UserActionError, "RecordRefusedError"),
        (KafkaError._INVALID_DIFFERENT_RECORD, UserActionError, "RecordRefusedError"),
        (KafkaError._BAD_MSG, UserActionError, "RecordsDamagedError"),
        (KafkaError.OFFSET_OUT_OF_RANGE, UserActionError, "OffsetNotWrittenError"),
        (KafkaError._FENCED, HoldfastError, "FencedError"),
        (KafkaError.PRODUCER_FENCED, HoldfastError, "FencedError"),
        (KafkaError.INVALID_PRODUCER_EPOCH, HoldfastError, "FencedError"),
        (-12345, KafkaBusyError, "KafkaBusyError"),
    ],
)
def test_each_code_has_a_way_out(number: int, way: type[HoldfastError], code: str) -> None:
    error = trouble(number, "clicks/0 can't be read")
    assert isinstance(error, way)
    assert error.code == code


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
