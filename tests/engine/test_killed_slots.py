"""Processes of slots that stay are killed at any moment, between and within their batches; the run itself goes on.

`HOLDFAST_SEED` draws other moments, `make soak` a thousand of them.
"""

import os
import random
import secrets
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

from tests.engine.runs import APP, DEADLINE, Run, check, feed
from tests.processes import parent_of
from tests.waiting import wait_until

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
KILLS = 1000 if SOAK else 12
SEED = int(os.environ.get("HOLDFAST_SEED", str(secrets.randbits(32)) if SOAK else "20261126"))
ROWS = 30
LONGEST = 0.06
"""Seconds in which a batch is over, or a stint has begun again."""


def forks(run: Run) -> list[int]:
    """What Spark's Python daemon has forked: the processes of slots, and the agent that they do without."""
    made = list[int]()
    daemons = run.children("-m holdfast_runtime.spark.worker_daemon")
    for pid in daemons:
        with suppress(OSError):
            made += [pid] if parent_of(pid) in daemons else []
    return made


def test_slots_killed_at_any_moment_lose_and_double_nothing(tmp_path: Path) -> None:
    draw, app, data = random.Random(SEED), tmp_path / "app.yaml", tmp_path / "data"  # noqa: S311
    app.write_text(APP)
    feed(data, ROWS)
    fed, killed = ROWS, set[int]()
    with Run(app, data, "--master", "local[2]") as run:
        run.until("progress")
        while len(killed) < KILLS:
            feed(data, ROWS, fed)
            fed += ROWS
            threading.Event().wait(draw.random() * LONGEST)
            wait_until(lambda: len(forks(run)) > 0, DEADLINE, "processes of slots")
            victim = draw.choice(forks(run))
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                killed.add(victim)
            # One batch is not killed twice: that ends a run, as Spark gives up then.
            moment = time.time()
            feed(data, ROWS, fed)
            fed += ROWS
            while (event := run.until("progress"))["at"] / 1000 - event["seconds"] < moment:
                pass
        run.process.send_signal(signal.SIGTERM)
        run.ended()
    with Run(app, data, "--master", "local[2]", "--until-idle") as run:
        run.ended()
    print(f"seed {SEED}: {len(killed)} kills")  # noqa: T201 - shown when it fails
    check(data, fed)
