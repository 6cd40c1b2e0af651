"""Partition counts of topics, read from their brokers, for `holdfast plan` and for the operator's watch for growth.

The operator asks under a rule: it connects only to admitted addresses. Every failure (a closed port, another service,
an address that is not admitted) takes the same time and gives the same message, so that a spec can't be used to probe
the network. Must not create topics, wait longer than `timeout`, print, or put a value of the config (which may be a
password) into a message. What a count means is the planner's business.
"""

import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, TypeVar

from holdfast.errors import HoldfastError, UserActionError, WorldChangeError
from holdfast.one_line import one_line
from holdfast.spec.kafka_settings import login_keys, unacceptable_when_asking, without_values
from holdfast_operator.brokers.addresses import AddressInvalidError, AddressRule, Server, servers
from holdfast_operator.brokers.connection import (
    BrokerConnection,
    Login,
    LoginInvalidError,
    LoginRefusedError,
    NoAnswerError,
)

_LOOKING_UP = 0.3
"""Maximum share of the time for resolving names."""
_MOST_SERVERS, _MOST_ADDRESSES = 10, 10
_LONGEST_TOPIC = 249
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""Names that topics can have; others would come from something else than a broker, and go to a terminal."""
_SETTINGS = "the system's config or secret"
_Answer = TypeVar("_Answer")
_Ask = Callable[[BrokerConnection], _Answer]
"""Asks over a connection that is logged in."""
_FAMILIES = {"V4": socket.AF_INET, "V6": socket.AF_INET6}


class UnansweredError(HoldfastError):
    """No broker gave counts. `tried` would reveal what is in the network, so it is not in the message."""

    def __init__(self, message: str, tried: Sequence[str]) -> None:
        super().__init__(message)
        self.tried = "; ".join(map(one_line, tried))


class BrokerUnreachableError(UnansweredError, WorldChangeError):
    """No broker of the system gave an answer in time."""


class BrokerLoginRefusedError(UnansweredError, UserActionError):
    """The broker answers but does not accept the login in the config."""


def read_counts(
    system: str,
    bootstrap: str,
    config: Mapping[str, str],
    topics: Collection[str],
    *,
    timeout: float,
    rule: AddressRule | None = None,
) -> dict[str, int | None]:
    """Return the partition count of each topic, None if it does not exist; takes at most `timeout` seconds.

    `system` names the Kafka system in messages; `config` holds the client settings of spec and Secret. Without a `rule`
    (in the user's own shell) any address is contacted, and a failure is reported at once.
    """
    deadline = time.monotonic() + timeout
    counts: dict[str, int | None] = dict.fromkeys(topics)
    names = [name for name in counts if 0 < len(name) <= _LONGEST_TOPIC]
    if not names:
        return counts
    question = _question(system, bootstrap, config, rule)
    answers = question.asked(deadline, lambda connection: connection.topics(names))
    if answers.forbidden:
        raise _forbidden(system, bootstrap, answers.forbidden)
    return counts | answers.counts


def read_topic_names(system: str, bootstrap: str, config: Mapping[str, str], *, timeout: float) -> frozenset[str]:
    """Return the names of all topics that the login may see; takes at most `timeout` seconds.

    Only in the user's own shell. For the operator the answer is too long: it has all partitions of a cluster, would be
    asked for as long as a topic is missing, and what one login sees could be read in the status of an app.
    """
    question = _question(system, bootstrap, config, None)
    names = question.asked(time.monotonic() + timeout, BrokerConnection.topic_names)
    return frozenset(name for name in names if _TOPIC.fullmatch(name))


def _question(system: str, bootstrap: str, config: Mapping[str, str], rule: AddressRule | None) -> "_Question":
    fault, login, named = unacceptable_when_asking(config), Login(), list[Server]()
    if fault is None:
        try:
            login, named = Login.of(config), servers(bootstrap)[:_MOST_SERVERS]
        except (LoginInvalidError, AddressInvalidError) as error:
            fault = str(error)
    # Raised outside the handler: its cause would be in tracebacks, with values that this message leaves out.
    if fault is not None:
        message = f"Kafka system {system}: its config can't be used to ask brokers: {fault}. Correct {_SETTINGS}."
        raise UserActionError(message, code="BrokerConfigInvalidError")
    admitted = [one for one in named if rule is None or rule.may_admit(one)]
    if not admitted:
        message = (
            f"Kafka system {system}: the operator asks no brokers at {bootstrap}. "
            "Correct bootstrapServers, or have kafka.allowed of the operator's values admit them."
        )
        raise UserActionError(message, code="BrokerNotAdmittedError")
    return _Question(system, bootstrap, config, login, admitted, rule)


@dataclass(frozen=True, slots=True)
class _ServerAddress:
    """An address of a server; without `address`, its name was not resolved in time."""

    server: Server
    family: int = socket.AF_UNSPEC
    address: Any = None
    """In the form that sockets take."""


@dataclass(frozen=True, slots=True)
class _Question:
    """One question to one Kafka system."""

    system: str
    bootstrap: str
    config: Mapping[str, str] = field(repr=False)  # it may hold passwords
    login: Login
    servers: Sequence[Server]
    rule: AddressRule | None

    def asked(self, deadline: float, ask: "_Ask[_Answer]") -> _Answer:
        """Return the first answer. Each address gets a share of the time; under a rule, it always takes all of it.

        Otherwise the time of the connection to the second address would reveal how the first one failed.
        """
        started = time.monotonic()
        addresses = self._addresses(started + _LOOKING_UP * (deadline - started))
        share = (deadline - time.monotonic()) / len(addresses)
        tried: list[str] = []
        for number, server_address in enumerate(addresses, start=1):
            until = deadline - share * (len(addresses) - number)
            try:
                return self._answer(server_address, until, ask)
            except LoginRefusedError as error:
                raise self._login_refused(str(error)) from None
            except TimeoutError:
                tried.append(f"{server_address.server}: no answer in time")
            except (NoAnswerError, OSError, ValueError) as error:  # ValueError: a host name that TLS can't use
                tried.append(f"{server_address.server}: {error}")
            if self.rule is not None:
                time.sleep(max(0.0, until - time.monotonic()))
        raise self._unreachable(tried)

    def _addresses(self, until: float) -> list[_ServerAddress]:
        """Resolve names, in threads: a look-up can't be cancelled and took 8 s with a silent name server."""
        family = _FAMILIES.get(self.config.get("broker.address.family", "").upper(), socket.AF_UNSPEC)
        addresses: dict[Server, list[_ServerAddress]] = {one: [_ServerAddress(one)] for one in self.servers}
        answers: queue.SimpleQueue[tuple[Server, list[_ServerAddress]]] = queue.SimpleQueue()
        for server in addresses:
            arguments = (server, family, answers)
            threading.Thread(target=_look_up, args=arguments, name="holdfast-names", daemon=True).start()
        for _ in range(len(addresses)):
            try:
                server, its = answers.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            addresses[server] = its or addresses[server]
        return [address for its in addresses.values() for address in its][:_MOST_ADDRESSES]

    def _answer(self, server_address: _ServerAddress, until: float, ask: "_Ask[_Answer]") -> _Answer:
        if server_address.address is None:
            message = "there is no such name"
            raise NoAnswerError(message)
        if self.rule is not None and not self.rule.admits(server_address.server, ip_address(server_address.address[0])):
            message = f"{server_address.address[0]} is not admitted"
            raise NoAnswerError(message)
        with socket.socket(server_address.family, socket.SOCK_STREAM) as plain:
            plain.settimeout(max(0.001, until - time.monotonic()))
            plain.connect(server_address.address)
            if self.login.encryption is None:
                return ask(self._logged_in(plain, until))
            plain.settimeout(max(0.001, until - time.monotonic()))
            with self.login.encryption.wrap_socket(
                plain, server_hostname=server_address.server.host.removesuffix(".")
            ) as sealed:
                return ask(self._logged_in(sealed, until))

    def _logged_in(self, opened: socket.socket, until: float) -> BrokerConnection:
        connection = BrokerConnection(opened, until, self.config.get("client.id", "holdfast")[:255])
        self.login.make(connection)
        return connection

    def _login_refused(self, explanation: str) -> BrokerLoginRefusedError:
        return BrokerLoginRefusedError(
            f"Kafka system {self.system}: the broker at {self.bootstrap} refused the login. "
            f"Correct {login_keys(self.config)} in {_SETTINGS}.",
            [without_values(explanation, self.config)],
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
        addresses = socket.getaddrinfo(server.host, server.port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except (OSError, ValueError):  # ValueError: not a valid host name
        addresses = []
    answers.put((server, [_ServerAddress(server, one[0], one[4]) for one in addresses]))


def _forbidden(system: str, bootstrap: str, topics: Collection[str]) -> WorldChangeError:
    shown_topics = ", ".join(sorted(topics)[:10]) + (f" and {len(topics) - 10} more" if len(topics) > 10 else "")  # noqa: PLR2004
    return WorldChangeError(
        f"Kafka system {system}: the broker at {bootstrap} does not let this login see {shown_topics}. "
        "Grant it the operation Describe on these topics.",
        code="TopicForbiddenError",
    )
