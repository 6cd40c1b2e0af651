"""The table of Nexmark from Kafka to Kafka: Holdfast, Kafka Streams, Flink and stock Structured Streaming.

One broker beside, whose CPU is in no figure. Every way writes its answer to a topic of its own in each run, and no
figure is printed unless all answers are equal.
"""

import argparse
import secrets
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.engine.fresh import Measurement, measure
from bench.engine.peers import SAME, TUNED, state_in
from bench.engine.report import PER_BATCH, RATE, Benchmark, Way, check, note, paired, show
from bench.kafka.broker import BenchBroker
from bench.kafka.jars import jars
from bench.kafka.ways import removed
from bench.nexmark.events import EPOCH
from bench.nexmark.kafka import flink, latency
from bench.nexmark.kafka.topics import fill
from bench.nexmark.market import PARTS, Market, ends
from bench.nexmark.questions import QUESTIONS
from bench.nexmark.report import CORES, JOINS, PER_CPU, tree_of
from tests.kafka.broker import Broker

QUERIES: Mapping[str, tuple[str, ...]] = {
    "q1": ("bid",),
    "q5": ("bid",),
    "q8": ("person", "auction"),
    "q17": ("bid",),
    "q18": ("bid",),
    "q20": ("auction", "bid"),
}
"""And the streams that each reads."""
STREAMS = ("q1", "q5", "q17", "q18", "q20")
"""Those that are natural in Kafka Streams: q8 joins by window, which it has not."""
STREAMS_WAY = "Kafka Streams"
COLUMNS = (PER_CPU, RATE, PER_BATCH, note("state MB", ",.1f"))
LATENCY = tuple(map(note, ("p50 ms", "p99 ms", "events/s", "rows")))


@dataclass(frozen=True, slots=True)
class Engine:
    """Who answers: the name of the way, the module of its process, and what only that is told."""

    way: str
    module: str
    settings: Mapping[str, Any]
    soon: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name -> what it is told beside where it matters how long a row is on its way."""


@dataclass(frozen=True, slots=True)
class Given:
    """A broker with the events, and how much of them does not count."""

    broker: Broker
    market: Market
    query: str
    warm: int

    def measured(self, engine: Engine) -> Measurement:
        """Run a way, with a topic to write to."""
        out = f"out-{secrets.token_hex(4)}"
        for topic in (out, f"{out}-warm"):
            self.broker.create_topic(topic, PARTS)
        request = {**self.request(engine), "bootstrap": self.broker.bootstrap, "out": out, "live": False}
        try:
            return measure(engine.way, f"bench.nexmark.kafka.{engine.module}", request)
        finally:
            removed(self.broker, out)

    def request(self, engine: Engine) -> dict[str, Any]:
        """What its process is told, but for the broker."""
        per_batch = {name: self.rows(name) // self.market.batches for name in QUERIES[self.query]}
        request = {"query": self.query, "market": asdict(self.market), "warm": self.warm, "per_batch": per_batch}
        return {**request, **engine.settings}

    def rows(self, stream: str) -> int:
        """Of a whole stream."""
        return sum(ends(self.market.directory() / stream, self.market.batches).values())


def engines(name: str) -> Sequence[Engine]:
    """All who have an answer, exactly once but for stock, which comes first: ratios are to it."""
    stores = {"stock, at least once": "changelog on" if QUESTIONS[name].state else "heap"}
    if name in JOINS:
        stores |= {f"stock, joins of format {number}": f"changelog on, joins of format {number}" for number in (3, 4)}
    made = [
        Engine(way, "stock", {"settings": SAME | TUNED | state_in(store), "jars": jars("spark-kafka")}, {"": {}})
        for way, store in stores.items()
    ]
    if name in STREAMS:
        often = {f", commits each {each} ms": {"commit": each} for each in ("100", "20")}
        made.append(Engine(STREAMS_WAY, "streams", {"jars": jars("kafka-streams"), "commit": "1000"}, often))
    flink_jars = jars("flink", Path(__file__).parent)
    soon = {", checkpoints each 200 ms": {"flink": flink.soon(200)}}
    for store, options in flink.THROUGHPUT.items():
        choices = {"jars": flink_jars, "flink": options}
        made.append(Engine(f"Flink, {store}", "flink", choices, soon if store == "heap" else {}))
    apps = {"Holdfast": name}
    if name == "q20":
        apps = {"Holdfast, a join within a minute as stock": "q20-join", "Holdfast, a table as Kafka Streams": name}
    made += [
        Engine(way, "ours", {"app": tree_of(app), "master": f"local[{CORES}]"}, {"": {}}) for way, app in apps.items()
    ]
    return made


def main() -> None:
    """Print a table for each query."""
    parser = argparse.ArgumentParser(prog="python -m bench.nexmark.kafka", description="Nexmark from Kafka to Kafka.")
    parser.add_argument("queries", nargs="*", help=f"which (default: all): {' '.join(QUERIES)}")
    parser.add_argument("--quick", action="store_true", help="few events, one run: to see that it works")
    parser.add_argument("--runs", type=int, help="paired runs (default: 3, quick: 1)")
    parser.add_argument("--batches", type=int, default=20, help="batches of events, the first quarter not counted")
    parser.add_argument(
        "--latency", type=int, default=0, metavar="RUNS", help="also how long rows are on their way at half load"
    )
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.queries if name not in QUERIES]:
        parser.error(f"no query {unknown}; there are {list(QUERIES)}")
    market = Market(8, 10_000, 2_000) if chosen.quick else Market(chosen.batches, 100_000, 50_000)
    runs = chosen.runs or (1 if chosen.quick else 3)
    for name in chosen.queries or QUERIES:
        with BenchBroker() as broker:
            workload = Given(broker, market, name, warm=market.batches // 4)
            fill(broker, market, QUERIES[name])
            title = f"{name} from Kafka to Kafka: {market.batches} batches of {market.events:,} events"
            benchmark = Benchmark(title, [partial(workload.measured, one) for one in engines(name)], COLUMNS)
            measurements = paired(benchmark.ways, runs)
        check(measurements)
        show(benchmark, measurements, runs)
        if chosen.latency:
            at_half_load(workload, measurements, chosen.latency)


def at_half_load(workload: Given, measurements: Mapping[str, Sequence[Measurement]], runs: int) -> None:
    """Print how long rows are on their way at half of the events per second that each way has reached.

    Holdfast also at those of Kafka Streams.
    """
    ways: list[Way] = []
    rates = {
        way: int(statistics.median(one.rows / one.seconds for one in counted) / 2) // EPOCH * EPOCH
        for way, counted in measurements.items()
    }
    for engine in engines(workload.query):
        for name, choices in engine.soon.items():
            request, reads = {**workload.request(engine), **choices}, QUERIES[workload.query]
            live = partial(latency.measured, engine.module, request, reads)
            ways.append(partial(live, f"{engine.way}{name}", rates[engine.way]))
            if engine.module == "ours" and STREAMS_WAY in rates:
                ways.append(partial(live, f"{engine.way}, as many as {STREAMS_WAY}", rates[STREAMS_WAY]))
    benchmark = Benchmark(f"{workload.query}: milliseconds from what can be known to its reader", ways, LATENCY)
    show(benchmark, paired(benchmark.ways, runs), runs)


if __name__ == "__main__":
    main()
