"""What others read and write of the same records: Spark's `from_avro`, and the serdes of Kafka Streams."""

import json
import os
import statistics
import struct
import subprocess
import tempfile
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.functions import col, expr
from pyspark.sql.functions import struct as struct_of

from bench.avro.records import FRAME, SCHEMA
from bench.kafka.jars import jars

HERE = Path(__file__).parent
WARM, RUNS, TIMES = 4, 5, 10
"""Runs before it is measured, runs that are, and how often each has all records: a job takes its time, too."""


def of_kafka_streams(values: pa.BinaryArray) -> tuple[float, float]:
    """Rows that Avro's generic reader and writer take per CPU second, one record at a time."""
    with tempfile.TemporaryDirectory() as folder:
        schema, records = Path(folder) / "schema.json", Path(folder) / "records"
        schema.write_text(json.dumps(SCHEMA))
        records.write_bytes(b"".join(struct.pack(">i", len(value)) + value for value in values.to_pylist()))
        places = str(Path(pyspark.__file__).parent / "jars" / "*")
        command = [
            "java",
            "-XX:+UseSerialGC",
            "-Xmn512m",
            "-cp",
            places,
            str(HERE / "AvroSerde.java"),
            str(schema),
            str(records),
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)  # noqa: S603 - Java
    decoded, encoded = map(float, done.stdout.split())
    return decoded, encoded


def of_spark(values: pa.BinaryArray) -> tuple[float, float]:
    """Rows that `from_avro` and `to_avro` take per CPU second of the whole JVM, without what reading the rows takes."""
    builder = SparkSession.Builder().master("local[1]").config("spark.jars", jars("spark-avro", HERE))
    spark = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "4g").getOrCreate()
    try:
        spark.sparkContext.setLogLevel("ERROR")
        framed = (
            spark.createDataFrame(pa.table({"value": values})).crossJoin(spark.range(TIMES)).select("value").cache()
        )
        count, idle = framed.count(), _seconds(framed)
        record = from_avro(expr(f"substring(value, {len(FRAME) + 1})"), json.dumps(SCHEMA))
        rows = framed.select(record.alias("r")).select("r.*")
        decoded = _seconds(rows) - idle
        # From here on these rows are not read from records again.
        rows.cache().count()
        names = [field["name"] for field in SCHEMA["fields"]]  # type: ignore[index]
        encoded = _seconds(rows.select(to_avro(struct_of(*map(col, names)), json.dumps(SCHEMA)))) - _seconds(rows)
        return count / decoded, count / encoded
    finally:
        spark.stop()


def _seconds(frame: DataFrame) -> float:
    """The JVM's CPU seconds of a job that has all rows of a frame made and thrown away, the median of some."""
    jvm = frame.sparkSession.sparkContext._jvm  # noqa: SLF001 - whose process it is
    assert jvm is not None  # noqa: S101 - the session runs
    pid = jvm.java.lang.ProcessHandle.current().pid()
    seconds = []
    for _ in range(WARM + RUNS):
        used = _cpu(pid)
        frame.write.format("noop").mode("overwrite").save()
        seconds.append(_cpu(pid) - used)
    return statistics.median(seconds[WARM:])


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
