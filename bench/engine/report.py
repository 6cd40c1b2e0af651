"""The report: all ways in one run, in alternating order, equal results before any figure is printed.

A way is a function that takes one measurement; each takes the same data and gives the digest of its own results. Must
not know how an engine works.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from bench.engine import holdfast, peers
from bench.engine.data import Amounts, Clicks, Events, Orders, Rows, Sales, Visits
from bench.engine.fresh import Measurement
from bench.engine.peers import JOIN_STORES, STORES

Way = Callable[[], Measurement]


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of a measurement."""

    head: str
    value: Callable[[Measurement], float]
    form: str = ",.0f"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What is compared; the first column is what the spread and the ratio are about."""

    title: str
    ways: Sequence[Way]
    columns: Sequence[Column]


def note(name: str, form: str = ",.0f") -> Column:
    """A figure that the way reports itself; not all do."""
    return Column(name, lambda measurement: measurement.notes.get(name, math.nan), form)


PER_BATCH = Column("ms/batch", lambda measurement: 1e3 * statistics.median(measurement.batches))
CPU = Column("CPU-s", lambda measurement: measurement.cpu_seconds, ".1f")
RATE = Column("rows/s", lambda measurement: measurement.rows / measurement.seconds)
CPU_PER_MILLION = Column("CPU-s/M rows", lambda measurement: 1e6 * measurement.cpu_seconds / measurement.rows, ",.2f")
LATENCY = (
    PER_BATCH,
    Column("95 %", lambda measurement: 1e3 * statistics.quantiles(measurement.batches, n=20)[-1]),
    Column("CPU ms/batch", lambda measurement: 1e3 * measurement.cpu_seconds / len(measurement.batches)),
    *map(note, ("addBatch", "walCommit", "commitOffsets")),
)
THROUGHPUT = (RATE, CPU_PER_MILLION, PER_BATCH)
SLOWEST = (*THROUGHPUT, Column("longest ms", lambda measurement: 1e3 * max(measurement.batches)))
WINDOWS = (
    *SLOWEST,
    Column("to median", lambda measurement: max(measurement.batches) / statistics.median(measurement.batches), ".2f"),
    note("state MB", ",.1f"),
    note("memory MB", ",.1f"),
)
RESTART = (
    Column("seconds", lambda measurement: measurement.seconds, ".2f"),
    note("from start", ".2f"),
    note("state s", ".3f"),
    CPU,
    note("state MB"),
)
PHASES = tuple(note(name, ".1f") for name in ("open", "fetch", "steps", "encode", "write", "commit", "spark"))


def benchmarks(*, quick: bool) -> Mapping[str, Benchmark]:
    """All of them, by name."""
    clicks, amounts = (Clicks(12, 10_000), Amounts(4, 2_000)) if quick else (Clicks(60, 50_000), Amounts(8, 20_000))
    per_batch = (2, 4) if quick else (4, 12)
    kinds = ("planned", "job", "noop", "native")
    latency = [
        partial(peers.latency, kind, 20 if quick else 100, tuned=tuned) for kind in kinds for tuned in (True, False)
    ]
    latency += [partial(holdfast.latency, kind, 20 if quick else 100) for kind in holdfast.KINDS]
    stateless = [partial(engine.stateless, clicks, files) for files in per_batch for engine in (peers, holdfast)]
    stateful = [
        partial(peers.stateful, amounts, changelog=changelog, native=native)
        for native in (False, True)
        for changelog in (False, True)
    ]
    stateful.append(partial(holdfast.stateful, amounts))
    events = Events(4, 4_000) if quick else Events(16, 200_000)
    deduplicate = [partial(peers.deduplicate, events, store=store) for store in STORES]
    deduplicate.append(partial(holdfast.deduplicate, events))
    small, large = (
        [partial(peers.restart, Rows(keys), changelog=on) for on in (False, True)]
        + [partial(holdfast.restart, Rows(keys), lost=lost) for lost in (False, True)]
        for keys in (80_000, 4_300_000)
    )
    orders = Orders(18, 4_000) if quick else Orders(30, 100_000)
    return {
        "latency": Benchmark("empty batches, trigger 0 s", latency, LATENCY),
        "stateless": Benchmark("JSON lines -> filter -> select -> JSON lines", stateless, THROUGHPUT),
        "stateful": Benchmark(f"totals of {amounts.keys:,} keys, 2 rows of each per batch", stateful, THROUGHPUT),
        "deduplicate": Benchmark(
            f"the first of each id within an hour, {events.rows:,} rows/batch", deduplicate, SLOWEST
        ),
        "lookup": lookups(Sales(6, 10_000, 20_000) if quick else Sales(16, 200_000, 1_000_000)),
        "aggregate": windows(Visits(6, 4_000, 400, 400) if quick else Visits(18, 200_000, 20_000, 20_000)),
        "aggregate-sparse": windows(Visits(6, 800, 400, 400) if quick else Visits(18, 40_000, 20_000, 20_000)),
        "join": joins(orders, "Inner"),
        "join-left": joins(orders, "Left"),
        "restart-small": Benchmark("first batch of a new process, small state", small, RESTART),
        "restart": Benchmark("first batch of a new process", small if quick else large, RESTART),
    }


def lookups(sales: Sales) -> Benchmark:
    """Rows with what a table has of their key."""
    ways: list[Way] = [partial(peers.lookup, sales, broadcast=hint) for hint in (False, True)]
    ways.append(partial(holdfast.lookup, sales))
    return Benchmark(f"{sales.rows:,} rows/batch looked up in a table of {sales.names:,}", ways, SLOWEST)


def joins(orders: Orders, kind: str, stores: Sequence[str] = JOIN_STORES) -> Benchmark:
    """Two streams by id and time, with Spark's state in these stores."""
    ways: list[Way] = [partial(peers.join, orders, kind, store=store) for store in stores]
    ways.append(partial(holdfast.join, orders, kind))
    title = f"{kind} join of orders and payments within {orders.within} minutes, {orders.rows:,} rows/batch"
    return Benchmark(title, ways, WINDOWS)


