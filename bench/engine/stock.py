"""The process of a peer: one stock Structured Streaming query, timed by Spark's own progress.

Started by `fresh.measure` as `python -m bench.engine.stock REQUEST SCRATCH`. Which settings it gets, and why, stands in
`peers`. Must not use anything of Holdfast.
"""

# ruff: noqa: D102, N802 - names and meaning of methods are those of Spark's interfaces

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

from bench.engine import answers, data
from bench.engine.fresh import answer, process_started
from bench.engine.totals import added


class Planned(SimpleDataSourceStreamReader):
    """One planned row per batch, read on the driver, until all batches have been."""

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        if start["at"] >= self.batches:
            return iter([]), start
        return iter([(start["at"],)]), {"at": start["at"] + 1}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[Any, ...]]:
        return iter([(at,) for at in range(start["at"], end["at"])])


class Halves(DataSourceStreamReader):
    """Two partitions with one row each in every batch."""

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002
        return {"at": min(self.batches, start["at"] + 1)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(half) for half in range(2)] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return iter([(partition.value,)])


class OneRow(DataSource):
    """A Python source whose batches are one row, planned on the driver."""

    def schema(self) -> str:
        return "at BIGINT"

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: ARG002
        return Planned(int(self.options["batches"]))


class TwoParts(DataSource):
    """A Python source whose batches are two tasks with next to nothing to do."""

    def schema(self) -> str:
        return "at BIGINT"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002
        return Halves(int(self.options["batches"]))


