"""A measured process of kafka_fetch.py: one way of reading the whole topic, several times.

Started by `fresh.measure` as `python -m bench.kafka_fetch_child REQUEST SCRATCH`. Each way counts rows in the measured
passes, and takes a checksum of all of them in one before.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.engine.fresh import answer

RANGE = 25_000
"""Records per fetch, by turns over the partitions, as a batch of a task reads them."""
COLUMNS = ("offset", "key", "value", "timestamp")
NO_DIGEST = 0


def digest(batch: pa.RecordBatch) -> int:
    """A sum over rows, however they come in batches: each value's bytes, weighed by where it is."""
    values = batch.column("value")
    _, ends, content = values.buffers()
    begins = np.frombuffer(ends, np.int32)[values.offset : values.offset + len(values)]
    sums = np.add.reduceat(np.frombuffer(content, np.uint8), begins, dtype=np.uint64)
    last = np.frombuffer(ends, np.int32)[values.offset + len(values)]
    sums[-1] = np.frombuffer(content, np.uint8)[begins[-1] : last].sum(dtype=np.uint64)
    offsets = batch.column("offset").to_numpy().astype(np.uint64)
    with np.errstate(over="ignore"):
        return int((sums * (offsets + np.uint64(1))).sum())


def fetched(request: dict[str, Any]) -> Callable[[bool], tuple[int, int]]:
    """By a fetcher of ours."""
    from holdfast.tasks.partitions import StreamPartition  # noqa: PLC0415
    from holdfast_runtime.streams.kafka.client.settings import KafkaSettings  # noqa: PLC0415
    from holdfast_runtime.streams.kafka.read.fetcher import make_fetcher  # noqa: PLC0415 - not for Spark
    from holdfast_runtime.streams.records import OffsetRange  # noqa: PLC0415

    fetcher = make_fetcher(KafkaSettings("bench", request["bootstrap"], request["config"]))
    rows, partitions = request["rows"] // request["partitions"], range(request["partitions"])

    def whole(check: bool) -> tuple[int, int]:  # noqa: FBT001 - one of two passes
        count = total = 0
        fetcher.begin(OffsetRange(StreamPartition(request["topic"], one), 0, rows) for one in partitions)
        for start in range(0, rows, RANGE):
            for partition in partitions:
                batch = fetcher.fetch(request["topic"], partition, start, min(rows, start + RANGE))
                count += batch.num_rows
                total += digest(batch) if check else NO_DIGEST
        return count, total & (2**64 - 1)

    return whole


def by_spark(request: dict[str, Any]) -> Callable[[bool], tuple[int, int]]:
    """By Spark's own source, into Python."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - not for the fetchers

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", request["jars"])
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    options = {
        "kafka.bootstrap.servers": request["bootstrap"],
        "subscribe": request["topic"],
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
        "kafka.isolation.level": "read_committed",
        "kafka.max.partition.fetch.bytes": "2097152",
    }

    def whole(check: bool) -> tuple[int, int]:  # noqa: FBT001
        def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                total = digest(batch) & (2**63 - 1) if check and batch.num_rows else NO_DIGEST
                yield pa.record_batch({"rows": [batch.num_rows], "total": [total]})

        read = session.read.format("kafka").options(**options).load().select(*COLUMNS)
        counts = read.mapInArrow(counted, "rows BIGINT, total BIGINT").collect()
        return sum(row["rows"] for row in counts), sum(row["total"] for row in counts) & (2**63 - 1)

    return whole


def main() -> None:
    """Read it as asked, and report."""
    request, scratch = json.loads(sys.argv[1]), Path(sys.argv[2])
    whole = (by_spark if request["way"] == "spark" else fetched)(request)
    for _ in range(request["warm"]):
        whole(False)  # noqa: FBT003
    count, total = whole(True)  # noqa: FBT003
    began, passes = time.time(), []
    for _ in range(request["passes"]):
        started = time.perf_counter()
        if whole(False)[0] != count:  # noqa: FBT003
            sys.exit("two passes read different numbers of rows")
        passes.append(time.perf_counter() - started)
    rows = request["rows"] * request["passes"]
    answer(scratch, (began, time.time()), rows, passes, digest=f"{count} rows, {total & (2**63 - 1):016x}")


if __name__ == "__main__":
    main()