def windows(visits: Visits, stores: Sequence[str] = STORES) -> Benchmark:
    """Count and sum by key in windows of a minute, with Spark's state in these stores."""
    ways: list[Way] = [partial(peers.aggregate, visits, store=store) for store in stores]
    ways += [partial(holdfast.windows_by_function, visits), partial(holdfast.aggregate, visits)]
    size = f"{visits.counts:,} keys and {visits.rows:,} rows/batch, {visits.held:,} counts held"
    return Benchmark(f"counts and sums in windows of a minute, {size}", ways, WINDOWS)


def growth() -> Mapping[str, Benchmark]:
    """More tasks on the same two cores, and more state; phases are medians in ms. Holdfast alone, but for `held-`."""
    tasks, clicks, amounts = (2, 16, 128), Clicks(24, 51_200), Amounts(6, 20_480)
    by_name = {
        "tasks-latency": Benchmark(
            "a record for each task", [partial(holdfast.latency, "counted", 40, parts) for parts in tasks], LATENCY
        ),
        "tasks-stateless": Benchmark(
            "clicks", [partial(holdfast.stateless, clicks, 4, parts) for parts in tasks], THROUGHPUT
        ),
        "tasks-stateful": Benchmark(
            "totals", [partial(holdfast.stateful, amounts, parts) for parts in tasks], THROUGHPUT
        ),
        "tasks-aggregate": Benchmark(
            "counts and sums in windows",
            [partial(holdfast.aggregate, Visits(18, 204_800, 20_480, 20_480), parts) for parts in (2, 16, 64)],
            WINDOWS,
        ),
    }
    by_name["tasks-join"] = Benchmark(
        "orders and payments",
        [partial(holdfast.join, Orders(30, 102_400), "Inner", parts) for parts in (2, 16, 64)],
        WINDOWS,
    )
    for size, a_minute in (("10k", 10_000), ("100k", 100_000), ("400k", 400_000)):
        by_name[f"keys-{size}-join"] = joins(Orders(30, a_minute), "Inner", ())
    waiting = Orders(102, 100_000, 110)
    by_name["restart-join"] = Benchmark(
        f"first batch of a new process, {waiting.all_rows:,} rows waiting",
        [partial(holdfast.restart_join, waiting, lost=lost) for lost in (False, True)],
        RESTART,
    )
    for size, minutes in (("500k", 4), ("5M", 49)):
        # Five million rows do not fit into a heap of 2 GB.
        orders = Orders(minutes + 12, 100_000, minutes)
        by_name[f"held-{size}-join"] = joins(orders, "Inner", STORES[:2])
    for size, held in (("10k", 10_000), ("100k", 100_000), ("1M", 1_000_000), ("10M", 10_000_000)):
        visits = Visits(18, 200_000, min(held, 20_000), held)
        # Ten million counts do not fit into a heap of 2 GB.
        by_name[f"held-{size}-aggregate"] = windows(visits, STORES[: 3 if held < 10_000_000 else 2])
    for size, keys, counts in (("1 MB", 9_200, (2,)), ("100 MB", 920_000, tasks), ("1 GB", 9_200_000, (2,))):
        rows = Rows(keys)
        by_name[f"state-{size.replace(' ', '')}-touches"] = Benchmark(
            f"1 000 rows per batch, {size} of state",
            [partial(holdfast.touches, rows, parts) for parts in counts],
            THROUGHPUT,
        )
        by_name[f"state-{size.replace(' ', '')}-restart"] = Benchmark(
            f"first batch of a new process, {size} of state",
            [partial(holdfast.restart, rows, lost=lost, parts=parts) for parts in counts for lost in (False, True)],
            RESTART,
        )
    columns = {name: (*benchmark.columns, *PHASES) for name, benchmark in by_name.items()}
    return {name: Benchmark(benchmark.title, benchmark.ways, columns[name]) for name, benchmark in by_name.items()}


