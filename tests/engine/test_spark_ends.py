"""Spark itself ends under a run: what is said is what happened, and the next run loses and doubles nothing."""

from pathlib import Path

import pytest

from holdfast_runtime.data_dir import DataDir
from tests.engine.runs import APP, Run, check, die, feed

ROWS = 4000
OVERTAKEN = """
        import pathlib

        def overtaken(batch):
            commits = pathlib.Path("%s")
            if commits.exists() and (commits / "1").exists():
                (commits / "2").write_text("v1\\n{}")
            return batch
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app.yaml"
    path.write_text(APP)
    return path


def test_a_killed_jvm_is_said_with_its_signal_and_the_next_run_goes_on(app: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    feed(data, ROWS)
    with Run(app, data, "--master", "local[2]") as run:
        run.until("progress", 2)
        (jvm,) = run.children("org.apache.spark.deploy.SparkSubmit")
        die(jvm)
        failed = run.until("failed")
        assert failed["error"] == "SparkDiedError"
        assert "ended by signal 9" in failed["message"]
        assert run.process.wait(60) != 0
    with Run(app, data, "--master", "local[2]", "--until-idle") as run:
        run.ended()
    check(data, ROWS)


def test_a_batch_that_another_attempt_ended_first_is_done_once_and_said_so(app: Path, tmp_path: Path) -> None:
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
        assert run.process.wait(60) != 0
    app.write_text(plain)
    with Run(app, data, "--master", "local[2]", "--until-idle") as run:
        run.ended()
    check(data, ROWS)
