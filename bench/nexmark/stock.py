"""The queries of Nexmark in stock Structured Streaming, as they run inside the process of a measurement.

Started by `fresh.measure` as `python -m bench.nexmark.stock REQUEST SCRATCH`. Each is the native query that does least:
no Python, no time zone but UTC, only columns that are needed before a shuffle, watermarks where they let state go. Must
not use anything of Holdfast's runtime but `market`, which has its files.
"""

# ruff: noqa: D103 - what a query asks stands beside its app

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from bench.engine.fresh import answer
from bench.engine.stock import batches_of, begin_of, end_of
from bench.nexmark.market import PARTS, Market
from bench.nexmark.questions import QUESTIONS


@dataclass(frozen=True, slots=True)
class Given:
    """Where rows come from."""

    read: Callable[[str], DataFrame]
    late: str = "0 seconds"
    """By how much event times may be out of order."""

    def __call__(self, stream: str) -> DataFrame:
        """The rows of a stream."""
        return self.read(stream)

    def timed(self, stream: str) -> DataFrame:
        """The same, so that state knows what is over."""
        return self.read(stream).withWatermark("date_time", self.late)


CONVERTED = "CAST(0.908 * price AS DECIMAL(23,3)) AS price"
CHANNEL = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
KNOWN = "lower(channel) IN ('apple', 'google', 'facebook', 'baidu')"
BID = ("auction", "bidder", "price", "channel", "url", "date_time", "extra")


def q0(inputs: Given) -> DataFrame:
    return inputs("bid").select("auction", "bidder", "price", "date_time", "extra")


def q1(inputs: Given) -> DataFrame:
    return inputs("bid").selectExpr("auction", "bidder", CONVERTED, "date_time", "extra")


def q2(inputs: Given) -> DataFrame:
    return inputs("bid").filter("auction % 123 = 0").select("auction", "price")


def q3(inputs: Given) -> DataFrame:
    people = inputs("person").filter("state IN ('OR', 'ID', 'CA')").selectExpr("id AS seller", "name", "city", "state")
    return inputs("auction").filter("category = 10").select("id", "seller").join(people, "seller")


def q5(inputs: Given) -> DataFrame:
    counted = inputs.timed("bid").groupBy("auction", sql.window("date_time", "10 seconds", "2 seconds").alias("w"))
    counts = counted.agg(sql.count("*").alias("num"))
    most = counts.groupBy(sql.window(sql.window_time("w"), "2 seconds").alias("w2"))
    hot = most.agg(sql.max(sql.struct("num", "auction")).alias("hot"))
    return hot.selectExpr("hot.auction AS auction", "hot.num AS num", "w2.end AS window_end")


def q7(inputs: Given) -> DataFrame:
    best = sql.max(sql.struct("price", "auction", "bidder", "date_time", "extra")).alias("bid")
    highest = inputs.timed("bid").groupBy(sql.window("date_time", "10 seconds")).agg(best)
    return highest.selectExpr("window.end AS window_end", "bid.*")


def q8(inputs: Given) -> DataFrame:
    window = sql.window("date_time", "10 seconds").alias("w")
    people = inputs.timed("person").select("id", "name", window)
    sellers = inputs.timed("auction").select(sql.col("seller").alias("id"), window).dropDuplicates(["id", "w"])
    return people.join(sellers, ["id", "w"]).selectExpr("id", "name", "w.start AS starttime")


def q11(inputs: Given) -> DataFrame:
    sessions = inputs.timed("bid").groupBy("bidder", sql.session_window("date_time", "10 seconds").alias("w"))
    counted = sessions.agg(sql.count("*").alias("bid_count"))
    return counted.selectExpr("bidder", "w.start AS window_start", "w.end AS window_end", "bid_count")


def q13(inputs: Given) -> DataFrame:
    keyed = inputs("bid").selectExpr("auction", "bidder", "price", "date_time", "auction % 10000 AS key")
    return keyed.join(sql.broadcast(inputs("side-input")), "key").drop("key")


def q14(inputs: Given) -> DataFrame:
    bids = inputs("bid").filter("0.908 * price > 1000000 AND 0.908 * price < 50000000")
    time = """CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour(date_time) <= 6
        OR hour(date_time) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bid_time_type"""
    letters = "CAST(length(extra) - length(replace(extra, 'c', '')) AS BIGINT) AS c_counts"
    return bids.selectExpr("auction", "bidder", CONVERTED, time, "date_time", "extra", letters)


