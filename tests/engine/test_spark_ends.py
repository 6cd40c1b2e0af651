"""Spark itself ends under a run: what is said is what happened, and the next run loses and doubles nothing."""

import signal
from pathlib import Path

import pytest

from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity
from holdfast_runtime.state.store.environment import claim
from tests.engine.runs import APP, DEADLINE, SQL_APP, Run, check, feed, unfinished
from tests.waiting import wait_until

ROWS = 4000
OVERTAKEN = """
        import pathlib

        def overtaken(batch):
            commits = pathlib.Path("%s")
            if commits.exists() and (commits / "1").exists():
                (commits / "2").write_text('v1\\n{"nextBatchWatermarkMs":0}')
            return batch
"""
SLOW = """
import os, pathlib, sys, time

begun = pathlib.Path(__file__).with_name("begun")
if "pyspark.sql.streaming.python_streaming_source_runner" in sys.orig_argv and not begun.exists():
    begun.touch()
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.1)
"""
"""Run by each Python at its start: the first process by which Spark asks what to read does not get to it."""


@pytest.fixture(params=[APP, SQL_APP], ids=["python", "sql"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "app.yaml"
    path.write_text(request.param)
    return path


def test_a_run_that_ends_while_its_batch_waits_leaves_it(app: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    paths = DataDir(data).paths("counted", "1")
    feed(data, ROWS)
    # As if another process had it open.
    held = claim(StoreDirectory(paths.state / "partition-1", TaskIdentity("counted", "1", "partition-1")))
    with Run(app, data, "--master", "local[2]") as run:
        run.until("started")
        wait_until((paths.query / "offsets" / "0").exists, DEADLINE, "a batch is planned")
        run.process.send_signal(signal.SIGTERM)
        assert "The run ends here, and the next one repeats the batch" in run.until("waiting")["why"]
        assert run.ended()["ending"] == "drained"
    held.release()
    assert unfinished(data)


@pytest.mark.long
def test_a_batch_that_another_attempt_ended_is_done_once(app: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    commits = DataDir(data).app("counted").run("1").query / "commits"
    plain = app.read_text()
    overtaken = plain.replace("        import uuid\n", OVERTAKEN % commits + "        import uuid\n").replace(
        "            return batch.select", "            batch = overtaken(batch)\n            return batch.select"
    )
    app.write_text(overtaken)
    feed(data, ROWS)
    with Run(app, data, "--master", "local[2]") as run:
        failed = run.until("failed")
        assert failed["error"] == "AttemptOvertakenError", failed
        assert run.exit_code() != 0
    app.write_text(plain)
    with Run(app, data, "--master", "local[2]", "--until-idle") as run:
        run.ended()
    check(data, ROWS)


@pytest.mark.parametrize("app", [SQL_APP], indirect=True)
def test_a_run_whose_process_starts_too_late_starts_again(
    app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    feed(data, ROWS)
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Run(app, data, "--master", "local[2]", "--until-idle") as run:
        assert "It starts again by itself in 1 s (1 of 6)" in run.until("waiting")["why"]
        run.ended()
    check(data, ROWS)
