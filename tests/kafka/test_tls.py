"""Encrypted brokers: read and written by the right certificate, refused by a wrong one with the cure and no secret."""

import functools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast.spec.streams import KafkaSystem, System
from holdfast.tasks.partitions import StreamPartition
from holdfast_operator.brokers.partition_counts import BrokerUnreachableError, read_counts
from holdfast_runtime.streams.kafka.admin.topics import KafkaTopics
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings, kafka_settings
from holdfast_runtime.streams.kafka.system import KafkaCluster
from holdfast_runtime.streams.records import OffsetRange
from tests.error_codes import has_code
from tests.kafka.broker import PASSWORD, USER, Broker
from tests.kafka.sent import Attempt, Worker, rows_of, seen
from tests.waiting import patience, wait_until

pytestmark = pytest.mark.kafka
TOPIC, APP = "sealed-out", "sealed"


@dataclass(frozen=True)
class Sealed:
    """A broker, and certificates in files."""

    broker: Broker
    right: Path
    wrong: Path

    def settings(self, folder: Path, certificate: Path, *, in_secret: bool) -> KafkaSettings:
        """As spec and Secret give them: the certificate as an entry of the Secret, or a file that the config names."""
        secret = folder / "kafka-auth"
        secret.mkdir()
        (secret / "sasl.username").write_text(USER)
        (secret / "sasl.password").write_text(PASSWORD)
        config = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
        if in_secret:
            shutil.copy(certificate, secret / "ssl.ca.pem")
        else:
            config["ssl.ca.location"] = str(certificate)
        kafka = KafkaSystem(bootstrap_servers=self.broker.sasl_bootstrap, config=config, secret_name="kafka-auth")  # noqa: S106
        return kafka_settings(System(name="events", kafka=kafka), folder, {})


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sealed]:
    folder = tmp_path_factory.mktemp("tls")
    keystore, right = certified(folder, "right")
    _, wrong = certified(folder, "wrong")
    rights = {"super.users": f"User:ANONYMOUS;User:{USER}"}
    with Broker(sasl=True, keystore=keystore, settings=rights) as broker:
        broker.create_topic(TOPIC, 2)
        yield Sealed(broker, right, wrong)


def certified(folder: Path, name: str) -> tuple[Path, Path]:
    """A keystore with a key for 127.0.0.1, and the certificate that signs it, which is its own."""
    store, certificate = folder / f"{name}.p12", folder / f"{name}.pem"
    store_options = ["-alias", "broker", "-keystore", str(store), "-storetype", "PKCS12", "-storepass", PASSWORD]
    subject = ["-keyalg", "EC", "-dname", f"CN={name}", "-ext", "SAN=IP:127.0.0.1", "-validity", "2"]
    for command in (
        ["-genkeypair", *subject, *store_options],
        ["-exportcert", "-rfc", "-file", str(certificate), *store_options],
    ):
        subprocess.run(["keytool", *command], check=True, capture_output=True, timeout=patience(60))  # noqa: S607
    return store, certificate


@pytest.mark.parametrize("in_secret", [False, True], ids=["ssl.ca.location", "ssl.ca.pem"])
def test_encrypted_connections_read_what_they_wrote(
    sealed: Sealed, tmp_path: Path, in_secret: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = sealed.settings(tmp_path, sealed.right, in_secret=in_secret)
    attempt = Attempt(sealed.broker.sasl_bootstrap, APP, int(in_secret) + 1)
    kafka = KafkaCluster(settings, APP)
    kafka.before = kafka.begin(attempt.who, 2, attempt.owner)
    Worker(attempt, kafka).send(int(in_secret) + 1)
    expected = rows_of("a", range(1, int(in_secret) + 2))
    assert seen(sealed.broker, TOPIC) == expected

    def fetched() -> list[str]:
        bounds = kafka.bounds([TOPIC])[TOPIC]
        ranges = [
            OffsetRange(StreamPartition(TOPIC, number), bound.oldest, bound.end) for number, bound in bounds.items()
        ]
        return sorted(
            value.decode() for offset_range in ranges for value in kafka.fetch(offset_range).column("value").to_pylist()
        )

    wait_until(lambda: fetched() == expected, 30, "all is read")
    kafka.close()
    assert capfd.readouterr() == ("", "")


def test_asking_for_counts_takes_the_same_texts_and_checks_certificates(sealed: Sealed) -> None:
    login = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    right, wrong = ({**login, "ssl.ca.pem": one.read_text()} for one in (sealed.right, sealed.wrong))
    ask = functools.partial(read_counts, "events", topics=[TOPIC], timeout=30)
    assert ask(sealed.broker.sasl_bootstrap, right) == {TOPIC: 2}
    for bootstrap, config, reason in (
        (sealed.broker.sasl_bootstrap, wrong, "certificate verify failed"),
        (
            sealed.broker.sasl_bootstrap.replace("127.0.0.1", "localhost"),
            right,
            "certificate is not valid for 'localhost'",
        ),
        (sealed.broker.sasl_bootstrap, {**right, "security.protocol": "SASL_PLAINTEXT"}, ""),
    ):
        with pytest.raises(BrokerUnreachableError) as raised:
            ask(bootstrap, config)
        assert reason in raised.value.tried
        assert PASSWORD not in f"{raised.value} {raised.value.tried}"
    unnamed = {**right, "ssl.endpoint.identification.algorithm": "none"}
    assert ask(sealed.broker.sasl_bootstrap.replace("127.0.0.1", "localhost"), unnamed) == {TOPIC: 2}
    unproven = {**wrong, "enable.ssl.certificate.verification": "false"}
    assert ask(sealed.broker.sasl_bootstrap, unproven) == {TOPIC: 2}


def asks(settings: KafkaSettings) -> None:
    KafkaCluster(settings, APP).bounds([TOPIC])


def reads(settings: KafkaSettings) -> None:
    kafka = KafkaCluster(settings, APP)
    try:
        kafka.fetch(OffsetRange(StreamPartition(TOPIC, 0), 0, 1))
    finally:
        kafka.close()


def counts(settings: KafkaSettings) -> None:
    KafkaTopics(settings).count(TOPIC)


def begins(settings: KafkaSettings) -> None:
    attempt = Attempt(settings.bootstrap, APP, 9)
    KafkaCluster(settings, APP).begin(attempt.who, 2, attempt.owner)


@pytest.mark.parametrize("in_secret", [False, True], ids=["ssl.ca.location", "ssl.ca.pem"])
@pytest.mark.parametrize("act", [asks, reads, counts, begins])
def test_a_foreign_certificate_is_refused_with_a_cure_without_secrets(
    sealed: Sealed,
    tmp_path: Path,
    in_secret: bool,
    act: Callable[[KafkaSettings], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    settings = sealed.settings(tmp_path, sealed.wrong, in_secret=in_secret)
    with pytest.raises(UserActionError, check=has_code("KafkaLoginError")) as raised:
        act(settings)
    message = str(raised.value)
    assert "no encrypted connection to the broker at" in message
    assert "certificate" in message
    assert "Correct" in message
    assert "ssl.ca." in message.partition("Correct")[2]
    assert PASSWORD not in message
    assert "BEGIN CERTIFICATE" not in message
    assert str(sealed.wrong) not in message
    assert capfd.readouterr() == ("", "")
