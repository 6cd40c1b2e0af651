"""Topics filled fast enough not to be what is measured, and read back to see whether all wrote the same.

Records come as Arrow arrays and go by the client's own calls, without a Python object for each. Must not know an
engine.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from holdfast_runtime.streams.kafka.admin.bounds import TopicBounds
from holdfast_runtime.streams.kafka.client.librdkafka import destroy_client, library, new_client
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.read.fetcher import make_fetcher
from holdfast_runtime.streams.kafka.write.channel import send
from holdfast_runtime.streams.records import written_batch

TIME = 1_700_000_000_000
"""The timestamp of records that were there before."""
_RANGE = 100_000
_BATCHES = {"batch.size": "524288"}


class Filler:
    """Writes to one topic."""

    def __init__(self, bootstrap: str, topic: str, config: Mapping[str, str]) -> None:
        loaded = library()
        if loaded is None:
            sys.exit("the loops of gather.c are not built: `make setup`")
        settings = KafkaSettings("bench", bootstrap, {**_BATCHES, **config})
        self._library, self._client = loaded, new_client(loaded, "producer", settings, settings.client({}, {}))
        self._topic = loaded.kafka.topic_new(self._client, topic.encode(), None)

    def send(self, partition: int, keys: pa.Array, values: pa.Array, time: int | np.ndarray = TIME) -> None:
        """Append records to a partition; `time`: of all, or of each."""
        batch, sent = written_batch(keys, values, time), 0
        while sent < len(values):
            sent += send(self._library, self._client, self._topic, partition, batch, sent).rows
            self._library.kafka.poll(self._client, 10 if sent < len(values) else 0)

    def close(self) -> None:
        """Wait until all is written."""
        while self._library.kafka.outq_len(self._client):
            self._library.kafka.poll(self._client, 100)
        self._library.kafka.topic_destroy(self._topic)
        destroy_client(self._library, self._client)


@contextmanager
def filler(bootstrap: str, topic: str, linger: int = 50) -> Iterator[Filler]:
    """One that has written all when it is left. `linger`: milliseconds until it sends what it has."""
    made = Filler(bootstrap, topic, {"linger.ms": str(linger)})
    try:
        yield made
    finally:
        made.close()


def contents(bootstrap: str, topic: str) -> Iterator[pa.Array]:
    """The values of all committed records of a topic, in parts."""
    settings = KafkaSettings("bench", bootstrap, {})
    bounds, fetcher = TopicBounds(settings), make_fetcher(settings)
    for partition, (oldest, end, _) in bounds.bounds([topic])[topic].items():
        for start in range(oldest, end, _RANGE):
            yield fetcher.fetch(topic, partition, start, min(start + _RANGE, end)).column("value")
    fetcher.close()
