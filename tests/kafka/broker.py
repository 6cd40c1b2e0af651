"""A real Kafka for tests, KRaft nodes on loopback, made from jars of Maven Central; mostly one is enough.

Called by the `broker` fixture and by tests that kill or reconfigure a broker of their own. Must not be imported by
product code, and ends only the process it started. Leaves nothing behind, unless pytest itself is killed: then the
broker runs on.

The jars (44 MiB) and a class data archive that halves the start of the JVM are made once and kept in
`~/.cache/holdfast/kafka-<version>/`, which may be deleted at any time.
"""

import base64
import hashlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.cached import cache, locked
from tests.kafka.reached import Reached
from tests.waiting import patience, wait_until

POM = Path(__file__).with_name("pom.xml")
START_TIMEOUT = 90.0  # a loaded two-core machine with a cold disk needed 8 s
STOP_TIMEOUT = patience(30)

# C1 and the serial collector: a test broker lives for seconds, so what counts is how soon it answers.
JVM = (
    "-Xmx512m",
    "-Xms64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)

# One node with data to throw away: no replication, small internal topics, few threads, no waiting for members.
SETTINGS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "2000",  # a killed broker may come back only when its old session has ended
    "broker.heartbeat.interval.ms": "500",
    "metadata.max.idle.interval.ms": "30000",  # twice a second, by default, an idle broker writes that it is idle
    "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),  # the default takes 128 MiB of a 512 MiB heap
    "log.retention.hours": "-1",
    "log.retention.check.interval.ms": "86400000",  # but for one look, 30 s after the start
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}

USER = "reader"
PASSWORD = "a right password"  # noqa: S105 - the test broker's own


class BrokerFailedError(Exception):
    """The broker did not start, died, or could not be made; the message ends with its log."""


def kafka_jars() -> Path:
    """Return the directory of the broker's jars, made by Maven if it is not there yet."""
    version = kafka_version()
    # Keyed by the pom as well, or an edited one would go on with the jars of the old.
    jars = cache() / f"kafka-{version}" / f"jars-{_digest(POM.read_text())}"
    with locked(cache() / f"kafka-{version}.lock"):
        if not jars.is_dir():
            partial = jars.with_suffix(".partial")  # under the lock, so what stands there is a dead build's
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            _run([_tool("mvn"), "-B", "-q", "-f", str(POM), "dependency:copy-dependencies",
                  "-DincludeScope=runtime", f"-DoutputDirectory={partial}"], timeout=600)  # fmt: skip
            partial.rename(jars)
    return jars


def kafka_version() -> str:
    """Return the version pom.xml names, which is the only place that names one."""
    version = re.search(r"<kafka\.version>([^<]+)</kafka\.version>", POM.read_text())
    if version is None:
        msg = f"{POM} has no property kafka.version"
        raise BrokerFailedError(msg)
    return version[1]


def free_ports(count: int) -> list[int]:
    """Return distinct loopback ports nobody listens on, below those the kernel hands to clients.

    A client that keeps dialling a dead broker on a port of that range can be given the very port as its own end, and
    then talks to itself and keeps the broker from coming back.
    """
    with ExitStack() as held:  # all stay bound until every one is known, or two of them could be the same
        ports: list[int] = []
        while len(ports) < count:
            sock = held.enter_context(socket.socket())
            with suppress(OSError):
                sock.bind(("127.0.0.1", 20_000 + secrets.randbelow(12_000)))
                ports.append(sock.getsockname()[1])
        return ports


