"""What a client is told, and what it is never told. No broker."""

import pytest

from holdfast.errors import UserActionError
from holdfast.spec.kafka_settings import REFUSED, without_values
from holdfast.spec.streams import KafkaSystem, System
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from tests.error_codes import has_code


def system(**config: str) -> System:
    return System(name="events", kafka=KafkaSystem(bootstrap_servers="a:1,b:2", config=config))


def settings(**config: str) -> KafkaSettings:
    return KafkaSettings("events", "a:1", {name.replace("_", "."): value for name, value in config.items()})


def test_the_secret_goes_before_the_config() -> None:
    system_settings = KafkaSettings.of(system(acks="spec", retries="spec"), {"retries": "secret", "debug": "secret"})
    assert (system_settings.system, system_settings.bootstrap) == ("events", "a:1,b:2")
    assert system_settings.given == {"acks": "spec", "retries": "secret", "debug": "secret"}
    assert system_settings.asking()["bootstrap.servers"] == "a:1,b:2"


@pytest.mark.parametrize("key", sorted(key for keys in REFUSED.values() for key in keys))
def test_what_nobody_may_give_is_refused_wherever_it_stands(key: str) -> None:
    for spec, secret in (({key: "hunter2"}, {}), ({}, {key: "hunter2"})):
        with pytest.raises(
            UserActionError,
            match=f'Kafka system events: its config can\'t be used: "{key}"',
            check=has_code("KafkaConfigError"),
        ) as raised:
            KafkaSettings.of(system(**spec), secret)
        assert "hunter2" not in str(raised.value)


def test_no_value_is_in_a_repr() -> None:
    assert "hunter2" not in repr(settings(sasl_password="hunter2"))  # noqa: S106


def test_what_makes_ranges_exact_can_not_be_changed() -> None:
    wrong = settings(isolation_level="read_uncommitted", auto_offset_reset="earliest", enable_partition_eof="false")
    reading = wrong.reading()
    assert reading["isolation.level"] == "read_committed"
    assert reading["auto.offset.reset"] == "error"
    assert reading["enable.partition.eof"] == "true"


def test_what_makes_them_fast_can_be() -> None:
    assert settings(fetch_wait_max_ms="7").reading()["fetch.wait.max.ms"] == "7"


def test_a_reader_is_of_no_group() -> None:
    assert "group.id" not in settings(group_id="mine").reading()
    assert settings(group_id="mine").asking()["group.id"] == "mine"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the password is hunter2", "the password is ***"),
        ("hunter2: refused, hunter2", "***: refused, ***"),
        ("hunter22 is another", "hunter22 is another"),
        ("a.b/c", "***"),
    ],
)
def test_values_are_blanked_as_whole_words_longest_first(text: str, shown: str) -> None:
    assert without_values(text, {"p": "hunter2", "q": "a.b/c", "r": "a.b", "empty": ""}) == shown
