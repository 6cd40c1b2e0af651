"""Why: what a Kafka client of a system is told: the spec's config, the Secret's entries, and what Holdfast insists on.

Any value may be a password: none is in a message or a repr. Must not open a connection.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from holdfast.spec.kafka_settings import login_keys, unacceptable, without_values
from holdfast.spec.streams import System
from holdfast_runtime.streams.kafka.client.errors import KafkaConfigError

Config = dict[str, str | int | float | bool]
"""As the clients want it."""

_EVERYWHERE = {"client.id": "holdfast", "reconnect.backoff.max.ms": "2000"}
"""Ours unless the spec says otherwise. The client's own 10 s would be the pause of an app when a broker restarts."""
_READING = {
    # The client fetches ahead until one of the two is reached, for each partition that is read. A record takes half a
    # kilobyte of it beside its own bytes: some 15 MiB a partition in all, where the client's own would take 100.
    "queued.min.messages": "20000",
    "queued.max.messages.kbytes": "8192",
    # How long it rests then; its default of 1 s makes batches wait that read more than fits.
    "fetch.queue.backoff.ms": "5",
    "max.partition.fetch.bytes": "2097152",
    # How long a broker that has nothing new keeps the question. Meanwhile it is not asked about other partitions, and
    # the end of one that ends in holes is not noticed.
    "fetch.wait.max.ms": "50",
    # How long a topic may be unknown before the client says so: a new one takes a moment to be known everywhere.
    "topic.metadata.propagation.max.ms": "10000",
    "check.crcs": "true",
}
"""Ours unless the spec says otherwise."""
_EXACT = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "allow.auto.create.topics": "false",
    "statistics.interval.ms": "0",
}
"""Whatever the spec says: without these a range would not be exactly its records."""
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
        """Those of a system of a spec; where the Secret has a key too, it is the Secret's that counts."""
        assert system.kafka is not None  # noqa: S101 - its kind says so
        return cls(system.name, system.kafka.bootstrap_servers, {**system.kafka.config, **secret})

    def client(self, usual: Mapping[str, str], fixed: Mapping[str, str]) -> Config:
        """For a client of some kind: `usual` yields to what is given, `fixed` does not."""
        return {**_EVERYWHERE, **usual, **self.given, **fixed, "bootstrap.servers": self.bootstrap}

    def reading(self) -> Config:
        """For one that reads exact ranges. It is of no group: nobody shares partitions with it."""
        own = self.client(_READING, _EXACT)
        return {key: value for key, value in own.items() if key not in _OF_GROUPS}

    def asking(self) -> Config:
        """For one that asks about topics."""
        return self.client({}, {"statistics.interval.ms": "0"})

    def without_values(self, text: str) -> str:
        """What the client said, with every value that was given blanked."""
        return without_values(text, self.given)

    def login_keys(self) -> str:
        """The keys that decide about the login."""
        return login_keys(self.given)

    def invalid(self, fault: str) -> KafkaConfigError:
        """The error to raise where no client can be made."""
        return KafkaConfigError(
            f"Kafka system {self.system}: its config can't be used: {self.without_values(fault)}. "
            "Correct the system's config or secret."
        )
