"""A broker at an address, wherever it runs, as tests ask it for topics. Must not know how it was started."""

import logging
from collections.abc import Callable
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.waiting import patience, wait_until

ANSWER_TIMEOUT = patience(30.0)

_SILENT = logging.Logger("tests.kafka.reached")  # outside the tree of loggers: nothing configured there shows it
_SILENT.addHandler(logging.NullHandler())


class Reached:
    """A broker at an address, wherever it runs."""

    @property
    def bootstrap(self) -> str:
        """The address for clients without a login, who may do everything."""
        raise NotImplementedError

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic and wait until the broker shows it to clients."""
        with self.admin() as admin:
            self._settle(lambda: admin.create_topics([NewTopic(name, partitions, 1)])[name])
            self._wait_for_count(admin, name, partitions)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Give a topic more partitions and wait until the broker shows them to clients."""
        with self.admin() as admin:
            self._settle(lambda: admin.create_partitions([NewPartitions(name, partitions)])[name])
            self._wait_for_count(admin, name, partitions)

    def admin(self) -> AdminClient:
        """Return a client that may do everything, for a `with`: one that is not kept alive drops its requests."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": 100}, logger=_SILENT)

    @staticmethod
    def _settle(request: Callable[[], Future[None]]) -> None:
        """Ask, again while the controller has no broker to give it to: a starved one is fenced for a moment."""

        def done() -> bool:
            try:
                request().result(ANSWER_TIMEOUT)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR:
                    return False
                raise
            return True

        wait_until(done, ANSWER_TIMEOUT, "the controller has a broker that is not fenced")

    @staticmethod
    def _wait_for_count(admin: AdminClient, topic: str, partitions: int) -> None:
        def shown() -> bool:
            metadata = admin.list_topics(timeout=ANSWER_TIMEOUT).topics.get(topic)
            return metadata is not None and len(metadata.partitions) == partitions

        wait_until(shown, ANSWER_TIMEOUT, f"topic {topic} shows {partitions} partitions")
