"""Partition counts of topics, asked of their brokers, for `holdfast plan` and for the operator's watch for growth.

The operator asks under a rule: it connects to addresses that the rule admits, and whatever gives no answer (a
closed port, an open one of something else, an address that is not admitted) takes the same time and gives the same
sentence, so whoever writes a spec learns nothing of the network from it. Must not create topics by asking, wait
longer than it was told to, print, or let a value of the config (a password may be among them) into a message. What
a count means is the planner's business.
"""

import queue
import socket
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from holdfast.errors import HoldfastError, UserActionError, WorldChangeError
from holdfast.spec.kafka_settings import login_keys, unacceptable_when_asking, without_values
from holdfast_operator.brokers.addresses import AddressInvalidError, AddressRule, Server, servers
from holdfast_operator.brokers.login import Login, LoginInvalidError
from holdfast_operator.brokers.protocol import BrokerConnection, LoginRefusedError, NoAnswerError, TopicAnswers

_LOOKING_UP = 0.3
"""The part of the time that looking up names takes at most."""
_MOST_SERVERS, _MOST_ADDRESSES = 10, 10
_LONGEST_TOPIC = 249
_WHERE = "the system's config or secret"
_FAMILIES = {"V4": socket.AF_INET, "V6": socket.AF_INET6}


class UnansweredError(HoldfastError):
    """No counts. What was tried says what there is in the network, so it is not in the message."""

    def __init__(self, message: str, tried: Sequence[str]) -> None:
        super().__init__(message)
        self.tried = "; ".join(tried)


class BrokerUnreachableError(UnansweredError, WorldChangeError):
    """No broker of the system gave an answer in time."""


class BrokerLoginRefusedError(UnansweredError, UserActionError):
    """The broker is there, but does not accept the login the config gives."""


class BrokerConfigInvalidError(UserActionError):
    """Brokers can't be asked with the system's config."""


class BrokerNotAdmittedError(UserActionError):
    """The operator's values admit none of the brokers that the spec names."""


class TopicForbiddenError(WorldChangeError):
    """The broker knows who asks and does not let them see a topic, so whether it exists is unknown."""


def read_counts(
    system: str,
    bootstrap: str,
    config: Mapping[str, str],
    topics: Collection[str],
    *,
    timeout: float,
    rule: AddressRule | None = None,
) -> dict[str, int | None]:
    """Return how many partitions each topic has, None for one that does not exist; at most `timeout` seconds.

    `system` names the Kafka system in messages; `config` has the client's settings of its spec and secret. Without a
    `rule`, in the shell of whoever asks, any address is asked, and a failure does not wait.
    """
    deadline = time.monotonic() + timeout
    counts: dict[str, int | None] = dict.fromkeys(topics)
    names = [name for name in counts if 0 < len(name) <= _LONGEST_TOPIC]
    if not names:
        return counts
    question = _question(system, bootstrap, config, names, rule)
    found = question.asked(deadline)
    if found.forbidden:
        raise _forbidden(system, bootstrap, found.forbidden)
    return counts | found.counts


def _question(
    system: str, bootstrap: str, config: Mapping[str, str], names: Sequence[str], rule: AddressRule | None
) -> "_Question":
    fault, login, named = unacceptable_when_asking(config), Login(), list[Server]()
    if fault is None:
        try:
            login, named = Login.of(config), servers(bootstrap)[:_MOST_SERVERS]
        except (LoginInvalidError, AddressInvalidError) as error:
            fault = str(error)
    # Not inside the handler: a traceback would show the cause, and with it values this message leaves out.
    if fault is not None:
        message = f"Kafka system {system}: its config can't be used to ask brokers: {fault}. Correct {_WHERE}."
        raise BrokerConfigInvalidError(message)
    admitted = [one for one in named if rule is None or rule.may_admit(one)]
    if not admitted:
        message = (
            f"Kafka system {system}: the operator asks no brokers at {bootstrap}. "
            "Correct bootstrapServers, or have kafka.allowed of the operator's values admit them."
        )
        raise BrokerNotAdmittedError(message)
    return _Question(system, bootstrap, config, names, login, admitted, rule)


@dataclass(frozen=True, slots=True)
class _ServerAddress:
    """An address of a server; without one, its name was not found in time."""

    server: Server
    family: int = socket.AF_UNSPEC
    address: Any = None
    """As sockets want it."""


