"""A run that starts again whenever the app's file or a module beside it is saved: `holdfast run --watch`.

    run in a forked process -> a file is saved -> drain it -> run anew ...

Each run is a process of its own, so that it imports what was saved. It continues from the state of the one before, as
far as that fits; what does not start is explained, and tried again with the next save. Must not know what a run does.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from holdfast_cli.output.screen import print_message

_LOOK_EVERY = 0.2
_STOPS = (signal.SIGINT, signal.SIGTERM)
_KILLED = 128
"""And the signal's number: the exit code of what a signal killed, as shells say it."""
Stamps = dict[Path, tuple[int, int]]
"""File -> when it was saved, and its size."""


def run_again_when_saved(app: str, run: Callable[[], int]) -> int:
    """Run, and again with each save, until Ctrl-C or SIGTERM; return the exit code of the last run."""
    watch = _Watch()
    before = {number: signal.signal(number, watch.stop) for number in _STOPS}
    try:
        while True:
            saved = stamps(Path(app))
            watch.begin(run)
            while (code := watch.code()) is None:
                if stamps(Path(app)) != saved:
                    watch.drain()
                time.sleep(_LOOK_EVERY)
            if not watch.stopped and stamps(Path(app)) == saved:
                print_message("waiting for a save; Ctrl-C ends")
            while not watch.stopped and stamps(Path(app)) == saved:
                time.sleep(_LOOK_EVERY)
            if watch.stopped:
                return code
            print_message(f"saved: {', '.join(changed(saved, stamps(Path(app))))}")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stamps(app: Path) -> Stamps:
    """Return the stamps of an app's file and of the modules beside it, in packages too."""
    folder = app.parent
    files = {
        app,
        *folder.glob("*.py"),
        *(path for init in folder.glob("*/__init__.py") for path in init.parent.rglob("*.py")),
    }
    saved: Stamps = {}
    for path in files:
        with suppress(OSError):  # editors replace files
            stat = path.stat()
            saved[path] = (stat.st_mtime_ns, stat.st_size)
    return saved


def changed(before: Stamps, after: Stamps) -> list[str]:
    """Return the files that were saved, made or removed, by name."""
    return sorted(path.name for path in before.keys() | after.keys() if before.get(path) != after.get(path))


class _Watch:
    """The run at hand, and whether the user wants an end."""

    def __init__(self) -> None:
        self.stopped = False
        self._process = 0
        """0: none runs."""
        self._unsent: int | None = None
        """A stop that came while none ran, or before this process knew which."""
        self._draining = False

    def begin(self, run: Callable[[], int]) -> None:
        """Run in a process of its own, which a Ctrl-C on the terminal reaches through this one."""
        sys.stdout.flush()
        # What comes to the new process before it knows that it is new would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        self._process, self._draining = os.fork(), False
        if not self._process:
            os.setpgid(0, 0)
            _end(run)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        # A mask holds for one thread: this process may have been told through another.
        if self._unsent is not None:
            self._send(self._unsent)

    def code(self) -> int | None:
        """Return the exit code of the run; None: it goes on."""
        process, status = os.waitpid(self._process, os.WNOHANG)
        if not process:
            return None
        self._process = 0
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else _KILLED - code

    def drain(self) -> None:
        """Let the run finish its batch and end."""
        if not self._draining:
            self._draining = True
            self._send(signal.SIGTERM)

    def stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the protocol of handlers
        """Hand on what the user wants: the first time a drain, the second time an end at once."""
        self.stopped = True
        if self._process:
            self._send(number)
        else:
            self._unsent = number

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._process, number)


def _end(run: Callable[[], int]) -> NoReturn:
    # Until the run knows what to do: an exception could be lost, in a finalizer for one.
    for number in _STOPS:
        signal.signal(number, signal.SIG_DFL)
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        code = run()
        sys.stdout.flush()
    finally:
        os._exit(code)
