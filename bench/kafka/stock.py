"""The process of stock Structured Streaming: one query from Kafka to Kafka.

Started by `fresh.measure` as `python -m bench.kafka.stock REQUEST SCRATCH`. It gets the settings of
`bench.engine.peers` (tuned), Spark's own source and sink, and producers that batch as ours do. The sink has no
transactions: what it writes is there at least once. In real-time mode one batch lasts five minutes. Names of keys are
given to `transformWithState` as its initial state, which costs it less than reading them as rows. Must not use anything
of Holdfast but to read the results.
"""

# ruff: noqa: D102, N802 - names of methods are those of Spark's interfaces

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench.engine.data import CLICK, KEEP, ORDER, PAYMENT, SELECT, VISIT
from bench.engine.fresh import answer
from bench.engine.stock import batches_of, begin_of, end_of, pairs
from bench.kafka.given import EVENT, PARTITIONS, results

PRODUCER = {"kafka.linger.ms": "5", "kafka.batch.size": "524288", "kafka.acks": "all"}


class Naming(StatefulProcessor):
    """The row API: the name of a key is put into each of its rows."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.name = handle.getValueState("name", "name STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N803, ARG002
        state = self.name.get()
        for row in rows:
            yield Row(key=key[0], payload=row.payload, name=state[0] if state else None)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N803, ARG002
        self.name.update((initialState.name,))


def _rows(frame: DataFrame, schema: str) -> DataFrame:
    return frame.select(sql.from_json(sql.col("value").cast("string"), schema).alias("row")).select("row.*")


def _query(spark: SparkSession, request: dict[str, Any]) -> DataFrame:
    source = {"kafka.bootstrap.servers": request["bootstrap"], "startingOffsets": "earliest"}
    source |= {"kafka.isolation.level": "read_committed", "kafka.max.partition.fetch.bytes": "2097152"}
    if request["work"] == "join":
        return _join(spark, request, source)
    stream = spark.readStream.format("kafka").options(**source, subscribe=request["rows_in"])
    if request["per_batch"]:
        stream = stream.option("maxOffsetsPerTrigger", request["per_batch"])
    if request["work"] == "stateless":
        return _rows(stream.load(), CLICK).filter(KEEP).selectExpr(*SELECT)
    if request["work"] == "windowed-count":
        visits = _rows(stream.load(), VISIT).withWatermark("ts", f"{request['lateness']} minutes")
        counted = visits.groupBy(sql.window("ts", "1 minute"), "key").agg(sql.count("*").alias("n"))
        return counted.selectExpr("key", "window.start AS window_start", "window.end AS window_end", "n")
    names = _rows(spark.read.format("kafka").options(**source, subscribe=request["names"]).load(), EVENT)
    if request["static"]:
        records = spark.read.format("kafka").options(**source, subscribe=request["names"]).load()
        row = sql.from_json(sql.col("value").cast("string"), EVENT).alias("row")
        newest = records.select(row, "offset").groupBy("row.key").agg(sql.max_by("row.name", "offset").alias("name"))
        return _rows(stream.load(), EVENT).drop("name").join(newest, "key", "left")
    events = _rows(stream.load(), EVENT).groupBy("key")
    return events.transformWithState(Naming(), EVENT, "Append", "None", initialState=names.groupBy("key"))


def _join(spark: SparkSession, request: dict[str, Any], source: dict[str, str]) -> DataFrame:
    sides = []
    for name, topic, schema in (("orders", "rows_in", ORDER), ("payments", "names", PAYMENT)):
        stream = spark.readStream.format("kafka").options(**source, subscribe=request[topic])
        if request["per_batch"]:
            stream = stream.option("maxOffsetsPerTrigger", request["per_batch"] // 2)
        sides.append(_rows(stream.load(), schema).withWatermark("ts", f"{request['lateness']} minutes").alias(name))
    orders, payments = sides
    return pairs(orders, payments, request["within"], "Inner")


def started(request: dict[str, Any], scratch: Path) -> Any:
    """The query, running."""
    real_time = request.get("real_time", False)
    # Each task of a real-time batch has a slot of its own for as long as the batch lasts.
    builder = SparkSession.builder.master(f"local[{PARTITIONS if real_time else 2}]").config(
        "spark.local.dir", str(scratch / "local")
    )
    for name, value in {**request["settings"], "spark.jars": request["jars"]}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = _query(spark, request)
    columns = [f"{name} AS key" for name in ("key", "id") if name in rows.columns]
    writer = rows.selectExpr(*columns, "to_json(struct(*)) AS value").writeStream.format("kafka")
    writer = writer.options(**PRODUCER, **{"kafka.bootstrap.servers": request["bootstrap"], "topic": request["out"]})
    trigger: dict[str, Any] = {"availableNow": True} if request["per_batch"] else {"processingTime": "0 seconds"}
    if real_time:
        trigger, writer = {"realTime": "5 minutes"}, writer.outputMode("update")
    return writer.option("checkpointLocation", f"{scratch}/checkpoint").trigger(**trigger).start()


def main() -> None:
    """Run it, and report its batches but the first few."""
    request, scratch = json.loads(sys.argv[1]), Path(sys.argv[2])
    query = started(request, scratch)
    query.awaitTermination()
    counted = batches_of(query)[request["warm"] :]
    answer(
        scratch,
        (begin_of(counted[0]), end_of(counted[-1])),
        sum(one["numInputRows"] for one in counted),
        [one["durationMs"]["triggerExecution"] / 1e3 for one in counted],
        digest=results(request),
        notes={},
    )


if __name__ == "__main__":
    main()
