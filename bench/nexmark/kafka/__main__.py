"""The table of Nexmark from Kafka to Kafka: Holdfast, Kafka Streams, Flink and stock Structured Streaming.

One broker beside, whose CPU is in no figure. Every way writes its answer to a topic of its own in each run, and no
figure is printed unless all answers are equal.
"""

import argparse
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.engine.fresh import Measurement, measure
from bench.engine.peers import SAME, TUNED, rocksdb
from bench.engine.report import PER_BATCH, RATE, Benchmark, Way, check, note, paired, show
from bench.kafka.jars import jars
from bench.kafka.ways import removed
from bench.nexmark.kafka.flink_sql import QUERIES as FLINK
from bench.nexmark.kafka.topics import fill
from bench.nexmark.market import PARTS, Market, ends
from bench.nexmark.questions import QUESTIONS
from bench.nexmark.report import CORES, PER_CPU, tree_of
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
COLUMNS = (PER_CPU, RATE, PER_BATCH, note("state MB", ",.1f"))


@dataclass(frozen=True, slots=True)
class Given:
    """A broker with the events, and how much of them does not count."""

    broker: Broker
    market: Market
    warm: int

    def measured(self, way: str, module: str, query: str, more: Mapping[str, Any]) -> Measurement:
        """Run a way, with a topic to write to."""
        out = f"out-{secrets.token_hex(4)}"
        for topic in (out, f"{out}-warm"):
            self.broker.create_topic(topic, PARTS)
        request = {
            "query": query,
            "market": asdict(self.market),
            "warm": self.warm,
            "bootstrap": self.broker.bootstrap,
            "out": out,
            "per_batch": {name: self.rows(name) // self.market.batches for name in QUERIES[query]},
        }
        try:
            return measure(way, f"bench.nexmark.kafka.{module}", request | dict(more))
        finally:
            removed(self.broker, out)

    def rows(self, stream: str) -> int:
        """Of a whole stream."""
        return sum(ends(self.market.directory() / stream, self.market.batches).values())


def ways(name: str, given: Given) -> Sequence[Way]:
    """All who have an answer, stock first: ratios are to it."""
    state = rocksdb(changelog=True) if QUESTIONS[name].state else {}
    settings = {"settings": SAME | TUNED | state, "jars": jars("spark-kafka")}
    made: list[Way] = [partial(given.measured, "stock, at least once", "stock", name, settings)]
    if name in STREAMS:
        more = {"jars": jars("kafka-streams")}
        made.append(partial(given.measured, "Kafka Streams, exactly once", "streams", name, more))
    if name in FLINK:
        more = {"jars": jars("flink", Path(__file__).parent)}
        made.append(partial(given.measured, "Flink, exactly once", "flink", name, more))
    ours = {"app": tree_of(name), "master": f"local[{CORES}]"}
    return [*made, partial(given.measured, "Holdfast, exactly once", "ours", name, ours)]


def main() -> None:
    """Print a table for each query."""
    parser = argparse.ArgumentParser(prog="python -m bench.nexmark.kafka", description="Nexmark from Kafka to Kafka.")
    parser.add_argument("queries", nargs="*", help=f"which (default: all): {' '.join(QUERIES)}")
    parser.add_argument("--quick", action="store_true", help="few events, one run: to see that it works")
    parser.add_argument("--runs", type=int, help="paired runs (default: 3, quick: 1)")
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.queries if name not in QUERIES]:
        parser.error(f"no query {unknown}; there are {list(QUERIES)}")
    market = Market(8, 10_000, 2_000) if chosen.quick else Market(20, 100_000, 50_000)
    runs = chosen.runs or (1 if chosen.quick else 3)
    for name in chosen.queries or QUERIES:
        with Broker(settings={"log.segment.bytes": str(1 << 30)}) as broker:
            given = Given(broker, market, warm=market.batches // 4)
            fill(broker, market, QUERIES[name])
            title = f"{name} from Kafka to Kafka: {market.batches} batches of {market.events:,} events"
            benchmark = Benchmark(title, ways(name, given), COLUMNS)
            found = paired(benchmark.ways, runs)
        check(found)
        show(benchmark, found, runs)


if __name__ == "__main__":
    main()
