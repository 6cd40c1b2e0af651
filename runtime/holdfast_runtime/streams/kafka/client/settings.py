"""The settings of a Kafka system's clients: the spec's config, the login, and what Holdfast insists on.

Logins are in a mounted Secret or in the environment, never in a spec or in what Spark ships: each process reads them
where it runs. Any value may be a password, so no value appears in a message or a repr. Must not open a connection.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from holdfast.errors import UserActionError
from holdfast.spec.kafka_settings import login_keys, unacceptable, without_values
from holdfast.spec.streams import System
from holdfast_runtime.streams.logins import LoginPlace

Config = dict[str, str | int | float | bool]
"""Settings in the form the clients take."""

_EVERYWHERE = {"client.id": "holdfast", "reconnect.backoff.max.ms": "2000"}
"""Defaults of Holdfast. With the client's own 10 s, an app would pause that long when a broker restarts."""
_READING = {
    # The client fetches ahead until one of the two is reached, for each partition that is read. A record takes half a
    # kilobyte of it beside its own bytes: some 15 MiB per partition in all, where the client's own defaults would take
    # 100.
    "queued.min.messages": "20000",
    "queued.max.messages.kbytes": "8192",
    # How long it then pauses; with its default of 1 s, batches that read more than fits would wait.
    "fetch.queue.backoff.ms": "5",
    "max.partition.fetch.bytes": "2097152",
    # How long a broker without new records holds the request. Meanwhile it is not asked about other partitions, and the
    # end of a partition that ends in holes goes unnoticed.
    "fetch.wait.max.ms": "50",
    # How long a topic may be unknown before the client reports it: a new one takes a moment to be known everywhere.
    "topic.metadata.propagation.max.ms": "10000",
    "check.crcs": "true",
}
"""Defaults of Holdfast for reading."""
_EXACT = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "allow.auto.create.topics": "false",
    "statistics.interval.ms": "0",
}
"""Fixed whatever the spec says: without these a range would not be exactly its records."""
_OF_GROUPS = ("group.id", "group.instance.id", "group.protocol", "group.remote.assignor")


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """One Kafka system, and how to talk to it."""

    system: str
    bootstrap: str
    given: Mapping[str, str] = field(repr=False)
    """From spec and Secret."""

    def __post_init__(self) -> None:
        fault = unacceptable(self.given)
        if fault is not None:
            raise self.invalid(fault)

    @classmethod
    def of(cls, system: System, secret: Mapping[str, str]) -> Self:
        """Return the settings of a system of a spec; keys in the Secret override those in the spec."""
        assert system.kafka is not None  # noqa: S101 - its kind says so
        return cls(system.name, system.kafka.bootstrap_servers, {**system.kafka.config, **secret})

    def client(self, usual: Mapping[str, str], fixed: Mapping[str, str]) -> Config:
        """Return the config for a kind of client: the given config overrides `usual`, `fixed` overrides both."""
        return {**_EVERYWHERE, **usual, **self.given, **fixed, "bootstrap.servers": self.bootstrap}

    def reading(self) -> Config:
        """Return the config for reading exact ranges. It has no group: nobody shares partitions with it."""
        config = self.client(_READING, _EXACT)
        return {key: value for key, value in config.items() if key not in _OF_GROUPS}

    def asking(self) -> Config:
        """Return the config for asking about topics."""
        return self.client({}, {"statistics.interval.ms": "0"})

    def without_values(self, text: str) -> str:
        """Return a text of the client with every given value blanked."""
        return without_values(text, self.given)

    def login_keys(self) -> str:
        """Return the keys that decide about the login."""
        return login_keys(self.given)

    def invalid(self, fault: str) -> UserActionError:
        """Return the error to raise if no client can be made."""
        return UserActionError(
            f"Kafka system {self.system}: its config can't be used: {self.without_values(fault)}. "
            "Correct the system's config or secret.",
            code="KafkaConfigError",
        )


def kafka_settings(system: System, secrets: Path | None, environment: Mapping[str, str] | None = None) -> KafkaSettings:
    """Return the settings of a system with its login: its Secret's files, overridden by environment variables.

    `HOLDFAST_KAFKA__EVENTS__SASL_PASSWORD` is `sasl.password` of the system `events`.
    """
    secret = None if system.kafka is None else system.kafka.secret_name
    place = LoginPlace(f"Kafka system {system.name}", "KAFKA", system.name, secret, "SASL_PASSWORD")
    return KafkaSettings.of(system, place.entries(secrets, os.environ if environment is None else environment))
