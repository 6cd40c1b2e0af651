"""A run of Spark that fills Java's archive of classes: `warm_up.py MASTER` does with Spark what drivers do.

A query whose source is Python, batches handed to Python, rows through Arrow and Spark SQL. Must not need Holdfast:
the archive would be made anew with every change of it.
"""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

_BATCHES = 3
_PATIENCE = 120.0


class Ranges(DataSource):
    """One more at each question."""

    @classmethod
    def name(cls) -> str:
        """As `format` has it."""
        return "ranges"

    def schema(self) -> str:
        """Of its rows."""
        return "at BIGINT"

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802, ARG002 - PySpark's
        """Who plans."""
        return Reader()


class Reader(DataSourceStreamReader):
    """Its offsets."""

    _at = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - PySpark's
        """Nothing."""
        return {"at": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802 - PySpark's
        """One more."""
        self._at += 1
        return {"at": self._at}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """One for each."""
        return [InputPartition(at) for at in range(start["at"], end["at"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        """Its number."""
        yield (partition.value,)


def changed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """As they were."""
    yield from batches


def look(frame: DataFrame) -> None:
    """Rows through Python, Spark SQL and Python again."""
    rows = frame.sparkSession.range(1000, numPartitions=2)
    converted = rows.mapInArrow(changed, "id BIGINT").selectExpr(
        "named_struct('id', id, 'text', concat('a', CAST(id AS STRING))) AS one",
        "timestamp_millis(id) AS ts",
        "CAST(id AS DECIMAL(10, 2)) / 3 AS part",
    )
    filtered = converted.filter("upper(one.text) LIKE 'A%' AND one.id >= 0").selectExpr(
        "one.id", "one.text", "date_trunc('MINUTE', ts) AS minute", "CASE WHEN part > 1 THEN 1 ELSE 0 END AS much"
    )
    schema = "id BIGINT, text STRING, minute TIMESTAMP, much INT"
    filtered.mapInArrow(changed, schema).collect()
    filtered.mapInArrow(changed, schema).count()


def main(master: str) -> None:
    """Some batches."""
    builder = SparkSession.builder.master(master)
    spark = builder.config("spark.sql.adaptive.enabled", "false").config("spark.ui.enabled", "false").getOrCreate()
    spark.dataSource.register(Ranges)
    done = threading.Event()

    def batch(frame: DataFrame, number: int) -> None:
        look(frame)
        if number >= _BATCHES:
            done.set()

    writer = spark.readStream.format("ranges").load().writeStream.foreachBatch(batch)
    query = writer.option("checkpointLocation", str(Path(mkdtemp()) / "query")).start()
    if not done.wait(_PATIENCE):
        message = f"no {_BATCHES} batches within {_PATIENCE:g} s: {query.exception()}"
        raise TimeoutError(message)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
