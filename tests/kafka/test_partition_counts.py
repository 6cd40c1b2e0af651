"""The answers of `read_counts` where real brokers answer, refuse, hang or are not there."""

import functools
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them without saying so
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from holdfast.errors import UserActionError, WorldChangeError
from holdfast_operator.brokers.partition_counts import BrokerLoginRefusedError, BrokerUnreachableError, read_counts
from tests.error_codes import has_code
from tests.kafka.broker import PASSWORD, USER, Broker, free_ports
from tests.waiting import patience, wait_until

pytestmark = pytest.mark.kafka

ANSWER = patience(30)  # for brokers that do answer: reached only when something is broken
SILENCE = 1.0  # for those that do not


@pytest.fixture(scope="module")
def guarded_broker() -> Iterator[Broker]:
    """A broker with logins and ACLs, and one that creates topics for whoever names them."""
    with Broker(sasl=True, settings={"auto.create.topics.enable": "true"}) as running:
        yield running


def login(password: str = PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": password,
    }


def allow_describe(broker: Broker, topic: str) -> None:
    who = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*")
    rule = AclBinding(*who, AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    same = AclBindingFilter(*who, AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    with broker.admin() as admin:
        admin.create_acls([rule])[rule].result(ANSWER)
        wait_until(lambda: admin.describe_acls(same).result(ANSWER) == [rule], ANSWER, f"the ACL of {topic} holds")


@contextmanager
def ends_within(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds


def test_each_topic_has_its_own_count(broker: Broker) -> None:
    broker.create_topic("counts.one", 1)
    broker.create_topic("counts.twelve", 12)
    counts = read_counts("events", broker.bootstrap, {}, ["counts.twelve", "counts.one"], timeout=ANSWER)
    assert counts == {"counts.twelve": 12, "counts.one": 1}


def test_a_topic_named_twice_is_counted_once(broker: Broker) -> None:
    broker.create_topic("counts.twice", 2)
    assert read_counts("events", broker.bootstrap, {}, ["counts.twice"] * 2, timeout=ANSWER) == {"counts.twice": 2}


def test_a_thousand_topics_are_one_question(broker: Broker) -> None:
    broker.create_topic("counts.0007", 7)
    names = [f"counts.{number:04}" for number in range(1000)]
    counts = read_counts("events", broker.bootstrap, {}, names, timeout=ANSWER)
    assert counts == {**dict.fromkeys(names), "counts.0007": 7}


def test_a_missing_topic_is_none_beside_one_that_exists(broker: Broker) -> None:
    broker.create_topic("missing.not", 3)
    counts = read_counts("events", broker.bootstrap, {}, ["missing.not", "missing.yes"], timeout=ANSWER)
    assert counts == {"missing.not": 3, "missing.yes": None}


@pytest.mark.parametrize("name", ["", ".", "two words", "x" * 250])
def test_a_name_no_topic_can_have_is_missing(broker: Broker, name: str) -> None:
    assert read_counts("events", broker.bootstrap, {}, [name], timeout=ANSWER) == {name: None}


def test_asking_creates_no_topic_where_naming_one_creates_it(guarded_broker: Broker) -> None:
    assert read_counts("events", guarded_broker.bootstrap, {}, ["asked-for"], timeout=ANSWER) == {"asked-for": None}
    with guarded_broker.admin() as admin:
        # The broker creates topics in the order they were named: once this one is there, ours would be there too.
        admin.list_topics("named", timeout=ANSWER)
        wait_until(lambda: "named" in admin.list_topics(timeout=ANSWER).topics, ANSWER, "naming a topic creates it")
        assert "asked-for" not in admin.list_topics(timeout=ANSWER).topics


def test_no_topics_need_no_broker() -> None:
    (port,) = free_ports(1)
    assert read_counts("events", f"127.0.0.1:{port}", {}, [], timeout=SILENCE) == {}


def test_a_topic_that_grew_has_its_new_count(broker: Broker) -> None:
    broker.create_topic("grows", 2)
    assert read_counts("events", broker.bootstrap, {}, ["grows"], timeout=ANSWER) == {"grows": 2}
    broker.grow_topic("grows", 8)
    assert read_counts("events", broker.bootstrap, {}, ["grows"], timeout=ANSWER) == {"grows": 8}


def test_settings_of_consumers_and_producers_are_accepted_in_silence(
    broker: Broker, capfd: pytest.CaptureFixture[str]
) -> None:
    broker.create_topic("shared-config", 1)
    config = {"group.id": "app", "auto.offset.reset": "error", "acks": "all", "debug": "all"}
    assert read_counts("events", broker.bootstrap, config, ["shared-config"], timeout=ANSWER) == {"shared-config": 1}
    assert capfd.readouterr() == ("", "")


def test_a_broker_that_is_down_is_named_with_the_cause(capfd: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    with ends_within(ANSWER / 2), pytest.raises(BrokerUnreachableError) as raised:
        read_counts("events", f"127.0.0.1:{port}", {}, ["clicks"], timeout=ANSWER)
    assert f"Kafka system events: no broker at 127.0.0.1:{port} gave an answer. Check that" in str(raised.value)
    assert "Connection refused" in raised.value.tried
    assert capfd.readouterr() == ("", "")


def test_a_host_name_nobody_knows_is_named_in_time(capfd: pytest.CaptureFixture[str]) -> None:
    with ends_within(SILENCE + 1), pytest.raises(BrokerUnreachableError, match=r"no-such-host\.invalid:9092") as raised:
        read_counts("events", "no-such-host.invalid:9092", {}, ["clicks"], timeout=SILENCE)
    assert raised.value.tried == "no-such-host.invalid:9092: there is no such name"
    assert capfd.readouterr() == ("", "")


def test_an_address_that_never_answers_ends_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with ends_within(SILENCE + 1), pytest.raises(BrokerUnreachableError, match=f"no broker at {address}"):
            read_counts("events", address, {}, ["clicks"], timeout=SILENCE)


def test_a_broker_that_dies_and_returns_is_found_again() -> None:
    with Broker() as broker:
        broker.create_topic("survives", 5)
        assert read_counts("events", broker.bootstrap, {}, ["survives"], timeout=ANSWER) == {"survives": 5}
        broker.kill()
        with ends_within(SILENCE + 1), pytest.raises(BrokerUnreachableError, match=broker.bootstrap):
            read_counts("events", broker.bootstrap, {}, ["survives"], timeout=SILENCE)
        broker.restart()
        assert read_counts("events", broker.bootstrap, {}, ["survives"], timeout=ANSWER) == {"survives": 5}


def test_a_permitted_login_sees_the_topic(guarded_broker: Broker) -> None:
    guarded_broker.create_topic("allowed", 4)
    allow_describe(guarded_broker, "allowed")
    counts = read_counts("events", guarded_broker.sasl_bootstrap, login(), ["allowed"], timeout=ANSWER)
    assert counts == {"allowed": 4}


def test_a_wrong_password_is_refused_at_once_and_not_repeated(
    guarded_broker: Broker, capfd: pytest.CaptureFixture[str]
) -> None:
    config = login("not-the-pass.word")
    with ends_within(ANSWER / 2), pytest.raises(BrokerLoginRefusedError) as raised:
        read_counts("events", guarded_broker.sasl_bootstrap, config, ["clicks"], timeout=ANSWER)
    message = str(raised.value)
    assert f"Kafka system events: the broker at {guarded_broker.sasl_bootstrap} refused the login" in message
    assert "Correct sasl.mechanism, sasl.password, sasl.username, security.protocol" in message
    assert "not-the-pass.word" not in message
    assert capfd.readouterr() == ("", "")


def test_a_login_mechanism_the_broker_lacks_is_a_refused_login(guarded_broker: Broker) -> None:
    config = {**login(), "sasl.mechanism": "SCRAM-SHA-512"}
    with pytest.raises(BrokerLoginRefusedError) as raised:
        read_counts("events", guarded_broker.sasl_bootstrap, config, ["clicks"], timeout=ANSWER)
    assert raised.value.tried == "the broker does not take sasl.mechanism ***, but PLAIN"


def test_a_listener_that_wants_a_login_is_no_missing_topic(guarded_broker: Broker) -> None:
    with pytest.raises(BrokerUnreachableError, match=r"security\.protocol and the certificates are"):
        read_counts("events", guarded_broker.sasl_bootstrap, {}, ["clicks"], timeout=SILENCE)


def test_topics_the_login_may_not_see_are_forbidden_not_missing(guarded_broker: Broker) -> None:
    guarded_broker.create_topic("seen", 1)
    guarded_broker.create_topic("hidden", 1)
    allow_describe(guarded_broker, "seen")
    with pytest.raises(WorldChangeError, check=has_code("TopicForbiddenError")) as raised:
        read_counts("events", guarded_broker.sasl_bootstrap, login(), ["seen", "hidden", "absent"], timeout=ANSWER)
    assert "does not let this login see absent, hidden. Grant it the operation Describe" in str(raised.value)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"sasl.pasword": "hunter2"}, '"sasl.pasword" is no setting that can be given; did you mean sasl.password?'),
        ({"security.protocol": "hunter2"}, '"security.protocol" is one of'),
        ({**login(), "ssl.key.pem": "hunter2", "security.protocol": "SASL_SSL"}, "ssl.key.pem or"),
        ({**login(), "ssl.ca.pem": "hunter2", "security.protocol": "SASL_SSL"}, "ssl.ca.pem can't be read"),
        ({"ssl.cipher.suites": "hunter2", "security.protocol": "SSL"}, "ssl.cipher.suites can't be read"),
        ({"plugin.library.paths": "hunter2"}, '"plugin.library.paths" would load a library'),
        ({"bootstrap.servers": "hunter2"}, '"bootstrap.servers" is set by Holdfast'),
    ],
)
def test_a_config_of_no_possible_login_names_the_key_alone(
    config: dict[str, str], reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserActionError, check=has_code("BrokerConfigInvalidError")) as raised:
        read_counts("events", "127.0.0.1:9092", config, ["clicks"], timeout=SILENCE)
    message = str(raised.value)
    assert message.startswith("Kafka system events: its config can't be used to ask brokers: ")
    assert reason in message
    assert "hunter2" not in message
    assert raised.value.__context__ is None  # or a traceback would show what the message leaves out
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_by_scram_only_the_right_password_sees_the_topic(mechanism: str) -> None:
    kind = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}[mechanism]
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    settings = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.login.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.login.scram-sha-512.sasl.jaas.config": scram,
        "super.users": "User:ANONYMOUS;User:a,b=c",
    }
    with Broker(sasl=True, settings=settings) as broker:
        broker.create_topic("guarded", 3)
        with broker.admin() as admin:
            made = UserScramCredentialUpsertion("a,b=c", ScramCredentialInfo(kind, 8192), b"a right password")
            admin.alter_user_scram_credentials([made])["a,b=c"].result(ANSWER)
        login_settings = {**login(), "sasl.mechanism": mechanism, "sasl.username": "a,b=c"}
        right, wrong = (
            {**login_settings, "sasl.password": "a right password"},
            {**login_settings, "sasl.password": "a wrong one"},
        )
        ask = functools.partial(read_counts, "events", broker.sasl_bootstrap, topics=["guarded"], timeout=ANSWER)
        wait_until(lambda: is_let_in(functools.partial(ask, config=right)), ANSWER, "the login is known")
        assert ask(config=right) == {"guarded": 3}
        with pytest.raises(BrokerLoginRefusedError) as raised:
            ask(config=wrong)
    assert "a wrong one" not in f"{raised.value} {raised.value.tried}"


def is_let_in(ask: Callable[[], object]) -> bool:
    """Whether a login is accepted; a new one is not known everywhere at once."""
    try:
        ask()
    except BrokerLoginRefusedError:
        return False
    return True
