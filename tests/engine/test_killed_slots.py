"""Processes of slots that stay are killed at any moment, between and within their batches; the run itself goes on.

Snapshots are often due, and threads write them meanwhile; at the end, the state is what they and the deltas give back.
`HOLDFAST_SEED` draws other moments, `make soak` a thousand of them.
"""

import os
import random
import secrets
import shutil
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.state.durable.copy import SnapshotPolicy
from tests.engine.runs import APP, DEADLINE, Run, check, feed
from tests.processes import parent_of
from tests.waiting import wait_until

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
KILLS = 1000 if SOAK else 8
SEED = int(os.environ.get("HOLDFAST_SEED", str(secrets.randbits(32)) if SOAK else "20261126"))
ROWS = 30
LONGEST = 0.06
"""Seconds in which a batch is over, or a stint has begun again."""


SPARK, HERE = ("--master", "local[2]"), ("--slots", "2")
DAEMONS = {SPARK: "-m holdfast_runtime.spark.worker_daemon", HERE: "-m holdfast_runtime.stints"}
"""Options of a run -> the command line of the process from which its slots are forked."""


def forks(run: Run, options: tuple[str, str]) -> list[int]:
    """The processes of slots; in Spark also the agent that they do without."""
    made = list[int]()
    daemons = run.children(DAEMONS[options])
    for pid in daemons:
        with suppress(OSError):
            made += [pid] if parent_of(pid) in daemons else []
    return made


def snapshots_by_threads() -> None:
    """One or a bundle is due every few batches, and each is written by a thread."""
    SnapshotPolicy.__init__.__defaults__ = (4, 2, 1000, 0, 1 << 30, 0, 2, 1 << 24)


@pytest.mark.parametrize(("options", "then"), [(SPARK, HERE), (HERE, SPARK)], ids=["in Spark", "here"])
def test_slots_killed_at_any_moment_lose_and_double_nothing(
    options: tuple[str, str], then: tuple[str, str], tmp_path: Path
) -> None:
    draw, app, data = random.Random(SEED), tmp_path / "app.yaml", tmp_path / "data"  # noqa: S311
    app.write_text(APP)
    feed(data, ROWS)
    fed, killed = ROWS, set[int]()
    with Run(app, data, *options, prepare=snapshots_by_threads) as run:
        run.until("progress")
        while len(killed) < KILLS / 2:
            feed(data, ROWS, fed)
            fed += ROWS
            threading.Event().wait(draw.random() * LONGEST)
            wait_until(lambda: len(forks(run, options)) > 0, DEADLINE, "processes of slots")
            victim = draw.choice(forks(run, options))
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                killed.add(victim)
            # One batch is not killed twice: that ends a run, as Spark gives up then.
            moment = time.time()
            feed(data, ROWS, fed)
            fed += ROWS
            run.until_begun_after(moment)
        run.process.send_signal(signal.SIGTERM)
        run.ended()
    assert list(DataDir(data).app("counted").run("1").durable.rglob("snapshot-*"))
    shutil.rmtree(DataDir(data).paths("counted", "1").state)
    with Run(app, data, *then, "--until-idle") as run:
        run.ended()
    print(f"seed {SEED}: {len(killed)} kills")  # noqa: T201 - shown when it fails
    check(data, fed)


def test_slots_end_with_a_driver_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")  # which it does without
    app, data = tmp_path / "app.yaml", tmp_path / "data"
    app.write_text(APP)
    feed(data, ROWS)
    with Run(app, data, *HERE) as run:
        run.until("progress")
        daemons = run.children(DAEMONS[HERE])
        assert len(daemons) == 3
        run.killed()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in daemons), DEADLINE, "the end of all slots")
    with Run(app, data, *HERE, "--until-idle") as run:
        run.ended()
    check(data, ROWS)
