"""The ways from Kafka to Kafka, each one measurement in a fresh process, with a topic of its own to write to.

All get two cores, a heap of 2 GB and the same rows per batch where they have batches. The first half of the rows is
not in any figure: until then JVMs compile. CPU is that of all processes of a way, and never that of the broker. Topics
that were written are removed: the broker's disk is shared. Must not know how an engine works.
"""

import secrets
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from bench.engine.data import MINUTE, Clicks, Orders, Visits
from bench.engine.fresh import Measurement, measure
from bench.engine.peers import SAME, TUNED, state_in
from bench.kafka.given import PARTITIONS, Events, fill_clicks, fill_orders, fill_visits
from bench.kafka.jars import jars
from tests.kafka.broker import Broker

Work = Literal["stateless", "enrich", "lookup", "windowed-count", "join"]
Delivery = Literal["ExactlyOnce", "AtLeastOnce"]
HALF = 2
STORES: Mapping[str, str] = {
    **dict.fromkeys(("enrich", "lookup", "windowed-count"), "changelog off"),
    "join": "changelog off, joins of format 4",
}
"""What has state, and where stock keeps it."""


@dataclass(frozen=True, slots=True)
class Given:
    """Topics that are there to be read, and how much of them is a batch."""

    broker: Broker
    work: Work
    topic: str
    names: str
    rows: int
    per_batch: int
    windows: Mapping[str, int] = field(default_factory=dict)
    """`lateness` in minutes, and `closed`: the end of the last one that is compared, in seconds since 1970; for a join,
    `within` in minutes."""
    changes: Events | None = None
    """Whose names are written on and on while an engine runs."""

    def request(self, out: str, **more: Any) -> dict[str, Any]:
        """What every child is told."""
        return {
            "bootstrap": self.broker.bootstrap,
            "work": self.work,
            "rows_in": self.topic,
            "names": self.names,
            "rows": self.rows,
            "per_batch": self.per_batch,
            "warm": max(1, self.rows // self.per_batch // HALF),
            "out": out,
            **self.windows,
            **more,
        }


def clicks(broker: Broker, data: Clicks, per_batch: int) -> Given:
    """A topic of clicks."""
    broker.create_topic("clicks", PARTITIONS)
    fill_clicks(data, broker.bootstrap, "clicks")
    return Given(broker, "stateless", "clicks", "", data.files * data.rows, per_batch)


def events(broker: Broker, data: Events, per_batch: int) -> Given:
    """A topic of events and one of names."""
    topics = f"events-{data.rows}", f"names-{data.rows}"
    for topic in topics:
        broker.create_topic(topic, PARTITIONS)
    data.fill(broker.bootstrap, *topics)
    return Given(broker, "enrich", *topics, data.rows, per_batch)


def looked_up(broker: Broker, data: Events, per_batch: int) -> Given:
    """The same for a table that changes while it is looked up."""
    return replace(events(broker, data, per_batch), work="lookup", changes=data)


def visits(broker: Broker, data: Visits) -> Given:
    """A topic of visits."""
    topic = f"visits-{data.all_rows}"
    broker.create_topic(topic, PARTITIONS)
    fill_visits(data, broker.bootstrap, topic)
    # Partitions are not equally long, so batches hold a little of two minutes: a minute more, and no row is late.
    windows = {"lateness": data.lateness + 1, "closed": data.closed - MINUTE}
    return Given(broker, "windowed-count", topic, "", data.all_rows, data.rows, windows)


def orders(broker: Broker, data: Orders) -> Given:
    """A topic of orders and one of payments."""
    topics = {side: f"{side}-{data.all_rows}" for side in ("orders", "payments")}
    for topic in topics.values():
        broker.create_topic(topic, PARTITIONS)
    fill_orders(data, broker.bootstrap, topics)
    windows = {"lateness": 2, "within": data.within}
    return Given(broker, "join", topics["orders"], topics["payments"], data.all_rows, data.rows, windows)


def holdfast(
    workload: Given,
    delivery: Delivery,
    verb: Literal["aggregate", "process"] = "aggregate",
    distribution: Literal["Partitioned", "Broadcast"] = "Partitioned",
) -> Measurement:
    """Ours; `verb`: what counts in windows; `distribution`: of a table."""
    which = ", process" if verb == "process" else ", Broadcast" if distribution == "Broadcast" else ""
    more = {"delivery": delivery, "verb": verb, "distribution": distribution}
    return _measured(f"Holdfast{which}, {_WORDS[delivery]}", "ours", workload, more)


def stock(workload: Given, *, static: bool = False) -> Measurement:
    """Structured Streaming; enrichment by `transformWithState`, its row API; windows by its own aggregation.

    `static`: names are joined as a static table, which each batch reads again.
    """
    more = {"settings": SAME | TUNED | state_in(STORES.get(workload.work, "heap")), "jars": jars("spark-kafka")}
    way = f"stock Spark{', static join' if static else ''}, at least once"
    return _measured(way, "stock", workload, {**more, "static": static})


def streams(workload: Given, guarantee: str, values: Literal["json", "text"] = "json") -> Measurement:
    """Kafka Streams."""
    way = f"Kafka Streams{', unparsed' if values == 'text' else ''}, {_WORDS[guarantee]}"
    more = {"guarantee": guarantee, "values": values, "jars": jars("kafka-streams")}
    more |= {"commit": "1000" if guarantee == EOS else "", "linger": ""}
    return _measured(way, "streams", workload, more)


def _measured(way: str, module: str, workload: Given, more: Mapping[str, Any]) -> Measurement:
    out = f"out-{secrets.token_hex(4)}"
    workload.broker.create_topic(out, PARTITIONS)
    try:
        with (
            workload.changes.changing(workload.broker.bootstrap, workload.names) if workload.changes else nullcontext()
        ):
            return measure(way, f"bench.kafka.{module}", workload.request(out, **more))
    finally:
        removed(workload.broker, out)


def removed(broker: Broker, prefix: str) -> None:
    """No topic of this beginning."""
    with broker.admin() as admin:
        topics = [topic for topic in admin.list_topics(timeout=30).topics if topic.startswith(prefix)]
        for done in admin.delete_topics(topics).values():
            done.result(60)


_WORDS = {
    "ExactlyOnce": "exactly once",
    "AtLeastOnce": "at least once",
    "exactly_once_v2": "exactly once",
    "at_least_once": "at least once",
}
EOS, ALO = "exactly_once_v2", "at_least_once"
OURS = [partial(holdfast, delivery="ExactlyOnce"), partial(holdfast, delivery="AtLeastOnce")]
