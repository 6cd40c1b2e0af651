"""What it costs to read a Kafka topic into Arrow batches in Python: our two fetchers, and Spark's own source.

`python bench/kafka_fetch.py`: a broker of the tests, a topic of 4 partitions with values of 100 bytes and keys of 8.
Each way in a process of its own, by turns; medians. CPU is that of all its processes, not that of the broker. All ways
must have read the same before a figure is printed. `--no-spark` leaves out the part that needs Spark's Kafka jars.
"""

import sys

sys.path[0] += "/.."  # the broker is that of the tests

import argparse
import hashlib
import os
import shutil
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.engine.fresh import Measurement, measure
from holdfast_runtime.streams.kafka.clients import destroy_client, new_client
from holdfast_runtime.streams.kafka.librdkafka import library
from holdfast_runtime.streams.kafka.sending import send
from holdfast_runtime.streams.kafka.settings import KafkaSettings
from holdfast_runtime.streams.records import written_batch
from tests.kafka.broker import Broker

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
POM = Path(__file__).with_name("spark_kafka.xml")


def fill(bootstrap: str, rows: int) -> None:
    """Write the topic."""
    loaded = library()
    if loaded is None:
        sys.exit("the loops of gather.c are not built: `make setup`")
    settings = KafkaSettings("bench", bootstrap, {"linger.ms": "50", "batch.size": "524288"})
    client = new_client(loaded, "producer", settings, settings.client({}, {}))
    topic = loaded.kafka.topic_new(client, TOPIC.encode(), None)
    chance = np.random.default_rng(7)
    for first in range(0, rows // PARTITIONS, SENT):
        count = min(SENT, rows // PARTITIONS - first)
        for partition in range(PARTITIONS):
            keys = pa.array([b"%08d" % key for key in chance.integers(0, 10**8, count)], pa.binary())
            content = chance.integers(32, 127, count * BYTES, dtype=np.uint8)
            ends = pa.py_buffer(np.arange(0, count * BYTES + 1, BYTES, dtype=np.int32))
            values = pa.Array.from_buffers(pa.binary(), count, [None, ends, pa.py_buffer(content)])
            batch, taken = written_batch(keys, values, 1_700_000_000_000), 0
            while taken < count:
                taken += send(loaded, client, topic, partition, batch, taken).rows
                loaded.kafka.poll(client, 10)
    while loaded.kafka.outq_len(client):
        loaded.kafka.poll(client, 100)
    loaded.kafka.topic_destroy(topic)
    destroy_client(loaded, client)


def spark_jars() -> str:
    """Spark's Kafka source, made by Maven once and kept."""
    mvn = shutil.which("mvn")
    if mvn is None:
        sys.exit("Spark's Kafka source is taken from Maven Central: install Maven, or give --no-spark")
    version = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    jars = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "holdfast" / f"spark-kafka-{version}"
    if not jars.is_dir():
        draft = jars.with_suffix(f".{os.getpid()}")
        copy = [mvn, "-B", "-q", "-f", str(POM), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        subprocess.run([*copy, f"-DoutputDirectory={draft}"], check=True, timeout=600)  # noqa: S603 - Maven
        draft.rename(jars)
    return ",".join(str(jar) for jar in sorted(jars.glob("*.jar")))


def one(way: str, bootstrap: str, rows: int, jars: str) -> Measurement:
    """Measure a way once."""
    os.environ["HOLDFAST_KAFKA_READER"] = "plain" if way == "plain" else ""
    request = {
        "way": way,
        "bootstrap": bootstrap,
        "topic": TOPIC,
        "partitions": PARTITIONS,
        "rows": rows,
        "config": WAYS[way],
        "jars": jars,
        "warm": 2 if way == "spark" else 0,  # its JVM compiles the first ones
        "passes": 5 if way.startswith("fast") else 3,
    }
    return measure(way, CHILD, request)


def paired(ways: Sequence[str], bootstrap: str, rows: int, jars: str, rounds: int) -> dict[str, list[Measurement]]:
    """Every way once per round, forwards and backwards in turn, so that a slow minute hits all alike."""
    found: dict[str, list[Measurement]] = {way: [] for way in ways}
    for number in range(rounds):
        for way in ways if number % 2 == 0 else reversed(ways):
            found[way].append(one(way, bootstrap, rows, jars))
    return found


def show(found: Mapping[str, Sequence[Measurement]]) -> None:
    """Print the table, if all read the same."""
    digests = {one.digest for measured in found.values() for one in measured}
    if len(digests) > 1:
        sys.exit(f"the ways read different records, so there is nothing to compare: {sorted(digests)}")
    print(f"{'way':<26} {'M rows/CPU-s':>14} {'min..max':>14} {'M rows/s':>10} {'min..max':>14} {'to fast':>8}")
    base = _median(found["fast"], _per_cpu)
    for way, measured in found.items():
        cells = []
        for figure in (_per_cpu, _per_second):
            values = [figure(one) / 1e6 for one in measured]
            cells += [f"{statistics.median(values):.2f}", f"{min(values):.2f}..{max(values):.2f}"]
        ratio = _median(measured, _per_cpu) / base
        print(f"{way:<26} {cells[0]:>14} {cells[1]:>14} {cells[2]:>10} {cells[3]:>14} {ratio:>8.2f}")


def _per_cpu(one: Measurement) -> float:
    return one.rows / one.cpu_seconds


def _per_second(one: Measurement) -> float:
    return one.rows / one.seconds


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
    jars = "" if chosen.no_spark else spark_jars()
    rows = chosen.rows // PARTITIONS * PARTITIONS
    with Broker(settings={"log.segment.bytes": str(1 << 30)}) as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        fill(broker.bootstrap, rows)
        print(f"{rows} records of {BYTES} bytes in {PARTITIONS} partitions; medians of {chosen.rounds} rounds")
        show(paired(ways, broker.bootstrap, rows, jars, chosen.rounds))


if __name__ == "__main__":
    main()
