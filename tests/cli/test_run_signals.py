"""Ctrl-C on a real terminal, with a real Spark and a busy Python worker: once drains, twice stops at once."""

import fcntl
import os
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli import run_signals_probe
from tests.waiting import patience

DEADLINE = patience(180.0)
CTRL_C = b"\x03"
SHOW_CURSOR = b"\x1b[?25h"
HIDE_CURSOR = b"\x1b[?25l"
ROOT = Path(__file__).parents[2]


class Terminal:
    """A program on a terminal of 80 by 24, as the leader of the foreground group."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ours, child_end = os.openpty()
        termios.tcsetwinsize(child_end, (24, 80))
        self.process = subprocess.Popen(
            [sys.executable, run_signals_probe.__file__, str(directory)],
            stdin=child_end,
            stdout=child_end,
            stderr=child_end,
            env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - only so a terminal is controlling
        )
        os.close(child_end)
        self.shown = b""

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def wait(self, until: Callable[[], bool]) -> None:
        """Read what is shown until something is the case."""
        deadline = time.monotonic() + DEADLINE
        while not until():
            assert time.monotonic() < deadline, self.shown.decode(errors="replace")
            self._read(0.05)

    def shows(self, text: str) -> None:
        self.wait(lambda: text.encode() in self.shown)

    def ends(self) -> int:
        self.wait(lambda: self.process.poll() is not None)
        self._read(0.05)
        return int(self.process.returncode)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def _read(self, seconds: float) -> None:
        while select.select([self._ours], [], [], seconds)[0]:
            try:
                self.shown += os.read(self._ours, 65_536)
            except OSError:  # the other side is closed
                return


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


def alive(process: int) -> bool:
    """Whether it runs; one that is dead and that nobody has waited for does not."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def in_session_of(leader: int) -> list[int]:
    """The JVM, its Python daemon and workers."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "-s", str(leader)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(process) for process in listed.stdout.split()]


def test_one_ctrl_c_finishes_the_batch_and_ends_well(terminal: Terminal) -> None:
    terminal.wait((terminal.directory / "batch-0").exists)
    terminal.press(CTRL_C)
    terminal.shows("press Ctrl-C again to stop at once")
    assert terminal.process.poll() is None
    (terminal.directory / "go").touch()
    assert terminal.ends() == 0
    shown = terminal.shown.decode()
    assert "drained" in shown
    assert "rows in 20 " in shown
    assert "Traceback" not in shown
    assert "KeyboardInterrupt" not in (terminal.directory / "spark.log").read_text(encoding="utf-8")
    assert terminal.shown.rindex(SHOW_CURSOR) > terminal.shown.rindex(HIDE_CURSOR)


def test_ctrl_c_during_sparks_start_is_heard_a_second_stops(terminal: Terminal) -> None:
    terminal.shows("starting ...")
    terminal.press(CTRL_C)
    terminal.shows("as soon as it has started")
    terminal.wait((terminal.directory / "batch-0").exists)
    processes = in_session_of(int((terminal.directory / "jvm").read_text(encoding="utf-8")))
    assert len(processes) >= 3, "the JVM, the daemon and a worker"
    terminal.press(CTRL_C * 5)
    assert terminal.ends() == 130
    shown = terminal.shown.decode()
    assert "stopped at once" in shown
    assert "Traceback" not in shown
    assert terminal.shown.rindex(SHOW_CURSOR) > terminal.shown.rindex(HIDE_CURSOR)
    terminal.wait(lambda: not any(map(alive, processes)))


TWICE = """
import os, signal, sys, threading
from holdfast_cli.local.local_app import RunFiles
from holdfast_cli.run.watcher import RunDisplay, run_watched

def waits(listen, drain):
    os.kill(os.getpid(), signal.SIGTERM)
    assert drain.wait(30)
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(30)

files = RunFiles("app.yaml", ".", data_given=True, prints="spark.log", logs=frozenset())
sys.exit(run_watched(waits, RunDisplay(as_json=True, color="never", metrics=None, files=files)))
"""


def test_a_second_sigterm_stops_at_once() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", TWICE], check=False, capture_output=True, text=True, timeout=patience(60)
    )
    assert (ran.returncode, "stopped at once" in ran.stderr) == (130, True), ran
