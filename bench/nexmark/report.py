"""The table of Nexmark: each query by Holdfast, stock Structured Streaming and Flink, from mapped events to nothing.

First each way answers once into files, and answers must be equal; then each is measured in alternating order.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bench.engine import fresh
from bench.engine.fresh import Measurement
from bench.engine.peers import JOIN_STORES, SAME, STORES, TUNED, state_in
from bench.engine.report import CPU_PER_MILLION, PER_BATCH, RATE, Benchmark, Column, Way, check, note, paired, show
from bench.kafka.jars import jars
from bench.nexmark.flink_sql import QUERIES
from bench.nexmark.market import Market
from bench.nexmark.questions import QUESTIONS

EXAMPLES = Path(__file__).parents[2] / "examples" / "nexmark"
WARM = 2
"""Batches that don't count: the JVM compiles."""
CORES = 2
JOINS = ("q3", "q8", "q20", "q20-join")
"""Those in which Spark joins two streams."""
PER_CPU = Column("events/CPU-s", lambda measurement: measurement.rows / measurement.cpu_seconds)
COLUMNS = (
    RATE,
    PER_CPU,
    CPU_PER_MILLION,
    PER_BATCH,
    Column("longest ms", lambda measurement: 1e3 * max(measurement.batches)),
    note("state MB", ",.1f"),
    note("memory MB", ",.1f"),
)


def tree_of(name: str) -> dict[str, Any]:
    """The app of a query."""
    tree: dict[str, Any] = YAML(typ="safe").load((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
    return tree


def holdfast(name: str, market: Market, *, keep_rows: bool) -> Measurement:
    """The app of the file."""
    request = {"query": name, "market": asdict(market), "warm": WARM, "kept": keep_rows}
    return fresh.measure(
        "Holdfast", "bench.nexmark.holdfast_run", {**request, "app": tree_of(name), "master": f"local[{CORES}]"}
    )


def stock(name: str, market: Market, store: str, *, keep_rows: bool) -> Measurement:
    """The native query, with Spark's state in this store."""
    request = {
        "query": name,
        "market": asdict(market),
        "warm": WARM,
        "kept": keep_rows,
        "settings": SAME | TUNED | (state_in(store) if QUESTIONS[name].state else {}),
    }
    way = f"stock, {store}" if QUESTIONS[name].state else "stock"
    return fresh.measure(way, "bench.nexmark.stock", request)


def flink(name: str, market: Market, *, keep_rows: bool) -> Measurement:
    """The query in Flink SQL."""
    request = {"query": name, "market": asdict(market), "kept": keep_rows, "jars": jars("flink", Path(__file__).parent)}
    return fresh.measure("Flink", "bench.nexmark.flink_run", request)


def ways(name: str, market: Market, stores: Sequence[str], *, with_flink: bool, keep_rows: bool) -> list[Way]:
    """All who have an answer, stock first: ratios are to it."""
    question = QUESTIONS[name]
    fitting = [store for store in stores if store in STORES or name in JOINS]
    used = () if not question.stock else fitting if question.state else fitting[:1]
    peers: list[Way] = [partial(stock, name, market, store, keep_rows=keep_rows) for store in used]
    if with_flink and name in QUERIES:
        peers.append(partial(flink, name, market, keep_rows=keep_rows))
    return [*peers, partial(holdfast, name, market, keep_rows=keep_rows)]


def main() -> None:
    """Print a table for each query."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.nexmark", description="Nexmark by Holdfast, by stock Structured Streaming and by Flink."
    )
    parser.add_argument("queries", nargs="*", help=f"which (default: all): {' '.join(QUESTIONS)}")
    parser.add_argument("--quick", action="store_true", help="few events, one run: to see that it works")
    parser.add_argument("--runs", type=int, help="paired runs (default: 3, quick: 1)")
    parser.add_argument("--batches", type=int, default=20, help="batches of events, the first two not counted")
    parser.add_argument("--events", type=int, default=200_000, help="events of a batch")
    parser.add_argument("--rate", type=int, default=50_000, help="events in a second of event time")
    parser.add_argument("--stores", nargs="+", choices=JOIN_STORES, default=JOIN_STORES, help="of stock's state")
    parser.add_argument("--without-flink", action="store_true", help="which takes half of the time")
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.queries if name not in QUESTIONS]:
        parser.error(f"no query {unknown}; there are {list(QUESTIONS)}")
    market = Market(8, 10_000, 2_000) if chosen.quick else Market(chosen.batches, chosen.events, chosen.rate)
    runs = chosen.runs or (1 if chosen.quick else 3)
    market.directory()
    for name in chosen.queries or QUESTIONS:
        make_ways = partial(ways, name, market, chosen.stores, with_flink=not chosen.without_flink)
        answers = paired(make_ways(keep_rows=True), 1)
        check(answers)
        (rows, *_) = (measurement.digest.partition(":")[0] for measured in answers.values() for measurement in measured)
        title = f"{name}: {market.batches} batches of {market.events:,} events, answers of {rows} rows compared"
        benchmark = Benchmark(title, make_ways(keep_rows=False), COLUMNS)
        show(benchmark, paired(benchmark.ways, runs), runs)


if __name__ == "__main__":
    main()
