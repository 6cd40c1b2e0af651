"""Seconds from the command to the first result, as somebody who tries an app has it: `python bench/start.py`.

The same app, counts by key of a made up stream, in fresh processes by turns: `holdfast run` as it comes, in Spark, and
stock Structured Streaming in local mode, with as many shuffle partitions as cores. A result is the first batch with
rows that is done. All batches follow each other at once.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

APP = """\
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: counted}
spec:
  systems:
  - {name: made, generator: {function: "made:rows", rowsPerSecond: 1000}}
  - {name: local, log: {}}
  streams:
  - {name: rows, system: made, partitions: 2, key: [k], schema: "k STRING, n BIGINT"}
  - {name: counts, system: local, partitions: 2, key: [k]}
  steps:
  - {name: counted, from: [rows], aggregate: {by: [k], compute: ["count(*) AS n"]}}
  - {name: out, from: [counted], to: counts}
  runtime: {trigger: {interval: 0s}}
"""
MADE = """\
import pyarrow as pa


def rows(partition, offset, count):
    numbers = range(offset, offset + count)
    keys = [f"{partition}-{n % 50}" for n in numbers]
    return pa.RecordBatch.from_pydict({"k": keys, "n": pa.array(numbers, pa.int64())})
"""
STOCK = """\
from pyspark.sql import SparkSession

settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": 2}
spark = SparkSession.builder.master("local[*]").config(map=settings).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
rows = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
counts = rows.groupBy((rows.value % 100).alias("k")).count()


def said(batch, number):
    if batch.count():
        print("first", flush=True)


counts.writeStream.outputMode("update").foreachBatch(said).start().awaitTermination()
"""


def holdfast(folder: Path, *options: str) -> float:
    """Return the seconds of `holdfast run`."""
    app = folder / "app.yaml"
    app.write_text(APP, encoding="utf-8")
    (folder / "made.py").write_text(MADE, encoding="utf-8")
    run = ["run", str(app), "--data", str(folder / "data"), "--no-ui", "-o", "json", *options]

    def is_first(line: str) -> bool:
        event = json.loads(line)
        return bool(event["event"] == "progress" and event["rowsOut"] > 0)

    return seconds_until(["-c", "from holdfast_cli.main import entry; entry()", *run], is_first)


def stock(folder: Path) -> float:
    """Return the seconds of Structured Streaming."""
    script = folder / "stock.py"
    script.write_text(STOCK, encoding="utf-8")
    return seconds_until([str(script)], lambda line: line.startswith("first"))


def seconds_until(command: list[str], is_first: Callable[[str], bool]) -> float:
    """Return the seconds until a process says a line of this kind, and end it."""
    began = time.monotonic()
    with subprocess.Popen(  # noqa: S603 - ours
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        for line in process.stdout:
            if is_first(line):
                break
        seconds = time.monotonic() - began
        process.terminate()
    return seconds


WAYS: Mapping[str, Callable[[Path], float]] = {
    "Holdfast": holdfast,
    "Holdfast in Spark": lambda folder: holdfast(folder, "--master", "local[*]"),
    "stock Structured Streaming": stock,
}


def main() -> None:
    """Measure by turns and print."""
    parser = argparse.ArgumentParser(description="Seconds from the command to the first result.")
    parser.add_argument("--runs", type=int, default=3, help="rounds (default: 3)")
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(parser.parse_args().runs):
        for way, measure in WAYS.items():
            with tempfile.TemporaryDirectory(prefix="holdfast-start-") as folder:
                seconds[way].append(measure(Path(folder)))
    for way, runs in seconds.items():
        listed = ", ".join(f"{run:.1f}" for run in runs)
        print(f"{way:28} {statistics.median(runs):5.1f} s  ({listed})")


if __name__ == "__main__":
    main()