def q17(inputs: Given) -> DataFrame:
    computed = {
        "total_bids": "count(*)",
        "rank1_bids": "count_if(price < 10000)",
        "rank2_bids": "count_if(price >= 10000 AND price < 1000000)",
        "rank3_bids": "count_if(price >= 1000000)",
        "min_price": "min(price)",
        "max_price": "max(price)",
        "avg_price": "avg(price)",
        "sum_price": "sum(price)",
    }
    reported = inputs.timed("bid").groupBy("auction", sql.window("date_time", "1 day").alias("w"))
    daily = reported.agg(*(sql.expr(text).alias(name) for name, text in computed.items()))
    return daily.selectExpr("auction", "w.start AS window_start", "w.end AS window_end", *computed)


def q18(inputs: Given) -> DataFrame:
    newest = [sql.max_by(name, "date_time").alias(name) for name in ("price", "channel", "url", "extra")]
    return inputs("bid").groupBy("auction", "bidder").agg(*newest, sql.max("date_time").alias("date_time"))


def q20(inputs: Given) -> DataFrame:
    items = (
        inputs.timed("auction")
        .filter("category = 10")
        .selectExpr(
            *("id", "item_name", "description", "initial_bid", "reserve", "date_time AS auction_date_time"),
            *("expires", "seller", "category", "extra AS auction_extra"),
        )
    )
    near = """auction = id AND date_time BETWEEN auction_date_time - INTERVAL 1 MINUTE
        AND auction_date_time + INTERVAL 1 MINUTE"""
    return inputs.timed("bid").join(items, sql.expr(near)).drop("id")


def q21(inputs: Given) -> DataFrame:
    known = inputs("bid").filter(f"{KNOWN} OR {CHANNEL} <> ''")
    ids = f"""CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
        WHEN 'baidu' THEN '3' ELSE {CHANNEL} END AS channel_id"""
    return known.selectExpr("auction", "bidder", "price", "channel", ids)


def q22(inputs: Given) -> DataFrame:
    folders = [f"get(split(url, '/'), {at + 2}) AS dir{at}" for at in (1, 2, 3)]
    return inputs("bid").selectExpr("auction", "bidder", "price", "channel", *folders)


ANSWERS: Mapping[str, Callable[[Given], DataFrame]] = {
    query.__name__: query for query in (q0, q1, q2, q3, q5, q7, q8, q11, q13, q14, q17, q18, q20, q21, q22)
} | {"q20-join": q20}


def measured(spark: SparkSession, scratch: Path, request: Mapping[str, Any]) -> None:
    """Run a query over all events, to nothing, or to files if its answer is to be compared."""
    market, name, warm = Market(**request["market"]), request["query"], request["warm"]
    question, folder, out = QUESTIONS[name], market.directory(), scratch / "out"

    def given(stream: str) -> DataFrame:
        path = f"{folder / stream}{'-ahead' if question.ahead == stream else ''}"
        files = {"path": path, "pathGlobFilter": "*.parquet"}
        if stream == "side-input":
            return spark.read.format("parquet").options(**files).load()
        schema = spark.read.parquet(f"{path}/00000.parquet").schema
        return spark.readStream.schema(schema).format("parquet").options(**files, maxFilesPerTrigger=PARTS).load()

    writer = ANSWERS[name](Given(given)).writeStream.outputMode("update" if question.by else "append")
    writer = writer.trigger(availableNow=True).option("checkpointLocation", str(scratch / "checkpoint"))
    if request["kept"]:
        writer = writer.foreachBatch(lambda rows, _: rows.write.mode("append").parquet(str(out)))
    else:
        writer = writer.format("noop")
    query = writer.start()
    query.awaitTermination()
    batches = batches_of(query)
    counted = batches[warm:]
    answer(
        scratch,
        (begin_of(counted[0]), end_of(counted[-1])),
        (market.batches - warm) * market.events,
        [one["durationMs"]["triggerExecution"] / 1e3 for one in counted[: market.batches - warm]],
        digest=question.digest(parquet.read_table(out), market) if request["kept"] else "",
        notes=state_of(counted[-1]),
    )


def state_of(batch: Mapping[str, Any]) -> dict[str, float]:
    """What state takes on the disk, if its store has one, and in memory."""
    operators = batch["stateOperators"]
    if not operators:
        return {}
    files = [one["customMetrics"].get("rocksdbSstFileSize", 0) for one in operators]
    return {"memory MB": sum(one["memoryUsedBytes"] for one in operators) / 1e6, "state MB": sum(files) / 1e6}


def main() -> None:
    """Run what the request asks for."""
    request, scratch = json.loads(sys.argv[1]), Path(sys.argv[2])
    builder = SparkSession.builder.master("local[2]").config("spark.local.dir", str(scratch / "local"))
    for name, value in request["settings"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    measured(spark, scratch, request)
    spark.stop()


if __name__ == "__main__":
    main()
