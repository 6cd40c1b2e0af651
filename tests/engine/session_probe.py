"""A program that opens a session, asks it what it is like, and says so as JSON; see test_session.py."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from holdfast_runtime.spark.session import open_session
from holdfast_runtime.spark.settings import SessionRequest


def workers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a Python worker is; and it prints."""
    print("a step says hello")  # noqa: T201 - that is what is asked
    for _ in batches:
        facts = [sys.executable, pyspark.__file__, os.environ["PYTHONPATH"], str(os.getpgid(0))]
        yield pa.RecordBatch.from_pydict({"said": facts})


def said_by_worker(spark: SparkSession) -> list[str]:
    return [row.said for row in spark.range(1, numPartitions=1).mapInArrow(workers, "said STRING").collect()]


def main(data: Path, code: Path) -> None:
    """Two sessions, one after the other, in one JVM."""
    answer_ours = signal.getsignal(signal.SIGINT)
    conf = {"spark.ui.port": "0", "spark.executorEnv.PYTHONPATH": str(code)}
    spark = open_session(SessionRequest("first", "local[1]", ui=True, conf=conf), data)
    python, module, path, group = said_by_worker(spark)
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # noqa: SLF001 - the process itself
    report: dict[str, object] = {
        "time_zone": spark.conf.get("spark.sql.session.timeZone"),
        "adaptive": spark.conf.get("spark.sql.adaptive.enabled"),
        "ui": spark.sparkContext.uiWebUrl,
        "python": python,
        "compiled_modules": module == pyspark.__file__,
        "code_on_path": str(code) in path.split(":"),
        "worker_in_our_group": int(group) == os.getpgid(0),
        "jvm_in_our_session": os.getsid(jvm) == os.getsid(0),
        "interrupts_are_ours": signal.getsignal(signal.SIGINT) is answer_ours,
        "environment_is_as_before": "PYSPARK_PYTHON" not in os.environ and "SPARK_LOCAL_IP" not in os.environ,
    }
    spark.stop()
    again = open_session(SessionRequest("second", "local[1]", ui=False, conf={}), data)
    report["second"] = [again.sparkContext.appName, again.sparkContext.uiWebUrl, said_by_worker(again)[0]]
    again.stop()
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
