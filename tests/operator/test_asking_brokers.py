"""What the operator does and says when what a spec calls its brokers is something else. Real sockets, no Kafka."""

import functools
import http.server
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast_operator.brokers.addresses import AddressPattern, AddressRule
from holdfast_operator.brokers.partition_counts import BrokerUnreachableError, read_counts, read_topic_names
from tests.error_codes import has_code
from tests.operator.peers import NO_BROKERS, FakeBroker, Peer, listening, silent
from tests.waiting import patience

HERE = AddressRule(never=())
"""The operator's, but for this host, which it would never ask."""
TIME = 1.5
LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "reader", "sasl.password": "hunter2"}
PROTOCOLS: Mapping[str, Mapping[str, str]] = {
    "PLAINTEXT": {},
    "SSL": {},
    "SASL_PLAINTEXT": LOGIN,
    "SASL_SSL": {**LOGIN, "sasl.mechanism": "SCRAM-SHA-512"},
}


def closed() -> str:
    """An address that nobody listens to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def threads() -> int:
    """How many this process has, also those that Python did not start."""
    return len(list(Path("/proc/self/task").iterdir()))


def failing(bootstrap: str, config: Mapping[str, str], rule: AddressRule = HERE) -> tuple[str, float]:
    """What is said, without the address that the spec has, and after how long."""
    started = time.monotonic()
    with pytest.raises(BrokerUnreachableError) as raised:
        read_counts("events", bootstrap, config, ["clicks"], timeout=TIME, rule=rule)
    return str(raised.value).replace(bootstrap, "THERE"), time.monotonic() - started


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a key for this host, one for a client that is encrypted, and their certificates."""
    directory = tmp_path_factory.mktemp("certificates")
    for name, key in (("server", ["-noenc"]), ("client", ["-passout", "pass:hunter2"])):
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2"]
        subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
        files = ["-keyout", str(directory / f"{name}.key"), "-out", str(directory / f"{name}.pem")]
        subprocess.run([*command, *subject, *key, *files], check=True, capture_output=True)
    return directory


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_anything_but_a_broker_gives_one_message_after_one_time(protocol: str, certificates: Path) -> None:
    trust = (certificates / "server.pem").read_text()  # those of the system take a while to be read
    config = {"security.protocol": protocol, "ssl.ca.pem": trust, **PROTOCOLS[protocol]}
    with ExitStack() as stack, ThreadPoolExecutor(16) as pool:
        addresses = [stack.enter_context(listening(talk)).address for talk in NO_BROKERS.values()]
        addresses += [closed(), "no-such-host.invalid:9092"]
        answers = list(pool.map(lambda address: failing(address, config), addresses))
        # What the rule has something against, once its name was looked up.
        answers += pool.map(lambda address: failing(address, config, AddressRule()), ["localhost:9092", "127.1:9092"])
    assert {message for message, _ in answers} == {
        (
            "Kafka system events: no broker at THERE gave an answer. Check that a broker runs there, that the address "
            "can be reached from here, and that security.protocol and the certificates are those of this listener."
        )
    }
    times = [seconds for _, seconds in answers]
    assert min(times) >= TIME
    assert max(times) < TIME + 0.5, "a busy machine, or one of them took longer"


@pytest.mark.parametrize("first", ["closed", "silent", "not admitted"])
def test_time_of_the_second_address_tells_nothing_of_the_first(first: str) -> None:
    with listening(silent) as quiet, listening(FakeBroker([], {"clicks": (0, 4)})) as listener:
        before = {"closed": closed(), "silent": quiet.address, "not admitted": "localhost:9"}[first]
        # Of the name localhost, nothing but its addresses is not admitted.
        rule = AddressRule(tuple(map(AddressPattern.parse, ("127.0.0.1:1024-65535", "10.0.0.0/8"))), never=())
        started = time.monotonic()
        counts = read_counts("events", f"{before},{listener.address}", {}, ["clicks"], timeout=TIME, rule=rule)
    assert counts == {"clicks": 4}
    assert listener.connected[0] - started >= TIME / 2
    assert bool(quiet.connected) == (first == "silent")


def test_addresses_in_an_answer_get_no_connection_and_no_thread() -> None:
    with listening(silent) as victim:
        broker = FakeBroker([("127.0.0.1", victim.port)] * 3000, {"clicks": (0, 4)})
        with listening(broker) as listener:
            before = threads()
            counts = read_counts("events", listener.address, {}, ["clicks"], timeout=20, rule=HERE)
            assert threads() - before < 20
    assert counts == {"clicks": 4}
    assert len(listener.connected) == 1
    assert victim.connected == []