class Broker(Reached):
    """A broker in a directory of its own: `with Broker() as broker: ... broker.bootstrap`.

    `sasl=True` adds a second listener, `sasl_bootstrap`, where USER logs in with PASSWORD and may do only what an ACL
    allows; who comes by `bootstrap` may do everything. With a `keystore`, whose password is PASSWORD, that listener is
    encrypted. `settings` are broker properties on top of SETTINGS. With `first`, it joins the cluster of that broker,
    which alone is the controller, under another node `number`. `port` is that of `bootstrap`; without, a free one.
    """

    more_jvm: tuple[str, ...] = ()
    """Options behind JVM."""

    def __init__(
        self,
        *,
        sasl: bool = False,
        keystore: Path | None = None,
        settings: Mapping[str, str] | None = None,
        first: "Broker | None" = None,
        number: int = 1,
        port: int | None = None,
    ) -> None:
        self._sasl, self._keystore = sasl, keystore
        self._settings = {**SETTINGS, **(settings or {})}
        self._client_port, self._controller_port, self._sasl_port = free_ports(3)
        self._client_port = port or self._client_port
        self.number = number
        self.controller_port: int = self._controller_port if first is None else first.controller_port
        self._joins = first is not None
        # Ids are given with "=", because one may begin with "-" and would be taken for an option.
        self.cluster: str = first.cluster if first else base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]
        self._jars = kafka_jars()
        self._directory = Path(tempfile.mkdtemp(prefix="holdfast-kafka-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients without a login."""
        return f"127.0.0.1:{self._client_port}"

    @property
    def sasl_bootstrap(self) -> str:
        """The address for clients that log in; only with `sasl=True`."""
        return f"127.0.0.1:{self._sasl_port}"

    @property
    def data(self) -> Path:
        """Where its logs are, a folder for each replica: `TOPIC-PARTITION`."""
        return self._directory / "data"

    def __enter__(self) -> Self:
        try:
            self._format()
            self._start(_archive(self._jars))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether it was started and not killed."""
        return self._process is not None

    def kill(self) -> None:
        """End the broker as a power cut would, and keep its data."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start again with the same addresses and data, whether it runs or was killed."""
        self._end(signal.SIGTERM)
        self._start(_archive(self._jars))

    def stop(self) -> None:
        """End the broker and remove its data. Harmless when repeated."""
        self._end(signal.SIGKILL)
        shutil.rmtree(self._directory, ignore_errors=True)

    def log_tail(self, size: int = 4000) -> str:
        """Return the end of what the broker printed."""
        log = self._directory / "broker.log"
        return log.read_text(errors="replace")[-size:] if log.exists() else "(no log)"

    def _format(self) -> None:
        properties = "".join(f"{key}={value}\n" for key, value in self._properties().items())
        (self._directory / "server.properties").write_text(properties)
        _run(
            self._java("kafka.tools.StorageTool", "format", f"--cluster-id={self.cluster}", "-c", self._config),
            timeout=START_TIMEOUT,
        )

    def _properties(self) -> dict[str, str]:
        listeners = {"PLAINTEXT": self._client_port}
        if not self._joins:
            listeners["CONTROLLER"] = self._controller_port
        sasl: dict[str, str] = {}
        if self._sasl:
            listeners["LOGIN"] = self._sasl_port
            sasl = {
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.login.plain.sasl.jaas.config": (
                    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
                ),
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
            }
        if self._keystore is not None:
            sasl |= {
                "listener.name.login.ssl.keystore.location": str(self._keystore),
                "listener.name.login.ssl.keystore.type": "PKCS12",
                "listener.name.login.ssl.keystore.password": PASSWORD,
            }
        login = "SASL_PLAINTEXT" if self._keystore is None else "SASL_SSL"
        addresses = {name: f"{name}://127.0.0.1:{port}" for name, port in listeners.items()}
        return {
            "process.roles": "broker" if self._joins else "broker,controller",
            "node.id": str(self.number),
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": ",".join(addresses.values()),
            "advertised.listeners": ",".join(value for name, value in addresses.items() if name != "CONTROLLER"),
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:{login}",
            "log.dirs": str(self.data),
            **sasl,
            **self._settings,
        }

    @property
    def _config(self) -> str:
        return str(self._directory / "server.properties")

    def _java(self, main: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        return [_tool("java"), *JVM, *self.more_jvm, *options, "-cp", f"{self._jars}/*", main, *arguments]

    def _start(self, archive: Path | None, *options: str) -> None:
        if archive is not None:
            options = (*options, f"-XX:SharedArchiveFile={archive}")
        with (self._directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", self._config, options=options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # otherwise ^C of pytest ends the broker first, and every test fails slowly
            )
        try:
            with self.admin() as admin:
                wait_until(lambda: self._answers(admin), START_TIMEOUT, "the broker answers")
        except TimeoutError as error:
            msg = f"{error}; the end of its log:\n{self.log_tail()}"
            raise BrokerFailedError(msg) from error

    def _answers(self, admin: AdminClient) -> bool:
        if self._process is None or self._process.poll() is not None:
            msg = f"the broker died; the end of its log:\n{self.log_tail()}"
            raise BrokerFailedError(msg)
        try:
            return self.number in admin.list_topics(timeout=0.5).brokers  # a fenced broker answers but is not listed
        except KafkaException:
            return False

    def _end(self, how: signal.Signals) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        if process.poll() is None:
            process.send_signal(how)
        try:
            return process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait(STOP_TIMEOUT)


class _ArchivingBroker(Broker):
    """A broker that writes the classes it loaded into a file when it ends."""

    def __init__(self, target: Path) -> None:
        super().__init__()
        self._target = target

    def __enter__(self) -> Self:
        try:
            self._format()
            self._start(None, f"-XX:ArchiveClassesAtExit={self._target}")
            self.create_topic("warm-up", 1)
        except BaseException:
            self.stop()
            raise
        return self

    def end_softly(self) -> bool:
        """End it so that the JVM writes the archive; False if it had to be killed, maybe half way through."""
        return self._end(signal.SIGTERM) == 128 + signal.SIGTERM


def _archive(jars: Path) -> Path | None:
    """Return the class data archive for this JVM and these jars, made by running a broker once; None if it can't."""
    java = Path(_tool("java")).resolve()
    # Another JVM would ignore the archive without a word, so each JVM gets its own.
    archive = jars.with_name(f"classes-{_digest(f'{java} {java.stat().st_mtime_ns} {jars.name}')}.jsa")
    with locked(jars.with_name("classes.lock")):
        if not archive.exists():
            partial = archive.with_suffix(".partial")
            partial.unlink(missing_ok=True)
            with _ArchivingBroker(partial) as broker:
                written = broker.end_softly()
            if not written or not partial.exists():
                return None  # only the start is slower
            partial.rename(archive)
    return archive


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home and name == "java" else shutil.which(name)
    if program is None:
        msg = f"{name} is not on the PATH; Kafka tests need a JDK 17 and Maven"
        raise BrokerFailedError(msg)
    return program


def _run(command: list[str], timeout: float) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
        check=False,
    )
    if done.returncode:
        msg = f"{command[0]} ended with {done.returncode}:\n{done.stdout.decode(errors='replace')[-4000:]}"
        raise BrokerFailedError(msg)