def paired(ways: Sequence[Way], runs: int) -> dict[str, list[Measurement]]:
    """Every way once per run, forwards and backwards in turn, so that a slow minute hits all alike."""
    measurements: dict[str, list[Measurement]] = {}
    order = [way for run in range(runs) for way in (ways if run % 2 == 0 else reversed(ways))]
    for number, way in enumerate(order, start=1):
        began = time.monotonic()
        measurement = way()
        measurements.setdefault(measurement.way, []).append(measurement)
        print(f"{number} of {len(order)}: {measurement.way}, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return measurements


def check(measurements: Mapping[str, Sequence[Measurement]]) -> None:
    """No figure for engines that did different things."""
    digests = {way: sorted({one.digest for one in measured}) for way, measured in measurements.items()}
    if len({digest for of_way in digests.values() for digest in of_way}) > 1:
        message = f"results differ, so there is nothing to compare: {digests}"
        raise SystemExit(message)


def show(benchmark: Benchmark, measurements: Mapping[str, Sequence[Measurement]], runs: int) -> None:
    """Print the table: medians over the runs."""
    main = benchmark.columns[0]
    heads = [*(column.head for column in benchmark.columns), "spread", "ratio"]
    print(f"\n{benchmark.title}; medians of {runs} paired runs; spread and ratio to the first row are of {main.head}")
    print(f"{'way':<38}" + "".join(f"{head:>14}" for head in heads))
    base = next(iter(measurements.values()))
    for way, measured in measurements.items():
        figures = [format(statistics.median(map(column.value, measured)), column.form) for column in benchmark.columns]
        values = [main.value(one) for one in measured]
        spread = (max(values) - min(values)) / statistics.median(values)
        ratio = statistics.median(value / main.value(other) for value, other in zip(values, base, strict=True))
        print(f"{way:<38}" + "".join(f"{figure:>14}" for figure in [*figures, f"{spread:.0%}", f"{ratio:.2f}"]))


def main() -> None:
    """Print a table per benchmark."""
    parser = argparse.ArgumentParser(description="The engine beside stock Structured Streaming.")
    parser.add_argument("names", nargs="*", help="which (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes, one run: to see that it works")
    parser.add_argument("--grow", action="store_true", help="instead: with more tasks and more state")
    parser.add_argument("--runs", type=int, help="paired runs (default: 5, quick and grow: 1)")
    chosen = parser.parse_args()
    known = growth() if chosen.grow else benchmarks(quick=chosen.quick)
    if unknown := [name for name in chosen.names if name not in known]:
        parser.error(f"no benchmark {unknown}; there are {list(known)}")
    runs = chosen.runs or (1 if chosen.quick or chosen.grow else 5)
    for name in chosen.names or known:
        measurements = paired(known[name].ways, runs)
        check(measurements)
        show(known[name], measurements, runs)


if __name__ == "__main__":
    main()
