"""Runs that start again with each save: which files count, what the user's signals do."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from holdfast_cli.run import saved_files
from holdfast_cli.run.saved_files import changed, run_again_when_saved, stamps
from holdfast_runtime.driver.drain_request import DrainRequest
from tests.waiting import patience, wait_until

DEADLINE = patience(30)
DRAINED, INTERRUPTED = 7, 130


def test_modules_and_packages_beside_the_app_count(tmp_path: Path) -> None:
    app, package = tmp_path / "app.yaml", tmp_path / "parcels" / "far"
    package.mkdir(parents=True)
    for path in (app, tmp_path / "f.py", tmp_path / "parcels/__init__.py", package / "zones.py", tmp_path / "notes.md"):
        path.touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/rows.py").touch()
    before = stamps(app)
    assert {path.name for path in before} == {"app.yaml", "f.py", "__init__.py", "zones.py"}
    (package / "zones.py").write_text("ZONES = {}")
    (tmp_path / "f.py").unlink()
    assert changed(before, stamps(app)) == ["f.py", "zones.py"]


def runs_until_told(folder: Path) -> Callable[[], int]:
    """Notes that it runs, and what is in the app's file; ends when it is told."""

    def run() -> int:
        ending = DrainRequest()
        signal.signal(signal.SIGTERM, lambda *_: ending.set())
        signal.signal(signal.SIGINT, lambda *_: ending.set())
        with (folder / "runs").open("a") as file:
            file.write((folder / "app.yaml").read_text() + "\n")
        return DRAINED if ending.wait(DEADLINE) else 1

    return run


def watched(folder: Path, script: Callable[[], None], run: Callable[[], int]) -> int:
    """The exit code of runs under this script, which ends with a Ctrl-C."""

    def act() -> None:
        try:
            script()
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    acting = threading.Thread(target=act)
    acting.start()
    code = run_again_when_saved(str(folder / "app.yaml"), run)
    acting.join()
    return code


def said(folder: Path) -> list[str]:
    path = folder / "runs"
    return path.read_text().splitlines() if path.exists() else []


def test_each_save_drains_the_run_and_begins_another(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text("first")

    def script() -> None:
        wait_until(lambda: said(tmp_path) == ["first"], DEADLINE, "the first run")
        (tmp_path / "app.yaml").write_text("second")
        wait_until(lambda: said(tmp_path) == ["first", "second"], DEADLINE, "the second run")
        (tmp_path / "f.py").touch()
        wait_until(lambda: said(tmp_path) == ["first", "second", "second"], DEADLINE, "the third run")

    assert watched(tmp_path, script, runs_until_told(tmp_path)) == DRAINED


def test_what_has_ended_waits_for_a_save(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text("wrong")

    def run() -> int:
        text = (tmp_path / "app.yaml").read_text()
        with (tmp_path / "runs").open("a") as file:
            file.write(text + "\n")
        return 1 if text == "wrong" else 0

    def script() -> None:
        wait_until(lambda: said(tmp_path) == ["wrong"], DEADLINE, "the first run")
        (tmp_path / "app.yaml").write_text("right")
        wait_until(lambda: said(tmp_path) == ["wrong", "right"], DEADLINE, "the second run")

    assert watched(tmp_path, script, run) == 0


class StopAtLine:
    """A trace that interrupts this process at one of the lines by which it begins a run, through another thread.

    The mask of the main thread does not keep that from its handler.
    """

    def __init__(self, line: int) -> None:
        self._left, self._process = line, os.getpid()

    def __call__(self, frame: FrameType, event: str, _: Any) -> "StopAtLine | None":
        if frame.f_code.co_filename != saved_files.__file__ or os.getpid() != self._process:
            return None
        if event == "line" and signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            self._left -= 1
            if self._left == 0:
                interrupt = threading.Thread(target=os.kill, args=(self._process, signal.SIGINT))
                interrupt.start()
                interrupt.join()
        return self


def test_a_stop_in_any_moment_of_a_begin_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, forgotten = tmp_path / "app.yaml", tmp_path / "forgotten"
    app.touch()
    monkeypatch.setattr(saved_files, "_LOOK_EVERY", 0.01)

    def run() -> int:
        ending = DrainRequest()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ending.set())
        if not ending.wait(DEADLINE):
            forgotten.touch()
        return DRAINED

    for line in range(1, 40):
        sys.settrace(StopAtLine(line))
        try:
            code = run_again_when_saved(str(app), run)
        finally:
            sys.settrace(None)
        assert not forgotten.exists(), f"the stop at line {line} was lost"
        assert code in {DRAINED, INTERRUPTED}
