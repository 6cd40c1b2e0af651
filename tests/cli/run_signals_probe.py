"""A program that runs batches of real Spark with a busy Python worker, watched as `holdfast run` is.

Its engine waits in each batch for a file named `go`, if it is told to, so that a test decides when a batch ends.
"""

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from holdfast_cli.local.local_app import RunFiles
from holdfast_cli.run.watcher import RunDisplay, run_watched
from holdfast_runtime.progress import EndCause, Listener, RunEnded
from holdfast_runtime.spark.session import open_session
from holdfast_runtime.spark.settings import SessionRequest
from tests.cli.run_events import FIRST, STARTED

ROWS = 20


def slow(directory: str, batch: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Busy until it may go on."""
    (Path(directory) / f"batch-{batch}").touch()
    while not (Path(directory) / "go").exists():
        time.sleep(0.01)
    yield from batches


def engine(directory: Path, listen: Listener, drain: threading.Event) -> RunEnded:
    """Batches until it is drained; each must be whole."""
    spark = open_session(SessionRequest("probe", "local[1]", ui=False, conf={}), directory)
    (directory / "jvm").write_text(str(spark.sparkContext._gateway.proc.pid), encoding="utf-8")  # type: ignore[union-attr]  # noqa: SLF001
    listen(STARTED)
    done = 0
    while done == 0 or not drain.is_set():

        def work(batches: Iterator[pa.RecordBatch], batch: int = done) -> Iterator[pa.RecordBatch]:
            return slow(str(directory), batch, batches)

        rows = len(spark.range(ROWS).mapInArrow(work, "id BIGINT").collect())
        assert rows == ROWS
        listen(replace(FIRST, batch=done, rows_in=rows))
        done += 1
    spark.stop()
    return RunEnded(EndCause.DRAINED, done, done * ROWS, 0, 1.0)


def main(directory: Path) -> int:
    """Run until it is stopped."""
    files = RunFiles("app.yaml", str(directory), data_given=True, prints=str(directory / "spark.log"), logs=frozenset())
    show = RunDisplay(as_json=False, color="auto", metrics=None, files=files)
    return run_watched(lambda listen, drain: engine(directory, listen, drain), show)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
