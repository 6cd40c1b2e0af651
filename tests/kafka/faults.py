"""Faults of the processes of a run, each at a random moment of its work.

    driver, executor        SIGKILL; a driver is started again
    worker, daemon, writer  SIGKILL to a Python worker, to the process that forks them, to the one that writes for them
    broker                  SIGKILL, and it comes back at once
    zombie                  a driver and all that is below it stands still while its successor works, then goes on
    absence                 the broker is away for longer than a minute

Must not know what the app writes.
"""

import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.engine.runs import Run
from tests.kafka.broker import Broker
from tests.processes import die, processes_below, stopped
from tests.waiting import patience, wait_until

KILLS = ("driver", "executor", "worker", "daemon", "writer", "broker")
DECK = (*KILLS, "executor")
"""What one deck of faults holds, besides a zombie in some."""
_MASTER = "local-cluster[2,1,1024]"
_TWO_IN_A_BATCH = "SlotDiedError"
"""A batch that loses slots twice ends the attempt: as it should, and the next one goes on."""
_BOTH_ENDED_IT = "AttemptOvertakenError"
"""A zombie that was just ending a batch did so before its successor, which had done it again, could."""
_DEADLINE = patience(300.0)
"""A run that comes up while all processors are at work with others has needed more than two minutes."""
_A_MINUTE = 65.0
_COMES_UP_WITHIN = 20
"""Batches, for whoever is to be killed."""
_AT_ONCE = 0.2
"""How often a fault waits for nothing."""
_LONGEST = 3.0


class Disturbed:
    """An app that runs, from attempt to attempt, while faults come over it."""

    def __init__(self, app: Path, folder: Path, broker: Broker, chance: random.Random) -> None:
        self.done: list[str] = []
        """What happened, in order."""
        self.story: list[str] = []
        """The same with the second at which it was over."""
        self._app, self._folder, self._node, self._chance = app, folder, broker, chance
        self._data = folder / "data"
        self._began = time.monotonic()
        self._zombies = 0
        self._batch = 1.0
        """Seconds."""
        self._lag = 1
        self.run = self._started()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.run.__exit__(kind, error, at)

    @property
    def counts(self) -> Counter[str]:
        """How often what happened."""
        return Counter(self.done)

    @property
    def kills(self) -> int:
        """How many processes were killed."""
        return sum(self.counts[kind] for kind in KILLS)

    def works(self, batches: int) -> None:
        """Wait for so many batches more, which a next attempt does where this one has ended of its faults."""
        for event in self.run.arrived():
            self._hear(event)
        deadline = time.monotonic() + _DEADLINE
        while batches:
            event = self.run.next(deadline, "progress")
            batches -= event["event"] == "progress"
            if self._hear(event):
                deadline = time.monotonic() + _DEADLINE

    def befall(self, kind: str) -> None:
        """This one, some batches from now; now and then at once, while what the last one did is being mended."""
        if kind == "zombie" or self._chance.random() > _AT_ONCE:
            self.works(self._chance.randint(1, 3))
        act = getattr(self, f"_{kind}")
        for tries in count(1):
            # Somewhere within a batch.
            self.run.process.ended(self._chance.uniform(0, min(1.2 * self._batch, _LONGEST)))
            if act():
                break
            self.works(1)
            if tries % _COMES_UP_WITHIN == 0:
                # None is left: workers go on without their daemon and without who writes for them.
                self.befall("executor")
        self._note(kind)

    def caught_up(self) -> None:
        """Wait until nothing is left to read, once nothing more is fed."""
        self.works(0)
        while self._lag:
            self.works(1)

    def drained(self) -> None:
        """End it well."""
        self.run.process.send_signal(signal.SIGTERM)
        assert self.run.ended()["ending"] == "drained"

    def _hear(self, event: dict[str, Any]) -> bool:
        """Whether it was the end of an attempt; then there is a next one."""
        self._batch, self._lag = event.get("seconds", self._batch), event.get("lag", self._lag)
        if event["event"] != "failed":
            return False
        both_ended = event["error"] == _BOTH_ENDED_IT and "zombie" in self.done[-2:]
        assert event["error"] == _TWO_IN_A_BATCH or both_ended, event
        assert self.run.exit_code() != 0
        self._note("attempt ended")
        self._start_again()
        return True

    def _note(self, what: str) -> None:
        self.done.append(what)
        self.story.append(f"{what} {time.monotonic() - self._began:.0f}")

    def _started(self) -> Run:
        return Run(self._app, self._data, "--master", _MASTER)

    def _start_again(self) -> None:
        self.run.__exit__(None, None, None)
        self.run = self._started()

    def _driver(self) -> bool:
        self.run.killed()
        self._start_again()
        return True

    def _executor(self) -> bool:
        return self._one_dies(self.run.children("CoarseGrainedExecutorBackend"))

    def _worker(self) -> bool:
        return self._one_dies([pid for daemon in self._daemons() for pid in _below(daemon, in_its_group=True)])

    def _daemon(self) -> bool:
        return self._one_dies(self._daemons())

    def _writer(self) -> bool:
        return self._one_dies([pid for daemon in self._daemons() for pid in _below(daemon, in_its_group=False)])

    def _broker(self) -> bool:
        self._node.kill()
        self._node.restart()
        return True

    def _absence(self) -> bool:
        self._node.kill()
        absent_since = time.monotonic()
        try:
            assert "Kafka system here" in self.run.until("waiting")["why"]
            wait_until(lambda: time.monotonic() - absent_since > _A_MINUTE, 2 * _A_MINUTE, "a minute is over")
            assert self.run.process.poll() is None, "the app waits for the broker"
        finally:
            self._node.restart()
        return True

    def _zombie(self) -> bool:
        zombie = self.run
        with stopped(zombie.process.pid):
            self._on_another_host()
            self.run = self._started()
            self.works(self._chance.randint(1, 3))
        with zombie:
            assert zombie.exit_code() != 0, "a driver whose successor works goes on"
        return True

    def _on_another_host(self) -> None:
        """Locks and local state are matters of one host: on another, the successor has only what is shared."""
        self._zombies += 1
        for state in self._data.glob("apps/*/runs/*/state"):
            state.rename(self._folder / f"state-of-zombie-{self._zombies}")
        for lock in self._data.rglob("*.lock"):
            lock.unlink()

    def _daemons(self) -> list[int]:
        """Those that fork Python workers, each the first of its group; Spark's driver has one as well, for planning."""
        executors = self.run.children("CoarseGrainedExecutorBackend")
        daemons = {
            pid
            for executor in executors
            for pid in processes_below(executor, "-m holdfast_runtime.spark.worker_daemon")
        }
        return sorted(pid for pid in daemons if _group(pid) == pid)

    def _one_dies(self, daemons: list[int]) -> bool:
        """One of them; none is there while an executor comes up."""
        with suppress(ProcessLookupError):
            if daemons:
                die(self._chance.choice(daemons))
                return True
        return False


def _below(daemon: int, *, in_its_group: bool) -> list[int]:
    """Workers are in the group of their daemon; the process that writes was forked before it had one."""
    processes = [pid for pid in processes_below(daemon, "") if pid != daemon]
    return [pid for pid in processes if (group := _group(pid)) is not None and (group == daemon) == in_its_group]


def _group(pid: int) -> int | None:
    """None: it has ended."""
    with suppress(ProcessLookupError):
        return os.getpgid(pid)
    return None