@dataclass(frozen=True, slots=True)
class _Question:
    """One question to one system."""

    system: str
    bootstrap: str
    config: Mapping[str, str] = field(repr=False)  # it may hold passwords
    names: Sequence[str]
    login: Login
    servers: Sequence[Server]
    rule: AddressRule | None

    def asked(self, deadline: float) -> TopicAnswers:
        """The first answer. Each address has its share of the time, used up or not when there is a rule.

        Otherwise the moment at which the second of two addresses is connected to would tell what the first one did.
        """
        started = time.monotonic()
        addresses = self._addresses(started + _LOOKING_UP * (deadline - started))
        share = (deadline - time.monotonic()) / len(addresses)
        tried: list[str] = []
        for number, at in enumerate(addresses, start=1):
            until = deadline - share * (len(addresses) - number)
            try:
                return self._answer(at, until)
            except LoginRefusedError as error:
                raise self._login_refused(str(error)) from None
            except TimeoutError:
                tried.append(f"{at.server}: no answer in time")
            except (NoAnswerError, OSError, ValueError) as error:  # a ValueError: a name that TLS can't ask for
                tried.append(f"{at.server}: {error}")
            if self.rule is not None:
                time.sleep(max(0.0, until - time.monotonic()))
        raise self._unreachable(tried)

    def _addresses(self, until: float) -> list[_ServerAddress]:
        """At least one for each server. A look-up can't be ended: 8 s were measured with a silent name server."""
        family = _FAMILIES.get(self.config.get("broker.address.family", "").upper(), socket.AF_UNSPEC)
        found: dict[Server, list[_ServerAddress]] = {one: [_ServerAddress(one)] for one in self.servers}
        answers: queue.SimpleQueue[tuple[Server, list[_ServerAddress]]] = queue.SimpleQueue()
        for one in found:
            arguments = (one, family, answers)
            threading.Thread(target=_look_up, args=arguments, name="holdfast-names", daemon=True).start()
        for _ in range(len(found)):
            try:
                server, its = answers.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            found[server] = its or found[server]
        return [at for its in found.values() for at in its][:_MOST_ADDRESSES]

    def _answer(self, at: _ServerAddress, until: float) -> TopicAnswers:
        if at.address is None:
            message = "there is no such name"
            raise NoAnswerError(message)
        if self.rule is not None and not self.rule.admits(at.server, ip_address(at.address[0])):
            message = f"{at.address[0]} is not admitted"
            raise NoAnswerError(message)
        with socket.socket(at.family, socket.SOCK_STREAM) as plain:
            plain.settimeout(max(0.001, until - time.monotonic()))
            plain.connect(at.address)
            if self.login.encryption is None:
                return self._told(plain, until)
            plain.settimeout(max(0.001, until - time.monotonic()))
            with self.login.encryption.wrap_socket(plain, server_hostname=at.server.host.removesuffix(".")) as sealed:
                return self._told(sealed, until)

    def _told(self, opened: socket.socket, until: float) -> TopicAnswers:
        connection = BrokerConnection(opened, until, self.config.get("client.id", "holdfast")[:255])
        self.login.make(connection)
        return connection.topics(self.names)

    def _login_refused(self, said: str) -> BrokerLoginRefusedError:
        return BrokerLoginRefusedError(
            f"Kafka system {self.system}: the broker at {self.bootstrap} refused the login. "
            f"Correct {login_keys(self.config)} in {_WHERE}.",
            [without_values(said, self.config)],
        )

    def _unreachable(self, tried: Sequence[str]) -> BrokerUnreachableError:
        return BrokerUnreachableError(
            f"Kafka system {self.system}: no broker at {self.bootstrap} gave an answer. "
            "Check that a broker runs there, that the address can be reached from here, "
            "and that security.protocol and the certificates are those of this listener.",
            [without_values(one, self.config) for one in tried],
        )


def _look_up(server: Server, family: int, answers: "queue.SimpleQueue[tuple[Server, list[_ServerAddress]]]") -> None:
    try:
        found = socket.getaddrinfo(server.host, server.port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except (OSError, ValueError):  # a ValueError: no name of any host
        found = []
    answers.put((server, [_ServerAddress(server, one[0], one[4]) for one in found]))


def _forbidden(system: str, bootstrap: str, topics: Collection[str]) -> TopicForbiddenError:
    some = ", ".join(sorted(topics)[:10]) + (f" and {len(topics) - 10} more" if len(topics) > 10 else "")  # noqa: PLR2004
    return TopicForbiddenError(
        f"Kafka system {system}: the broker at {bootstrap} does not let this login see {some}. "
        "Grant it the operation Describe on these topics."
    )
