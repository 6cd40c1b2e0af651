"""Three brokers, of which the first alone is the controller, so that the other two may both be away.

What a partition loses with a log or by an unclean election is then there to be seen, and the topics that nobody breaks
are on the first. Must not be imported by product code.
"""

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
    TopicPartitionInfo,
)
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # it exports it unsaid
from confluent_kafka.cimpl import NewTopic

from holdfast_runtime.streams.kafka.client.connection import QUIET
from tests.kafka.broker import START_TIMEOUT, Broker
from tests.kafka.reached import ANSWER_TIMEOUT, Reached
from tests.waiting import wait_until

SETTINGS = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
}
_END = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_SOON = 3.0
_T = TypeVar("_T")


def _answered(ask: Callable[[], _T]) -> _T | None:
    """What brokers answer; None while they don't: each learns of a change on its own."""
    try:
        return ask()
    except (KafkaException, TimeoutError):
        return None


@dataclass(frozen=True)
class LogEnd:
    """The end of a partition, and the epoch of its leader."""

    offset: int
    epoch: int


class WholeCluster(Reached):
    """All brokers of a cluster, for clients that must reach one while another is away."""

    def __init__(self, nodes: Collection[Broker]) -> None:
        self._nodes = nodes

    @property
    def bootstrap(self) -> str:
        """The addresses of all."""
        return ",".join(node.bootstrap for node in self._nodes)


class ThreeBrokers:
    """`with ThreeBrokers() as three: ... three.first.bootstrap`; `three.nodes` has each broker by its number."""

    def __init__(self) -> None:
        self.first = Broker(settings=SETTINGS)
        followers = [Broker(settings=SETTINGS, first=self.first, number=number) for number in (2, 3)]
        self.nodes: Mapping[int, Broker] = {one.number: one for one in (self.first, *followers)}
        self.cluster = WholeCluster(self.nodes.values())
        self._running = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            for node in self.nodes.values():
                starting.enter_context(node)
            self._running = starting.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._running.__exit__(kind, error, at)

    def create(self, topic: str, replicas: Sequence[Sequence[int]], **config: str) -> None:
        """Create a topic; `replicas`: for each partition the brokers that have it, its leader first."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        with self.first.admin() as admin:
            new = NewTopic(topic, len(replicas), replica_assignment=[[*one] for one in replicas], config=settings)
            admin.create_topics([new])[topic].result(ANSWER_TIMEOUT)
        for number, brokers in enumerate(replicas):
            self.leads(brokers[0], topic, number)

    def write(self, topic: str, count: int, first: int = 0, partition: int = 0) -> None:
        """Write so many records; all replicas in sync have them when it returns."""
        producer = Producer({"bootstrap.servers": self.first.bootstrap, "acks": "all"}, logger=QUIET)
        for number in range(first, first + count):
            producer.produce(topic, b"%d" % number, partition=partition)
        assert producer.flush(ANSWER_TIMEOUT) == 0

    def end(self, topic: str, partition: int = 0) -> LogEnd:
        """The end as brokers say it."""
        place, ends = TopicPartition(topic, partition), list[LogEnd]()

        def asked() -> bool:
            with self.first.admin() as admin:
                isolation = IsolationLevel.READ_COMMITTED
                future = admin.list_offsets({place: _END}, isolation_level=isolation, request_timeout=_SOON)[place]
                end = future.result(2 * _SOON)
                ends.append(LogEnd(end.offset, end.leader_epoch))
            return True

        wait_until(lambda: _answered(asked) is True, START_TIMEOUT, f"the end of {place}")
        return ends[0]

    def lost(self, number: int, *logs: str) -> None:
        """Kill a broker, remove these logs (`TOPIC-PARTITION`) of it, and start it again."""
        self.nodes[number].kill()
        for log in logs:
            shutil.rmtree(self.nodes[number].data / log)
        self.nodes[number].restart()
        for log in logs:
            topic, _, partition = log.rpartition("-")
            self.leads(number, topic, int(partition))

    def leads(self, number: int, topic: str, partition: int = 0) -> None:
        """Wait until a broker is the leader of a partition."""
        what = f"broker {number} leads {topic}/{partition}"
        self._waited(topic, partition, what, lambda info: info.leader is not None and info.leader.id == number)

    def in_sync(self, topic: str, brokers: set[int], partition: int = 0) -> None:
        """Wait until these brokers are the replicas in sync."""
        what = f"{brokers} are in sync for {topic}/{partition}"
        self._waited(topic, partition, what, lambda info: {node.id for node in info.isr} == brokers)

    def _waited(self, topic: str, partition: int, what: str, fits: Callable[[TopicPartitionInfo], bool]) -> None:
        def as_wanted() -> bool:
            # With a new client each time: one that knows brokers which are away may ask those.
            with self.first.admin() as admin:
                future = admin.describe_topics(TopicCollection([topic]), request_timeout=_SOON)[topic]
                return fits(future.result(2 * _SOON).partitions[partition])

        wait_until(lambda: _answered(as_wanted) is True, START_TIMEOUT, what)

    def elect_uncleanly(self, topic: str, partition: int = 0) -> None:
        """Let broker 3 lead with what it had before broker 2 alone got more; both are up in the end.

        The topic is on 2 and 3, with unclean elections, and 3 is away.
        """
        self.nodes[2].kill()
        self.nodes[3].restart()
        self.leads(3, topic, partition)
