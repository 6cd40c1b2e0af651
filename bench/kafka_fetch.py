"""What it costs to read a Kafka topic into Arrow batches in Python: our two fetchers, and Spark's own source.

`python bench/kafka_fetch.py`: a broker of the tests, a topic of 4 partitions with values of 100 bytes and keys of 8.
Each way in a process of its own, by turns; medians. CPU is that of all its processes, not that of the broker. All ways
must have read the same before a figure is printed. `--no-spark` leaves out the part that needs Spark's Kafka jars.
"""

import sys

sys.path[0] += "/.."  # the broker is that of the tests

import argparse
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from bench.engine.fresh import Measurement, measure
from bench.engine.report import paired
from bench.kafka.broker import BenchBroker
from bench.kafka.jars import jars
from bench.kafka.topics import filler

TOPIC, PARTITIONS, BYTES = "bench", 4, 100
SENT = 20_000
CHILD = "bench.kafka_fetch_child"
WAYS: Mapping[str, Mapping[str, str]] = {
    "fast": {},
    "fast, check.crcs=false": {"check.crcs": "false"},
    "plain": {},
    "spark": {},
}
"""Name -> settings of the client."""


def fill(bootstrap: str, rows: int) -> None:
    """Write the topic."""
    chance = np.random.default_rng(7)
    with filler(bootstrap, TOPIC) as to:
        for first in range(0, rows // PARTITIONS, SENT):
            count = min(SENT, rows // PARTITIONS - first)
            for partition in range(PARTITIONS):
                keys = pa.array([b"%08d" % key for key in chance.integers(0, 10**8, count)], pa.binary())
                content = chance.integers(32, 127, count * BYTES, dtype=np.uint8)
                ends = pa.py_buffer(np.arange(0, count * BYTES + 1, BYTES, dtype=np.int32))
                values = pa.Array.from_buffers(pa.binary(), count, [None, ends, pa.py_buffer(content)])
                to.send(partition, keys, values)


def one(way: str, bootstrap: str, rows: int, spark: str) -> Measurement:
    """Measure a way once."""
    os.environ["HOLDFAST_KAFKA_READER"] = "plain" if way == "plain" else ""
    request = {
        "way": way,
        "bootstrap": bootstrap,
        "topic": TOPIC,
        "partitions": PARTITIONS,
        "rows": rows,
        "config": WAYS[way],
        "jars": spark,
        "warm": 2 if way == "spark" else 0,  # its JVM compiles the first ones
        "passes": 5 if way.startswith("fast") else 3,
    }
    return measure(way, CHILD, request)


def show(measurements: Mapping[str, Sequence[Measurement]]) -> None:
    """Print the table, if all read the same."""
    digests = {measurement.digest for measured in measurements.values() for measurement in measured}
    if len(digests) > 1:
        sys.exit(f"the ways read different records, so there is nothing to compare: {sorted(digests)}")
    print(f"{'way':<26} {'M rows/CPU-s':>14} {'min..max':>14} {'M rows/s':>10} {'min..max':>14} {'to fast':>8}")
    base = _median(measurements["fast"], _per_cpu)
    for way, measured in measurements.items():
        cells = []
        for figure in (_per_cpu, _per_second):
            values = [figure(one) / 1e6 for one in measured]
            cells += [f"{statistics.median(values):.2f}", f"{min(values):.2f}..{max(values):.2f}"]
        ratio = _median(measured, _per_cpu) / base
        print(f"{way:<26} {cells[0]:>14} {cells[1]:>14} {cells[2]:>10} {cells[3]:>14} {ratio:>8.2f}")


def _per_cpu(measurement: Measurement) -> float:
    return measurement.rows / measurement.cpu_seconds


def _per_second(measurement: Measurement) -> float:
    return measurement.rows / measurement.seconds


def _median(measured: Sequence[Measurement], figure: Callable[[Measurement], float]) -> float:
    return statistics.median(map(figure, measured))


def main() -> None:
    """Print a row per way."""
    parser = argparse.ArgumentParser(description="Kafka topics into Arrow batches.")
    parser.add_argument("--rows", type=int, default=2_000_000, help="in the topic (default: 2 000 000)")
    parser.add_argument("--rounds", type=int, default=5, help="of all ways (default: 5)")
    parser.add_argument("--no-spark", action="store_true", help="our fetchers alone")
    chosen = parser.parse_args()
    ways = [way for way in WAYS if way != "spark" or not chosen.no_spark]
    spark = "" if chosen.no_spark else jars("spark-kafka")
    rows = chosen.rows // PARTITIONS * PARTITIONS
    with BenchBroker() as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        fill(broker.bootstrap, rows)
        print(f"{rows} records of {BYTES} bytes in {PARTITIONS} partitions; medians of {chosen.rounds} rounds")
        show(paired([partial(one, way, broker.bootstrap, rows, spark) for way in ways], chosen.rounds))


if __name__ == "__main__":
    main()
