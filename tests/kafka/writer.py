"""A process that writes batches in transactions until it is killed, and goes on where it was.

`die` is a step's name and how often it is passed before it kills, e.g. `transaction filled:3`, or seconds until a blow
from outside, or nothing.
"""

import os
import signal
import threading
from pathlib import Path

from tests.kafka.sent import Attempt

TASKS = ("ab", "cd")


def run(bootstrap: str, app: str, number: int, folder: Path, batches: int, die: str) -> None:
    """Write all batches that are not done."""
    done = folder / "done"
    at = _killer(die)
    attempt = Attempt(bootstrap, app, number).begin()
    with attempt.worker() as worker:
        for batch in range(int(done.read_text()) + 1 if done.exists() else 1, batches + 1):
            # Slots carry other tasks in each attempt, as after an assignment.
            for slot in (0, 1):
                worker.send(batch, TASKS[(slot + number) % 2], slot, rows=20, at=at)
            fresh = done.with_suffix(".new")
            fresh.write_text(str(batch))
            fresh.replace(done)
            at("batch done")


def _killer(die: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
    step, _, times = die.partition(":")
    left = [int(times or 0)]
    if die and not times:
        threading.Timer(float(die), lambda: os.kill(os.getpid(), signal.SIGKILL)).start()

    def at(passed: str) -> None:
        if passed == step and times:
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return at
