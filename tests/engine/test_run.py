"""Whole runs, in Spark and without: whatever dies, and whenever, each row counts once and in its order."""

import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.engine.runs import APP, SQL_APP, Run, check, feed, unfinished
from tests.processes import die

ROWS = 4_800
"""More than a run reads before it is ended."""


@pytest.fixture(params=[APP, SQL_APP], ids=["python", "sql"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "app.yaml"
    path.write_text(request.param)
    return path


@pytest.mark.long
def test_whatever_ends_a_run_each_row_counts_once(app: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    endings = {
        Run.killed: (),
        worker_killed: ("--master", "local[2]"),
        jvm_killed: ("--master", "local[2]"),
        executor_killed: ("--master", "local-cluster[2,1,1024]"),
        drained: (),
    }
    for attempt, (ending, options) in enumerate(endings.items()):
        feed(data, ROWS, attempt * ROWS)
        with Run(app, data, *options) as run:
            run.until("progress", 2)
            ending(run)
        assert run.events[0]["attempt"] == attempt + 1
    assert not unfinished(data)
    with Run(app, data, "--until-idle") as run:
        assert run.ended()["ending"] == "idle"
    check(data, len(endings) * ROWS)


def worker_killed(run: Run) -> None:
    for worker in run.children("worker_daemon"):
        # Those that the daemon has forked may have gone with it.
        with suppress(ProcessLookupError):
            die(worker)
    assert run.until("failed")["message"]
    assert run.exit_code() == 3


def jvm_killed(run: Run) -> None:
    (jvm,) = run.children("org.apache.spark.deploy.SparkSubmit")
    die(jvm)
    failed = run.until("failed")
    assert failed["error"] == "SparkDiedError"
    assert "ended by signal 9" in failed["message"]
    assert run.exit_code() != 0


def drained(run: Run) -> None:
    run.process.send_signal(signal.SIGTERM)
    assert run.ended()["ending"] == "drained"


def executor_killed(run: Run) -> None:
    """The run itself goes on."""
    die(run.children("CoarseGrainedExecutorBackend")[0])
    run.until("progress", 2)
    drained(run)


def test_a_second_run_on_the_same_data_is_refused(app: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    feed(data, 10)
    with Run(app, data) as run:
        run.until("started")
        with Run(app, data) as second:
            message = second.until("failed")["message"]
        assert f"process {run.process.pid}" in message
        assert "holdfast" in message


def test_a_run_goes_on_when_spark_sql_comes_and_goes(tmp_path: Path) -> None:
    data, path = tmp_path / "data", tmp_path / "app.yaml"
    for attempt, text in enumerate((APP, SQL_APP, APP)):
        path.write_text(text)
        feed(data, ROWS, attempt * ROWS)
        with Run(path, data) as run:
            run.until("progress", 2)
            Run.killed(run)
    path.write_text(SQL_APP)
    with Run(path, data, "--until-idle") as run:
        assert run.ended()["ending"] == "idle"
    check(data, 3 * ROWS)
