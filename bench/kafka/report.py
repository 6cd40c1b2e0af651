"""The report: all ways in one run, in alternating order, equal results before any figure is printed.

What throughput is about is rows per second of CPU: by wall, a broker on the same two cores is in every figure. Must not
know how an engine works.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial

from bench.engine.data import Clicks, Orders, Visits
from bench.engine.fresh import Measurement
from bench.engine.report import Benchmark, Column, check, note, paired, show
from bench.kafka import latency, ways
from bench.kafka.broker import BenchBroker
from bench.kafka.given import Events
from tests.kafka.broker import Broker

Peer = Callable[[ways.Given], Measurement]
Places = Callable[[latency.Rate], list[partial[Measurement]]]
PER_CPU = Column("rows/CPU-s", lambda measurement: measurement.rows / measurement.cpu_seconds)
THROUGHPUT = (PER_CPU, Column("rows/s", lambda measurement: measurement.rows / measurement.seconds))
LATENCY = tuple(note(name) for name in latency.NAMES)


def throughput(title: str, workload: ways.Given, peers: Sequence[Peer]) -> Benchmark:
    """Ours and these, the peer that the goal is about first."""
    all_ways: list[Peer] = [*peers, *ways.OURS]
    return Benchmark(title, [partial(way, workload) for way in all_ways], THROUGHPUT)


def stateless(broker: Broker, *, quick: bool) -> Benchmark:
    """JSON, filter, select, JSON."""
    workload = ways.clicks(broker, Clicks(8, 50_000) if quick else Clicks(60, 50_000), 50_000 if quick else 200_000)
    peers: list[Peer] = [ways.stock, *(partial(ways.streams, guarantee=one) for one in (ways.EOS, ways.ALO))]
    return throughput("JSON -> filter -> select -> JSON", workload, peers)


def enrich(broker: Broker, *, quick: bool) -> Benchmark:
    """A name for each event, from a state of so many."""
    data = Events(400_000, 20_000) if quick else Events(4_000_000, 100_000)
    workload = ways.events(broker, data, 50_000 if quick else 400_000)
    peers = [partial(ways.streams, guarantee=one) for one in (ways.EOS, ways.ALO)]
    peers.append(partial(ways.streams, guarantee=ways.EOS, values="text"))
    return throughput(f"events with the names of {data.keys:,} keys, Kafka Streams", workload, peers)


def enrich_stock(broker: Broker, *, quick: bool) -> Benchmark:
    """The same, less of it."""
    data = Events(80_000, 5_000) if quick else Events(400_000, 20_000)
    workload = ways.events(broker, data, data.rows // 10)
    return throughput(f"events with the names of {data.keys:,} keys, transformWithState", workload, [ways.stock])


def lookup(broker: Broker, *, quick: bool) -> Benchmark:
    """The same from a table that changes meanwhile, ours and a KTable."""
    data = Events(400_000, 20_000) if quick else Events(4_000_000, 1_000_000)
    workload = ways.looked_up(broker, data, 50_000 if quick else 400_000)
    peers: list[Peer] = [partial(ways.streams, guarantee=one) for one in (ways.EOS, ways.ALO)]
    peers.append(partial(ways.holdfast, delivery="ExactlyOnce", distribution="Broadcast"))
    return throughput(f"events looked up in a changing table of {data.keys:,} rows, Kafka Streams", workload, peers)


def lookup_stock(broker: Broker, *, quick: bool) -> Benchmark:
    """The same, less of it: stock's state, and stock's join with a table that it reads again."""
    data = Events(80_000, 5_000) if quick else Events(400_000, 1_000_000)
    workload = ways.looked_up(broker, data, data.rows // 10)
    peers: list[Peer] = [ways.stock, partial(ways.stock, static=True)]
    return throughput(f"events looked up in a changing table of {data.keys:,} rows, stock", workload, peers)


def windowed_count(broker: Broker, *, quick: bool) -> Benchmark:
    """Visits of each key in each minute, told once when it is over."""
    data = Visits(8, 20_000, 2_000, 2_000) if quick else Visits(20, 200_000, 20_000, 20_000)
    workload = ways.visits(broker, data)
    peers: list[Peer] = [partial(ways.streams, guarantee=one) for one in (ways.EOS, ways.ALO)]
    peers += [partial(ways.streams, guarantee=ways.EOS, values="text"), ways.stock]
    peers.append(partial(ways.holdfast, delivery="ExactlyOnce", verb="process"))
    return throughput(f"counts of {data.counts:,} keys in windows of a minute, final", workload, peers)


def join(broker: Broker, *, quick: bool) -> Benchmark:
    """Payments of each order within ten minutes."""
    data = Orders(18, 20_000) if quick else Orders(30, 100_000)
    workload = ways.orders(broker, data)
    peers: list[Peer] = [*(partial(ways.streams, guarantee=one) for one in (ways.EOS, ways.ALO)), ways.stock]
    return throughput(f"orders joined with payments within {data.within} minutes", workload, peers)


def latencies(
    broker: Broker, *, quick: bool, work: ways.Work = "stateless", compared: Places = latency.all_ways
) -> Benchmark:
    """From a row's making to its being read, or to that of its pair."""
    seconds = 10 if quick else 20
    rate = latency.Rate(broker, rows_per_second=2_000, seconds=seconds, warm=5 if quick else 20, work=work)
    what = "row to pair" if work == "join" else "row to row"
    return Benchmark(f"milliseconds from {what} at {rate.rows_per_second:,} rows/s", compared(rate), LATENCY)


BENCHMARKS: dict[str, Callable[..., Benchmark]] = {
    "stateless": stateless,
    "enrich": enrich,
    "enrich-stock": enrich_stock,
    "lookup": lookup,
    "lookup-stock": lookup_stock,
    "windowed-count": windowed_count,
    "join": join,
    "latency": latencies,
    "latency-join": partial(latencies, work="join"),
    "latency-objects": partial(latencies, compared=latency.by_place),
}


def main() -> None:
    """Print a table per benchmark."""
    parser = argparse.ArgumentParser(description="Kafka to Kafka beside stock Spark and Kafka Streams.")
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes, one run: to see that it works")
    parser.add_argument("--runs", type=int, help="paired runs (default: 3, quick: 1)")
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.names if name not in BENCHMARKS]:
        parser.error(f"no benchmark {unknown}; there are {list(BENCHMARKS)}")
    runs = chosen.runs or (1 if chosen.quick else 3)
    for name in chosen.names or BENCHMARKS:
        with BenchBroker() as broker:
            benchmark = BENCHMARKS[name](broker, quick=chosen.quick)
            measurements = paired(benchmark.ways, runs)
        check(measurements)
        show(benchmark, measurements, runs)


if __name__ == "__main__":
    main()
