"""Why: what reads topics of one system in one process, and which of the two that can is taken.

The fast one calls librdkafka itself; the plain one needs no more than the confluent_kafka package. They give the same.
Must not connect anything: that is for the first fetch.
"""

import os
from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from holdfast_runtime.streams.kafka.client.librdkafka import library
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.read.fetcher import FastFetcher
from holdfast_runtime.streams.kafka.read.plain_fetcher import PlainFetcher
from holdfast_runtime.streams.kafka.read.range_read import FetchPatience

READER = "HOLDFAST_KAFKA_READER"
"""The environment variable that chooses: `plain`, or the best there is."""


class RangeFetcher(Protocol):
    """Reads topics of one system in one process."""

    def fetch(self, topic: str, partition: int, start: int, end: int) -> pa.RecordBatch:
        """The records with start <= offset < end that a reader of committed records sees, as `FETCHED`.

        Where a record has headers, there is one more column, `headers`.
        """
        ...

    def begin(self, starts: Iterable[tuple[str, int, int]]) -> None:
        """Say which (topic, partition, offset) the next fetches begin at, where they are several.

        Without it each fetch starts its own partition, and a new one may have to wait for a broker that has nothing to
        say about the others.
        """
        ...

    def close(self) -> None:
        """End the client. A fetch after that begins with a new one."""
        ...


def make_fetcher(settings: KafkaSettings, limits: FetchPatience | None = None) -> RangeFetcher:
    """The fast one where its libraries are there, else the plain one."""
    limits = limits or FetchPatience()
    libraries = None if os.environ.get(READER) == "plain" else library()
    return PlainFetcher(settings, limits) if libraries is None else FastFetcher(settings, limits, libraries)