class Totals(StatefulProcessor):
    """One get and one update per key and batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", "rows BIGINT, amount BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N803, ARG002
        after = added(self.total.get(), (row.amount for row in rows))
        self.total.update(after)
        yield Row(key=key[0], rows=after[0], amount=after[1])


def latency(spark: SparkSession, scratch: Path, *, kind: str, batches: int, warm: int) -> None:
    """Batches with nothing in them, as fast as they come."""
    if kind == "native":
        rows = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=2, numPartitions=2).load()
    else:
        source = OneRow if kind == "planned" else TwoParts
        spark.dataSource.register(source)
        rows = spark.readStream.format(source.__name__).options(batches=batches + warm).load()
        rows = rows if kind == "planned" else rows.mapInArrow(_same, rows.schema)
    writer = rows.writeStream.trigger(processingTime="0 seconds").option("checkpointLocation", f"{scratch}/checkpoint")
    query = (writer.format("noop") if kind in {"native", "noop"} else writer.foreachBatch(_collect)).start()
    if kind != "native":
        query.processAllAvailable()
    while (query.lastProgress or {"batchId": -1})["batchId"] < batches + warm - 1:
        query.awaitTermination(1)
    query.stop()
    _answer(scratch, query, warm, 0)


def _collect(frame: DataFrame, batch: int) -> None:  # noqa: ARG001
    frame.collect()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def stateless(spark: SparkSession, scratch: Path, *, files: str, per_batch: int, warm: int, rows: int) -> None:
    """JSON lines -> filter -> select -> JSON lines."""
    clicks = spark.readStream.schema(data.CLICK).option("maxFilesPerTrigger", per_batch).json(files)
    query = _to_files(clicks.filter(data.KEEP).selectExpr(*data.SELECT), scratch)
    _answer(scratch, query, warm, rows, digest=answers.digest(answers.read_lines(scratch / "out", data.KEPT)))


def stateful(spark: SparkSession, scratch: Path, *, files: str, native: bool, warm: int, rows: int) -> None:
    """JSON lines -> rows and sum of each key so far, one row per key and batch -> JSON lines."""
    amounts = spark.readStream.schema(data.AMOUNT).option("maxFilesPerTrigger", 2).json(files).groupBy("key")
    if native:
        totals = amounts.agg(sql.count("*").alias("rows"), sql.sum("amount").alias("amount"))
        query = _each_batch(totals, scratch, lambda frame, _: frame.write.mode("append").json(f"{scratch}/out"))
    else:
        schema = "key STRING, rows BIGINT, amount BIGINT"
        query = _to_files(amounts.transformWithState(Totals(), schema, "Append", "None"), scratch)
    _answer(scratch, query, warm, rows, digest=answers.digest(answers.read_lines(scratch / "out", data.TOTAL)))


def deduplicate(spark: SparkSession, scratch: Path, *, files: str, warm: int, rows: int) -> None:
    """JSON lines -> the first of each id within an hour -> JSON lines."""
    events = spark.readStream.schema(data.EVENT).option("maxFilesPerTrigger", 2).json(files)
    query = _to_files(events.withWatermark("ts", "1 hour").dropDuplicatesWithinWatermark(["id"]), scratch)
    _answer(scratch, query, warm, rows, digest=answers.digest(answers.read_lines(scratch / "out", data.SINGLE)))


def lookup(spark: SparkSession, scratch: Path, *, sales: Mapping[str, int], broadcast: bool, warm: int) -> None:
    """JSON lines -> with the name of each key, from a table that each batch reads -> JSON lines."""
    dataset = data.Sales(**sales)
    rows = spark.readStream.schema(data.AMOUNT).option("maxFilesPerTrigger", 2).json(str(dataset.directory() / "sales"))
    names = spark.read.parquet(str(dataset.directory() / "names"))
    query = _to_files(rows.join(sql.broadcast(names) if broadcast else names, "key", "left"), scratch)
    _answer(scratch, query, warm, dataset.rows, digest=answers.digest(answers.read_lines(scratch / "out", data.NAMED)))


def aggregate(spark: SparkSession, scratch: Path, *, visits: Mapping[str, int], warm: int) -> None:
    """JSON lines -> count and sum of each key in windows of a minute -> JSON lines."""
    dataset = data.Visits(**visits)
    rows = spark.readStream.schema(data.VISIT).option("maxFilesPerTrigger", 2).json(str(dataset.directory()))
    windows = rows.withWatermark("ts", f"{dataset.lateness} minutes").groupBy(sql.window("ts", "1 minute"), "key")
    counted = windows.agg(sql.count("*").alias("n"), sql.sum("amount").alias("total"))
    columns = ("key", "window.start AS window_start", "window.end AS window_end", "n", "total")
    query = _to_files(counted.selectExpr(*columns), scratch)
    counts = answers.until(answers.read_lines(scratch / "out", data.COUNTED), dataset.closed)
    _answer(scratch, query, warm, dataset.rows, digest=answers.digest(counts))


def join(spark: SparkSession, scratch: Path, *, orders: Mapping[str, int], kind: str, warm: int) -> None:
    """JSON lines of two streams -> pairs of one id within ten minutes -> JSON lines."""
    dataset = data.Orders(**orders)
    sides = []
    for side, schema in (("orders", data.ORDER), ("payments", data.PAYMENT)):
        rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 2).json(str(dataset.directory() / side))
        sides.append(rows.withWatermark("ts", "1 minute").alias(side))
    orders_side, payments_side = sides
    query = _to_files(pairs(orders_side, payments_side, dataset.within, kind), scratch)
    paid = answers.settled(answers.read_lines(scratch / "out", data.PAID), dataset.closed)
    _answer(scratch, query, warm, dataset.rows, digest=answers.digest(paid))


def pairs(orders: DataFrame, payments: DataFrame, minutes: int, kind: str) -> DataFrame:
    """Orders with payments, both under these names."""
    near = f"payments.ts BETWEEN orders.ts - INTERVAL {minutes} MINUTES AND orders.ts + INTERVAL {minutes} MINUTES"
    joined = orders.join(payments, sql.expr(f"orders.id = payments.id AND {near}"), kind)
    return joined.selectExpr("orders.id AS id", "amount", "orders.ts AS ts", "code")


def fill(spark: SparkSession, scratch: Path, *, files: str, checkpoint: str) -> None:
    """Make the state the restart begins with: large batches, then small ones, so that snapshots lag as in life."""
    # The file of the restart has another name. Paths must stay, because a restart looks at the last batch again.
    rows = spark.readStream.schema(data.ROW).option("maxFilesPerTrigger", 1).parquet(f"{files}/[0-9]*.parquet")
    began = time.time()
    writer = _latest(rows).writeStream.outputMode("update").format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(processingTime="2 seconds").start()
    query.processAllAvailable()
    query.stop()
    answer(scratch, (began, time.time()), 0, [])


def restart(spark: SparkSession, scratch: Path, *, files: str, checkpoint: str) -> None:
    """From `start()` in a new JVM to the first committed batch."""
    tables: list[pa.Table] = []
    rows = spark.readStream.schema(data.ROW).option("maxFilesPerTrigger", 1).parquet(f"{files}/*.parquet")
    began = time.time()
    query = _each_batch(_latest(rows), scratch, lambda frame, _: tables.append(frame.toArrow()), checkpoint)
    first = batches_of(query)[0]
    answer(
        scratch,
        (began, end_of(first)),
        first["numInputRows"],
        [first["durationMs"]["triggerExecution"] / 1e3],
        digest=answers.digest(tables[0]),
        notes={
            "state MB": first["stateOperators"][0]["customMetrics"]["rocksdbSstFileSize"] / 1e6,
            "from start": end_of(first) - process_started(),
        },
    )


def _latest(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").agg(sql.max("payload").alias("payload"), sql.count("*").alias("rows"))


def _to_files(rows: DataFrame, scratch: Path) -> StreamingQuery:
    writer = rows.writeStream.format("json").option("path", f"{scratch}/out")
    query = writer.option("checkpointLocation", f"{scratch}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def _each_batch(
    rows: DataFrame, scratch: Path, call: Callable[[DataFrame, int], None], checkpoint: str | None = None
) -> StreamingQuery:
    writer = rows.writeStream.outputMode("update").foreachBatch(call).trigger(availableNow=True)
    query = writer.option("checkpointLocation", checkpoint or f"{scratch}/checkpoint").start()
    query.awaitTermination()
    return query


def batches_of(query: StreamingQuery) -> list[dict[str, Any]]:
    """The progress of each trigger that ran a batch."""
    progress = [json.loads(one.json) for one in query.recentProgress]
    return [one for one in progress if "addBatch" in one["durationMs"]]


def begin_of(batch: dict[str, Any]) -> float:
    """Seconds since 1970."""
    return datetime.fromisoformat(batch["timestamp"]).timestamp()


def end_of(batch: dict[str, Any]) -> float:
    """Seconds since 1970."""
    return begin_of(batch) + float(batch["durationMs"]["triggerExecution"]) / 1e3


def _answer(scratch: Path, query: StreamingQuery, warm: int, rows: int, digest: str = "") -> None:
    """Report all batches but the first few; `rows` is what each has in its files.

    Spark's own count will not do: filters are pushed into the JSON scan, so it counts what is left of the rows.
    """
    # Spark closes what it can in a last batch of no rows, which the others would seem to gain from.
    batches = [one for one in batches_of(query)[warm:] if one["numInputRows"] or not rows]
    spent = {name: sorted(batch["durationMs"].get(name, 0) for batch in batches) for name in PARTS}
    answer(
        scratch,
        (begin_of(batches[0]), end_of(batches[-1])),
        rows * len(batches),
        [batch["durationMs"]["triggerExecution"] / 1e3 for batch in batches],
        digest=digest,
        notes={name: values[len(values) // 2] for name, values in spent.items()} | _state(batches[-1]),
    )


def _state(batch: dict[str, Any]) -> dict[str, float]:
    """What state takes on the disk, if its store has one, and in memory."""
    if not batch["stateOperators"]:
        return {}
    (state,) = batch["stateOperators"]
    disk = state["customMetrics"].get("rocksdbSstFileSize")
    return {"memory MB": state["memoryUsedBytes"] / 1e6} | ({} if disk is None else {"state MB": disk / 1e6})


PARTS = ("addBatch", "walCommit", "commitOffsets", "queryPlanning")
"""Of a trigger: their medians are in the notes, in milliseconds."""
PEERS: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (latency, stateless, stateful, deduplicate, lookup, aggregate, join, fill, restart)
}


def main() -> None:
    """Run what the request asks for."""
    request, scratch = json.loads(sys.argv[1]), Path(sys.argv[2])
    builder = SparkSession.builder.master("local[2]").config("spark.local.dir", str(scratch / "local"))
    for name, value in request["settings"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    PEERS[request["peer"]](spark, scratch, **request["arguments"])
    spark.stop()


if __name__ == "__main__":
    main()
