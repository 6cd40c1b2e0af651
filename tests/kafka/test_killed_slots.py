"""Slots whose transactions decide their batches are killed at any moment, and their driver with them now and then."""

import os
import random
import secrets
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.engine.runs import DEADLINE, Run
from tests.engine.test_killed_slots import HERE, forks
from tests.kafka.broker import Broker
from tests.kafka.counted import Counted
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
KILLS = 300 if SOAK else 6
SEED = int(os.environ.get("HOLDFAST_SEED", str(secrets.randbits(32)) if SOAK else "3"))
ROWS = 200
LONGEST = 0.06
"""Seconds in which a batch is over, or a stint has begun again."""
LIVES = 3
"""Kills of slots in the life of a driver."""


def test_killed_slots_write_what_their_state_says(broker: Broker, tmp_path: Path) -> None:
    draw, counted = random.Random(SEED), Counted.new(broker)  # noqa: S311 - to see the same again
    app, data, fed = counted.file(tmp_path), tmp_path / "data", 0
    for _ in range(KILLS // LIVES):
        with Run(app, data, *HERE) as run:
            for _ in range(LIVES):
                counted.feed(ROWS, fed)
                threading.Event().wait(draw.random() * LONGEST)
                wait_until(lambda: len(forks(run, HERE)) > 0, DEADLINE, "processes of slots")
                with suppress(ProcessLookupError):
                    os.kill(draw.choice(forks(run, HERE)), signal.SIGKILL)
                # One batch is not killed twice: that ends a run.
                moment = time.time()
                counted.feed(ROWS, fed + ROWS)
                fed += 2 * ROWS
                run.until_begun_after(moment)
            counted.feed(ROWS, fed)
            fed += ROWS
            threading.Event().wait(draw.random() * LONGEST)
            run.killed()
    with Run(app, data, *HERE, "--until-idle") as run:
        run.ended()
    print(f"seed {SEED}")  # noqa: T201 - shown when it fails
    counted.check(fed)
