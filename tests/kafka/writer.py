"""A process that writes batches in transactions until it is killed, and goes on where it was.

python -m tests.kafka.writer BOOTSTRAP APP ATTEMPT FOLDER BATCHES DIE: `DIE` is a step's name and how often it is passed
before it kills, e.g. `transaction filled:3`, or seconds until a blow from outside, or nothing.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from tests.kafka.sent import Attempt

TASKS = ("ab", "cd")


def main() -> None:
    bootstrap, app, number, folder, batches, die = sys.argv[1:]
    done = Path(folder) / "done"
    at = _killer(die)
    attempt = Attempt(bootstrap, app, int(number)).begin()
    with attempt.worker() as worker:
        for batch in range(int(done.read_text()) + 1 if done.exists() else 1, int(batches) + 1):
            # Slots carry other tasks in each attempt, as after an assignment.
            for slot in (0, 1):
                worker.send(batch, TASKS[(slot + int(number)) % 2], slot, rows=20, at=at)
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


if __name__ == "__main__":
    main()
