"""Whole runs of an app whose disk may be lost, because what counts is in an object store."""

import json
import os
import queue
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from tests.engine.runs import check, feed
from tests.s3.gateway import Bucket, Gateway
from tests.waiting import patience

DEADLINE = patience(180.0)


class Driver:
    """One attempt: `with Driver(...) as driver: driver.until(...)`."""

    def __init__(self, data: Path, disk: Path, attempt: int, place: "Place") -> None:
        command = [sys.executable, "-m", "tests.s3.driver", str(data), str(disk), str(attempt)]
        self.process = subprocess.Popen(
            [*command, place.bucket.location, json.dumps(place.bucket.conf), *place.changelog],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.said: list[str] = []
        self.events: list[dict[str, Any]] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def until(self, event: str, times: int = 1) -> dict[str, Any]:
        """Wait for an event, so many times."""
        while times:
            latest = self._next()
            assert latest is not None, "".join(self.said)[-4000:]
            times -= latest["event"] == event
        return self.events[-1]

    def ended(self) -> dict[str, Any]:
        """Wait until it ends well; its last event."""
        last = self.until("RunEnded")
        assert self.process.wait(DEADLINE) == 0, "".join(self.said)[-4000:]
        return last

    def failed(self) -> str:
        """Wait until it ends otherwise; what it said."""
        while self._next() is not None:
            pass
        assert self.process.wait(DEADLINE) != 0
        return "".join(self.said)

    def killed(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(DEADLINE)

    def _next(self) -> dict[str, Any] | None:
        while (line := self._lines.get(timeout=DEADLINE)) is not None:
            self.said.append(line)
            if line.startswith('{"event"'):
                self.events.append(json.loads(line))
                return self.events[-1]
        return None

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)


class Place(NamedTuple):
    """Where a run keeps what has to last."""

    bucket: Bucket
    changelog: tuple[str, ...] = ()
    """Brokers and app, if it has a changelog."""


@pytest.fixture(params=["objects", "changelog"])
def place(gateway: Gateway, request: pytest.FixtureRequest) -> Place:
    """A bucket, and one with a changelog beside it."""
    if request.param == "objects":
        return Place(gateway.bucket())
    return Place(gateway.bucket(), (request.getfixturevalue("broker").bootstrap, f"counted-{secrets.token_hex(4)}"))


@pytest.mark.long
def test_killed_drivers_without_disks_lose_and_double_nothing(tmp_path: Path, place: Place) -> None:
    data, rows = tmp_path / "data", 5000
    feed(data, rows)
    for attempt, batches in ((1, 3), (2, 2)):
        with Driver(data, tmp_path / "disk", attempt, place) as driver:
            driver.until("Progress", batches)
            driver.killed()
        shutil.rmtree(tmp_path / "disk")
    before = place.bucket.gateway.asked(place.bucket)
    with Driver(data, tmp_path / "disk", 3, place) as driver:
        assert driver.until("Progress")["restored"], "the tasks come back from what lasts"
        batches = driver.ended()["batches"]
    check(data, rows)
    assert not list(tmp_path.rglob("delta-*")), "nothing that has to last is on a disk"
    requests = place.bucket.gateway.asked(place.bucket) - before
    if place.changelog:
        assert requests["PutObject"] < batches, "no batch waits for the bucket"
    else:
        assert_cheap(requests, batches)


def assert_cheap(requests: Counter[str], batches: int) -> None:
    """What docs/state.md says of a batch in a bucket, in an app of three tasks with Spark SQL steps; and of a start."""
    # On a slow machine a batch takes five seconds, and each is told to be done.
    most = {"ListObjectsV2": 3 * 3 + 1, "PutObject": 3 + 1 + 2, "HeadObject": 2, "DeleteObject": 2}
    # To start, each process creates its first object twice, and names of older attempts are taken.
    # With a load of 20 there was one more to put than the 18 of an idle machine.
    start = {"ListObjectsV2": 30, "PutObject": 24, "HeadObject": 40, "GetObject": 40, "DeleteObject": 12}
    for what, count in requests.items():
        assert count <= most.get(what, 0) * batches + start.get(what, 0), (requests, batches)


@pytest.mark.long
def test_a_driver_thought_dead_ends_when_it_returns(tmp_path: Path, place: Place) -> None:
    data, rows = tmp_path / "data", 5000
    feed(data, rows)
    with Driver(data, tmp_path / "old", 1, place) as old:
        old.until("Progress", 2)
        os.kill(old.process.pid, signal.SIGSTOP)
        with Driver(data, tmp_path / "new", 2, place) as new:
            new.ended()
        check(data, rows)
        feed(data, 1000, first=rows)
        os.kill(old.process.pid, signal.SIGCONT)
        # By the state of a task, or by the plan of its next batch.
        assert re.search("older attempt and must end|another attempt of this app has finished", old.failed())
    check(data, rows)
    with Driver(data, tmp_path / "newer", 3, place) as newer:
        newer.ended()
    check(data, rows + 1000)
