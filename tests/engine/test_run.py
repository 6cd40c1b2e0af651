"""Whole runs on real Spark: whatever dies, and whenever, each row counts once and in its order."""

import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.engine.runs import APP, Run, check, die, feed, unfinished
from tests.waiting import patience

ROWS = 12_000


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app.yaml"
    path.write_text(APP)
    return path


def test_a_driver_killed_again_and_again_loses_and_doubles_nothing(app: Path, tmp_path: Path) -> None:
    data, chance = tmp_path / "data", random.Random(5)  # noqa: S311 - a seed, to see the same again
    feed(data, ROWS)
    for _ in range(3):
        with Run(app, data) as run:
            run.until("progress", chance.randint(2, 5))
            run.killed()
    with Run(app, data, "--until-idle") as run:
        last = run.ended()
    assert (last["ending"], run.events[0]["attempt"]) == ("idle", 4)
    assert not unfinished(data)
    check(data, ROWS)


def test_an_executor_that_dies_takes_nothing_with_it(app: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    feed(data, ROWS)
    with Run(app, data, "--master", "local-cluster[2,1,1024]", "--until-idle") as run:
        run.until("progress", 3)
        die(run.children("CoarseGrainedExecutorBackend")[0])
        run.ended()
    check(data, ROWS)


def test_sigterm_finishes_the_batch_at_hand_and_the_next_run_goes_on(app: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    feed(data, ROWS)
    with Run(app, data) as run:
        run.until("progress", 2)
        run.process.send_signal(signal.SIGTERM)
        assert run.ended()["ending"] == "drained"
    assert not unfinished(data)
    feed(data, 100, ROWS)
    with Run(app, data, "--until-idle") as run:
        run.ended()
    check(data, ROWS + 100)


def test_a_worker_that_dies_ends_the_run_and_the_next_one_repeats_the_batch(app: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    feed(data, ROWS)
    with Run(app, data) as run:
        run.until("progress", 2)
        for worker in run.children("worker_daemon"):
            # Those that the daemon has forked may have gone with it.
            with suppress(ProcessLookupError):
                die(worker)
        assert run.until("failed")["message"]
        assert run.process.wait(patience(60)) == 3
    with Run(app, data, "--until-idle") as run:
        run.ended()
    check(data, ROWS)


def test_a_second_run_on_the_same_data_is_refused_by_name(app: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    feed(data, 10)
    with Run(app, data) as run:
        run.until("started")
        with Run(app, data) as second:
            message = second.until("failed")["message"]
        assert f"process {run.process.pid}" in message
        assert "holdfast" in message
