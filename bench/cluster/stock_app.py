"""The program of the stock subject: the counted app of the tests, from Kafka to Kafka.

`spark-submit stock_app.py REQUEST` in the driver's pod, where there is nothing of this repository but this file. The
row API of `transformWithState` keeps the numbers; the sink has no transactions, so rows are there at least once. Must
not import anything of the repository.
"""

# ruff: noqa: D102, N802 - names of methods are those of Spark's interfaces

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

ROW = "id BIGINT, k STRING, ts TIMESTAMP"
NUMBERED = "id BIGINT, k STRING, nth BIGINT, stamp STRING"
PRODUCER = {"kafka.linger.ms": "5", "kafka.acks": "all"}


class Numbered(StatefulProcessor):
    """Numbers the rows of a key; keys that fill the state get bytes instead."""

    def __init__(self, fills: str, size: int) -> None:
        self.fills = fills
        self.size = size

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.n = handle.getValueState("n", "n BIGINT")
        self.blob = handle.getValueState("blob", "blob BINARY")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N803, ARG002
        name = key[0]
        if name.startswith(self.fills):
            for _ in rows:
                self.blob.update((random.Random(name).randbytes(self.size),))
            return
        state = self.n.get()
        n = state[0] if state else 0
        for row in rows:
            n += 1
            yield Row(id=row.id, k=name, nth=n, stamp=row.stamp)
        self.n.update((n,))


def numbered(rows: DataFrame, request: dict[str, Any]) -> DataFrame:
    """Records of Kafka in, rows out."""
    parsed = rows.select(sql.from_json(sql.col("value").cast("string"), ROW).alias("row")).select("row.*")
    named = parsed.filter("id % 10 <> 3").selectExpr("id", "concat('key-', k) AS name", "uuid() AS stamp")
    counting = Numbered(request["fills"], request["size"])
    return named.groupBy("name").transformWithState(counting, NUMBERED, "Append", "None")


def started(spark: SparkSession, request: dict[str, Any]) -> StreamingQuery:
    """The query, running."""
    brokers = {"kafka.bootstrap.servers": request["bootstrap"]}
    source = {**brokers, "subscribe": request["rows"], "startingOffsets": "earliest"}
    rows = spark.readStream.format("kafka").options(**source, maxOffsetsPerTrigger=request["per_batch"]).load()
    values = numbered(rows, request).selectExpr("k AS key", "to_json(struct(*)) AS value")
    writer = values.writeStream.format("kafka").options(**PRODUCER, **brokers, topic=request["numbered"])
    return (
        writer.option("checkpointLocation", request["checkpoint"])
        .trigger(processingTime=request["interval"])
        .outputMode("append")
        .start()
    )


def main() -> None:
    """Run it until it ends."""
    spark = SparkSession.builder.getOrCreate()
    started(spark, json.loads(sys.argv[1])).awaitTermination()


if __name__ == "__main__":
    main()
