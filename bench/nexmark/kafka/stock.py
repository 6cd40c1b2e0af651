"""The queries of Nexmark in stock Structured Streaming from Kafka to Kafka, inside the process of a measurement.

Started by `fresh.measure` as `python -m bench.nexmark.kafka.stock REQUEST SCRATCH`. The queries are those of
`bench.nexmark.stock`, with Spark's own source and sink. The sink has no transactions: what it writes is there at least
once. Must not use anything of Holdfast but to read the results.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from bench.engine.fresh import answer
from bench.engine.stock import batches_of, begin_of, end_of
from bench.kafka.stock import PRODUCER
from bench.nexmark.kafka.topics import answer as written
from bench.nexmark.market import Market
from bench.nexmark.questions import QUESTIONS
from bench.nexmark.stock import ANSWERS, Given, state_of

LATE = "1 second"
"""A batch does not end at the same time in both partitions."""
_MICROS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


def main() -> None:
    """Run what the request asks for."""
    request, scratch = json.loads(sys.argv[1]), Path(sys.argv[2])
    market, question, warm = Market(**request["market"]), QUESTIONS[request["query"]], request["warm"]
    builder = SparkSession.builder.master("local[2]").config("spark.local.dir", str(scratch / "local"))
    for name, value in {**request["settings"], "spark.jars": request["jars"]}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    source = {"kafka.bootstrap.servers": request["bootstrap"], "startingOffsets": "earliest"}
    source |= {"kafka.isolation.level": "read_committed", "kafka.max.partition.fetch.bytes": "2097152"}

    def given(stream: str) -> DataFrame:
        schema = spark.read.parquet(f"{market.directory() / stream}/00000.parquet").schema.simpleString()
        topic = spark.readStream.format("kafka").options(**source, subscribe=stream)
        if not request["live"]:
            topic = topic.option("maxOffsetsPerTrigger", request["per_batch"][stream])
        rows = topic.load().select(sql.from_json(sql.col("value").cast("string"), schema).alias("row"))
        return rows.select("row.*")

    rows = ANSWERS[request["query"]](Given(given, LATE))
    made = rows.select(sql.to_json(sql.struct("*"), _MICROS).alias("value"))
    writer = made.writeStream.outputMode("update" if question.by else "append").format("kafka")
    writer = writer.options(**PRODUCER, **{"kafka.bootstrap.servers": request["bootstrap"], "topic": request["out"]})
    when: dict[str, Any] = {"processingTime": "0 seconds"} if request["live"] else {"availableNow": True}
    query = writer.option("checkpointLocation", str(scratch / "checkpoint")).trigger(**when).start()
    query.awaitTermination()
    batches = batches_of(query)
    counted = batches[warm:]
    answer(
        scratch,
        (begin_of(counted[0]), end_of(counted[-1])),
        (market.batches - warm) * market.events,
        [one["durationMs"]["triggerExecution"] / 1e3 for one in counted[: market.batches - warm]],
        digest=question.digest(written(request["bootstrap"], request["out"]), market),
        notes=state_of(counted[-1]),
    )
    spark.stop()


if __name__ == "__main__":
    main()
