"""The slots of a stint as processes of this host, without Spark: one process imports what all need, and forks them.

    here:             start a process ->             order ->                    (batch -> answer) ...
    there, __main__:  import what slots need meanwhile;  fork the slots, wait for their end

The first process is started before anybody knows what its slots will do, as imports take a second. It has a session of
its own, so that Ctrl-C on a terminal reaches only the driver. Must not know what slots do.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast_runtime.job import BatchTexts, JobFailedError
from holdfast_runtime.stints.slot_connections import DriverAddress
from holdfast_runtime.stints.stints import Begin, StartedSlots, StartSlots, Stints

ENDS_WITHIN = 5.0
"""Seconds that slots have once their driver has left."""
_PACKAGE = "holdfast_runtime.stints"


@dataclass(frozen=True, slots=True)
class SlotsOrder:
    """The slots of a stint, to be forked."""

    driver: DriverAddress
    stint: int
    count: int
    begin: Begin


@dataclass(frozen=True, slots=True)
class HostOrder:
    """What a process is to do."""

    path: list[str]
    """Where the driver finds its modules."""
    prints: Path
    """The file for what slots print."""
    slots: bytes
    """A `SlotsOrder`, pickled: reading it may take that path."""


class SlotProcesses:
    """Starts processes for slots. A context manager: the one that waits for an order does not outlive it."""

    def __init__(self) -> None:
        self._waiting: _SlotHost | None = _SlotHost()
        self._prints = Path(os.devnull)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._waiting is not None:
            self._waiting.discard()

    def print_into(self, file: Path) -> None:
        """Let what functions print go into this file, begun anew; the one before is kept beside it."""
        if file.exists():
            file.replace(file.with_suffix(".log.1"))
        self._prints = file

    def job(self, slots: Sequence[Sequence[str]], begin: Begin) -> "ProcessJob":
        """Return the job of an attempt; `slots`: the tasks of each slot."""
        return ProcessJob(Stints(len(slots), self.starting(len(slots), begin)), slots)

    def starting(self, count: int, begin: Begin) -> Callable[[DriverAddress], StartSlots]:
        """Return how so many slots of a driver are started here."""
        return lambda driver: lambda stint: self._started(SlotsOrder(driver, stint, count, begin))

    def _started(self, order: SlotsOrder) -> StartedSlots:
        host, self._waiting = self._waiting or _SlotHost(), None
        host.fork(order, self._prints)
        return host


class ProcessJob:
    """The job of an attempt whose slots are processes of this host."""

    def __init__(self, stints: Stints, slots: Sequence[Sequence[str]]) -> None:
        self._stints, self._slots = stints, slots

    def run(self, batch: BatchTexts) -> list[str]:
        """Run all slots, each with its part of this plan, and return their answers."""
        answers = self._stints.ask(batch.texts(self._slots))
        if answers is None:
            message = "its process did not start in time"
            raise JobFailedError(message)
        return answers

    def end(self) -> None:
        """End the slots, also such as are at work."""
        self._stints.end()


class _SlotHost:
    """The process from which the slots of a stint are forked."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-P", "-u", "-m", _PACKAGE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            # As many threads for each slot as Spark gives its workers.
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        self._prints = Path(os.devnull)

    def fork(self, slots: SlotsOrder, prints: Path) -> None:
        """Let it fork these slots; if it has died, nobody connects."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        self._prints = prints
        with suppress(BrokenPipeError):
            pickle.dump(HostOrder(sys.path, prints, pickle.dumps(slots)), self._process.stdin)
            self._process.stdin.flush()

    @property
    def over(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    @property
    def failure(self) -> Exception | None:
        """Why it has ended, unless because its slots did."""
        code = self._process.poll()
        return JobFailedError(f"its process ended with exit code {code}; see {self._prints}") if code else None

    def discard(self) -> None:
        """End it at once: it has forked no slots."""
        self._process.kill()
        self._process.communicate()

    def end(self) -> None:
        """Wait for its end and that of its slots; end those that take too long."""
        try:
            self._process.communicate(timeout=ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
