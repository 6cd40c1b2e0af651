"""Every setting that the Kafka client knows is judged: for who asks for others, for the app's own pods, or refused."""

import ctypes
from collections import Counter
from pathlib import Path

import confluent_kafka
import pytest

from holdfast.spec.kafka_settings import (
    ASKING,
    NOT_FOR_ASKING,
    OF_THE_POD,
    REFUSED,
    asking,
    unacceptable,
    unacceptable_when_asking,
)

OF_PYTHON = {"default.topic.config", "logger", "oauth_cb", "on_commit", "on_delivery"}
"""What the Python client takes in addition."""
NAMES_A_FILE = ("location", "file", "path", "keytab", "providers", "plugin", "engine", "cmd", "stores")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """All settings of the client that is installed, from its own list."""
    (path,) = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs").glob("librdkafka-*")
    library, libc = ctypes.CDLL(str(path)), ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    shown = tmp_path_factory.mktemp("settings") / "properties.md"
    file = ctypes.c_void_p(libc.fopen(str(shown).encode(), b"w"))
    library.rd_kafka_conf_properties_show(file)
    libc.fclose(file)
    rows = [line.partition("|")[0].strip() for line in shown.read_text().splitlines() if line.count("|") > 4]
    return {name for name in rows if name and name != "Property" and not name.startswith("-")}


def judged() -> Counter[str]:
    groups = (*ASKING.values(), OF_THE_POD, *NOT_FOR_ASKING.values(), *REFUSED.values())
    return Counter(key for keys in groups for key in keys)


def test_exactly_the_settings_of_the_client_are_judged_once_each(known: set[str]) -> None:
    """A newer client may bring one: put it on a list in `kafka_settings`, with the reason."""
    assert len(known) > 150
    assert known - judged().keys() == set()
    assert judged().keys() - known == OF_PYTHON
    assert {key for key, times in judged().items() if times > 1} == set()


def test_who_asks_gets_no_file_library_or_command(known: set[str]) -> None:
    suspicious = {key for key in known if any(word in key for word in NAMES_A_FILE)}
    assert {"ssl.providers", "plugin.library.paths", "sasl.kerberos.kinit.cmd", "ssl.key.location"} <= suspicious
    for key in suspicious | {"sasl.oauthbearer.token.endpoint.url"}:
        assert unacceptable_when_asking({key: "/x"}) is not None, key
        assert asking({key: "/x"}) == {}, key


def test_pods_of_an_app_get_nothing_that_loads_or_runs() -> None:
    for key in ("ssl.providers", "ssl.engine.location", "plugin.library.paths", "sasl.kerberos.kinit.cmd"):
        assert unacceptable({key: "hunter2"}) == (
            f'"{key}" would load a library into the process that is told, or run a program there'
        )


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("sasl.pasword", "is no setting that can be given; did you mean sasl.password?"),
        ("test.mock.num.brokers", "is no setting that can be given"),  # hidden: the client's own list lacks it
        ("topic.acks", "is no setting that can be given"),
        ("bootstrap.servers", "is set by Holdfast"),
        ("stats_cb", "takes a function"),
    ],
)
def test_an_unlisted_setting_is_refused_with_what_was_meant(key: str, reason: str) -> None:
    for fault in (unacceptable({key: "hunter2"}), unacceptable_when_asking({key: "hunter2"})):
        assert fault is not None
        assert fault.startswith(f'"{key}" {reason}')
        assert "hunter2" not in fault


FOR_THE_POD = {
    "ssl.ca.location": "/mnt/ca.pem",
    "ssl.key.location": "/mnt/key.pem",
    "sasl.kerberos.keytab": "/mnt/kafka.keytab",
    "sasl.kerberos.principal": "orders/host-1@EXAMPLE.ORG",
    "sasl.oauthbearer.token.endpoint.url": "https://login/token",
    "sasl.oauthbearer.assertion.file": "/var/run/secrets/token",
}


@pytest.mark.parametrize(("key", "value"), FOR_THE_POD.items())
def test_files_tickets_and_tokens_are_for_pods_not_who_asks(key: str, value: str) -> None:
    assert unacceptable({key: value}) is None
    fault = unacceptable_when_asking({key: value})
    assert fault is not None
    assert f'"{key}" is for the pods of the app alone; ' in fault
    assert value not in fault


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sasl.kerberos.principal", "x; id"),
        ("sasl.kerberos.keytab", "$(id)"),
        ("sasl.kerberos.service.name", "kafka\nid"),
        ("sasl.oauthbearer.token.endpoint.url", "file:///etc/passwd"),
    ],
)
def test_values_the_client_runs_or_reads_are_refused_in_pods(key: str, value: str) -> None:
    fault = unacceptable({key: value})
    assert fault is not None
    assert fault.startswith(f'"{key}" ')
    assert value not in fault


@pytest.mark.parametrize("path", ["probe", "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/cert.pem"])
def test_the_certificates_of_the_system_are_for_who_asks_too(path: str) -> None:
    assert unacceptable_when_asking({"ssl.ca.location": path}) is None
    assert asking({"ssl.ca.location": path}) == {}


@pytest.mark.parametrize("path", ["/etc/ssl/../../dev/zero", "/dev/zero", "/etc/sslx", "etc/ssl/a"])
def test_other_certificates_are_not(path: str) -> None:
    assert "as ssl.ca.pem" in str(unacceptable_when_asking({"ssl.ca.location": path}))


def test_who_asks_takes_the_login_and_leaves_the_rest() -> None:
    login = {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
    rest = {"compression.type": "zstd", "debug": "all", "group.id": "orders", "api.version.request": "false"}
    assert unacceptable_when_asking({**login, **rest}) is None
    assert asking({**login, **rest}) == login


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        # The client's default would be Kerberos, which runs kinit.
        ({"security.protocol": "SASL_SSL"}, "needs sasl.mechanism, sasl.password, sasl.username"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, '"sasl.mechanism" is one of PLAIN, SCRAM'),
        ({"sasl.mechanisms": "OAUTHBEARER"}, '"sasl.mechanisms" is one of PLAIN, SCRAM'),
        ({"security.protocol": "hunter2"}, '"security.protocol" is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL'),
        ({"enable.ssl.certificate.verification": "perhaps"}, "is one of TRUE, FALSE"),
    ],
)
def test_an_impossible_login_is_refused_with_possible_ones(config: dict[str, str], reason: str) -> None:
    fault = unacceptable_when_asking(config)
    assert fault is not None
    assert reason in fault
    assert "hunter2" not in fault
