"""The streams of an app opened to be written from outside, whichever system holds them: the embedded log or Kafka.

For people and trials: the app may run meanwhile, as with any other producer. Must not know how values are made.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.open_streams import OpenStreams
from holdfast_runtime.streams.log.stream_feed import StreamFeed
from holdfast_runtime.streams.records import StreamMissingError


class RecordFeed(Protocol):
    """A stream that is written."""

    @property
    def written(self) -> int:
        """How many records were written."""

    @property
    def partitions(self) -> int:
        """The number of partitions."""

    def write(self, keys: pa.RecordBatch, by: Sequence[str] | None, values: Sequence[bytes | None], times: Any) -> None:
        """Write a record for each row of `keys`, whose columns `by` are its key; `times`: of each, or of all."""


@contextmanager
def opened_feed(local_app: LocalApp, name: str, now: int) -> Iterator[RecordFeed]:
    """Return a feed into a stream that the app does not write itself.

    What the app would create is created if it is not there: streams of the log, and topics with `create: true`.
    """
    planned, declared, system = local_app.stream(name), local_app.fed(name), local_app.system(name)
    if system is None or system.kafka is None:
        count = None if planned.count is None else planned.count.actual
        feed = StreamFeed.into(local_app.directory, planned.topic, declared.partitioner, count, now)
        if feed is None:
            message = f"stream {name} has no partition count; write partitions: N into the spec"
            raise UserActionError(message, code="UsageError")
        yield feed
        return
    # Imported here: an app without Kafka does not need its client.
    from holdfast_runtime.inspection.kafka_topic import topic_missing  # noqa: PLC0415
    from holdfast_runtime.streams.kafka.topic_feed import TopicFeed  # noqa: PLC0415
    from holdfast_runtime.streams.systems import use_of_input  # noqa: PLC0415

    with OpenStreams(local_app) as opened:
        cluster = opened.cluster(system)
        into = partial(TopicFeed.into, cluster.settings, planned.topic, declared.partitioner)
        try:
            topic = into()
        except StreamMissingError:
            if not declared.create or planned.count is None:
                raise topic_missing(cluster.settings, planned.topic) from None
            cluster.ensure(planned.topic, planned.count.actual, use_of_input(declared), declared.retention)
            topic = into()
    try:
        yield topic
    finally:
        topic.close()