@pytest.mark.parametrize(
    "broker",
    [
        FakeBroker([], {"clicks": (0, 4)}, cut=0),
        FakeBroker([], {"clicks": (0, 4)}, cut=3),
        FakeBroker([], {"clicks": (0, 4)}, cut=40),
        FakeBroker([], {}),
        FakeBroker([], {"views": (0, 4)}),
        FakeBroker([], {"clicks": (0, 4), "views": (0, 4)}),
        FakeBroker([], {"clicks": (0, 0)}),
        FakeBroker([], {"clicks": (0, 100_001)}),
        FakeBroker([], {"clicks": (7, 0)}),
    ],
    ids=["nothing", "3 bytes", "half", "no topic", "another", "one more", "none", "too many", "an error"],
)
def test_an_answer_that_no_broker_would_give_is_none(broker: FakeBroker) -> None:
    with listening(broker) as listener, pytest.raises(BrokerUnreachableError):
        read_counts("events", listener.address, {}, ["clicks"], timeout=5)


def test_names_are_those_a_topic_can_have() -> None:
    topics = {"clicks": (0, 4), "a.b_c-d": (0, 0), "\x1b[2J": (0, 1), "x" * 250: (0, 1), "hidden": (29, 0)}
    with listening(FakeBroker([("127.0.0.1", 9)] * 100, topics)) as listener:
        assert read_topic_names("events", listener.address, {}, timeout=20) == {"clicks", "a.b_c-d"}


@pytest.mark.parametrize("length", [9 << 20, 65 << 20])
def test_an_answer_with_all_names_has_its_limit(length: int) -> None:
    def announcing(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(struct.pack(">i", length))

    with listening(announcing) as listener, pytest.raises(BrokerUnreachableError) as raised:
        read_topic_names("events", listener.address, {}, timeout=20)
    assert (f"an answer of {length} bytes" in raised.value.tried) == (length > 64 << 20)


def test_an_address_outside_the_values_is_refused_without_a_connection() -> None:
    with listening(silent) as peer:
        only = AddressRule((AddressPattern.parse("*.kafka.svc:9092"),), never=())
        for rule in (AddressRule(), only):
            with pytest.raises(
                UserActionError,
                match=f"asks no brokers at {peer.address}.*kafka.allowed",
                check=has_code("BrokerNotAdmittedError"),
            ):
                read_counts("events", peer.address, {}, ["clicks"], timeout=60, rule=rule)
    assert peer.connected == []


def test_admitted_brokers_beside_others_are_asked() -> None:
    with listening(silent) as other, listening(FakeBroker([], {"clicks": (0, 4)})) as listener:
        rule = AddressRule((AddressPattern.parse(listener.address),), never=())
        bootstrap = f"{other.address},{listener.address}"
        assert read_counts("events", bootstrap, {}, ["clicks"], timeout=20, rule=rule) == {"clicks": 4}
    assert other.connected == []


def test_no_token_is_fetched_at_an_address_of_the_spec(own_web: tuple[str, list[str]]) -> None:
    url, requests = own_web
    config = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "app",
        "sasl.oauthbearer.client.secret": "hunter2",
        "sasl.oauthbearer.token.endpoint.url": url,
    }
    for rule in (None, HERE):
        with pytest.raises(
            UserActionError,
            match=r'"sasl\.[a-z.]+" is (for the pods|one of)',
            check=has_code("BrokerConfigInvalidError"),
        ) as raised:
            read_counts("events", closed(), config, ["clicks"], timeout=2, rule=rule)
        assert "hunter2" not in str(raised.value)
        assert url not in str(raised.value)
    assert requests == []


@pytest.fixture
def own_web() -> Iterator[tuple[str, list[str]]]:
    """An address for tokens, and the requests that came."""
    requests: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(self.path)
            self.send_error(500, "the answer of an internal service")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/token", requests
        server.shutdown()


def test_a_certificate_of_the_app_is_its_login(certificates: Path) -> None:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates / "client.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    broker = FakeBroker([], {"clicks": (0, 4)})

    def sealed(connection: socket.socket) -> None:
        with server.wrap_socket(connection, server_side=True) as inside:
            broker(inside)

    trust = {"security.protocol": "SSL", "ssl.ca.pem": (certificates / "server.pem").read_text()}
    login = {
        "ssl.certificate.pem": (certificates / "client.pem").read_text(),
        "ssl.key.pem": (certificates / "client.key").read_text(),
        "ssl.key.password": "hunter2",
    }
    with listening(sealed) as peer:
        ask = functools.partial(read_counts, "events", peer.address, topics=["clicks"], timeout=20)
        assert ask({**trust, **login}) == {"clicks": 4}
        with pytest.raises(BrokerUnreachableError):
            ask(trust)
        for wrong in ({"ssl.key.password": "hunter3"}, {"ssl.key.password": ""}, {"ssl.key.pem": ""}):
            with pytest.raises(
                UserActionError, match=r"ssl\.key\.password can't be read", check=has_code("BrokerConfigInvalidError")
            ) as raised:
                ask({**trust, **login, **wrong})
            assert "hunter" not in str(raised.value)


def test_without_a_rule_the_cause_is_shown_at_once() -> None:
    peer, started = Peer(int(closed().rpartition(":")[2])), time.monotonic()
    with pytest.raises(BrokerUnreachableError) as raised:
        read_counts("events", peer.address, {}, ["clicks"], timeout=patience(60))
    assert time.monotonic() - started < patience(5)
    assert raised.value.tried == f"{peer.address}: [Errno 111] Connection refused"
