"""Processes that tests kill, forked from one that has imported everything: a start takes milliseconds.

They are real processes in all that a kill is about: memory, files, locks and children of their own. Must not be used
where the start itself is tested.
"""

import fcntl
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.waiting import patience

FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "holdfast_cli.run.watcher",
        "holdfast_runtime.driver.app",
        "tests.api.child",
        "tests.engine.child",
        "tests.engine.runs",
        "tests.kafka.writer",
        "tests.placement.store_writer",
        "tests.state.test_leftovers",
        "tests.state.test_shared_table",
        "tests.state.worker",
        "tests.streams.test_log_processes",
    ]
)
_PIPE = 4096
"""A small pipe: who is not listened to stops after some lines."""


class ForkedProcess:
    """Runs a function to its end; what it writes to its standard output is read here."""

    def __init__(self, run: Callable[..., None], *arguments: Any, environment: Mapping[str, str] | None = None) -> None:
        reader, writer = FORKS.Pipe(duplex=False)
        fcntl.fcntl(writer.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
        self._process = FORKS.Process(
            target=_speaking, args=(writer, {**os.environ, **(environment or {})}, run, *arguments)
        )
        self._process.start()
        writer.close()  # only the process can write, so its end is the end of what can be read
        self.stdout = io.TextIOWrapper(os.fdopen(os.dup(reader.fileno()), "rb"))
        reader.close()

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """How it has ended; None: it has not."""
        return self._process.exitcode

    def kill(self) -> None:
        """Give it no chance to tidy up."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it has not ended by itself."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def ended(self, seconds: float) -> int | None:
        """How it has ended after at most so many seconds; None: it has not. Nothing that it writes is read."""
        self._process.join(seconds)
        return self._process.exitcode

    def wait(self, seconds: float) -> int:
        """Wait until it has ended; return how. What it still writes is read, so that no full pipe stops it."""
        reader = threading.Thread(target=self._read_on, daemon=True)
        reader.start()
        if (ended := self.ended(patience(seconds))) is None:
            self.kill()
        reader.join(patience(seconds))
        assert ended is not None, f"process {self.pid} has not ended within {seconds:g} s"
        return ended

    def _read_on(self) -> None:
        if not self.stdout.closed:
            with self.stdout:
                self.stdout.read()


def _speaking(output: Connection, environment: dict[str, str], run: Callable[..., None], *arguments: Any) -> None:
    os.dup2(output.fileno(), 1)
    output.close()
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - what it is, was found out of another file
    os.environ.update(environment)  # a test may have set some since the process was made that all are forked from
    run(*arguments)


def children(pid: int) -> set[int]:
    """The processes that a process has started and that have not ended."""
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
