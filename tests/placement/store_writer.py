"""A process of its own that writes a `FileStore`, says what it is about to do and what is done, and can be killed.

A line is written to the pipe before and after each operation, so what it acknowledged is known whatever instant it dies
at.
"""

import os
import random
import resource
import signal
import sys
from collections.abc import Callable
from io import BufferedWriter
from itertools import count
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from holdfast.errors import WorldChangeError
from holdfast.placement.file_store import FileStore
from holdfast.placement.metadata_store import VersionConflictError
from holdfast.placement.record_store import RecordStore
from tests.forked import ForkedProcess
from tests.placement.records import some
from tests.waiting import patience

KEYS = ("a", "a/b", "c")
CALLS = ("write", "flush", "fsync", "replace", "unlink")
WRITE_STEPS = ("header-written", "value-written", "flushed", "synced", "renamed", "directory-synced")
"""The steps of a put: these calls of the operating system, in their order."""
REMOVE_STEPS = ("written", "flushed", "synced", "renamed", "noted", "unlinked", "directory-synced")
"""Those of a removal, which notes the version first."""


class Writer:
    """The process, from the test's side."""

    def __init__(self, directory: Path, mode: str, *arguments: str) -> None:
        self._process = ForkedProcess(MODES[mode], directory, *arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.kill()
        self._process.wait(patience(60))

    def line(self) -> str:
        """The next thing it says; empty once it is gone."""
        return self._process.stdout.readline().removesuffix("\n")

    def lines(self) -> list[str]:
        """All it says until it is gone; a line its death cut short does not count."""
        return [line[:-1] for line in self._process.stdout.readlines() if line.endswith("\n")]

    def kill(self) -> None:
        """Give it no chance to tidy up."""
        self._process.kill()

    def ended(self) -> int:
        """How it ended."""
        return self._process.wait(patience(60))


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def fill(directory: Path) -> None:
    """Meet a file system that takes only the first half of a value."""
    store = FileStore(directory)
    version = store.put("a", b"first", None)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))
    try:
        store.put("a", bytes(1000), version)
    except WorldChangeError as error:
        say("refused", str(error).partition(";")[0])
    stored = store.get("a")
    say("old value is there" if stored is not None and stored.value == b"first" else "old value is gone")
    store.put("a", b"third", version)
    say("written again")


def step(directory: Path, operation: str, fatal: str) -> None:
    """Die right after one step of one put or removal, as the interpreter sees them."""
    store = FileStore(directory)
    version = None if operation == "create" else store.put("a", b"old", None)
    steps = iter(REMOVE_STEPS if operation == "remove" else WRITE_STEPS)

    def see(_frame: FrameType, event: str, function: object) -> None:
        of_file = isinstance(getattr(function, "__self__", None), BufferedWriter)
        on_disk = of_file or function in (os.fsync, os.replace, os.unlink)
        call = getattr(function, "__name__", "")
        if event == "c_return" and on_disk and call in CALLS and next(steps) == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(see)
    if operation == "remove" and version is not None:
        store.remove("a", version)
    else:
        store.put("a", b"new", version)


def loop(directory: Path, seed: str) -> None:
    """Write for ever."""
    draw = random.Random(seed)  # noqa: S311
    store = FileStore(directory)
    for n in count():
        key = draw.choice(KEYS)
        stored = store.get(key)
        value = f"{seed}.{n}." + "x" * draw.choice([0, 100, 20_000])
        say("putting", key, value)
        say("put", key, store.put(key, value.encode(), None if stored is None else stored.version))


def add(directory: Path, times: str) -> None:
    """Add one to a number that others add to as well."""
    store = FileStore(directory)
    say("begins")
    for _ in range(int(times)):
        while True:
            stored = store.get("number")
            number = 0 if stored is None else int(stored.value)
            try:
                store.put("number", b"%d" % (number + 1), None if stored is None else stored.version)
                break
            except VersionConflictError:
                continue


def records(directory: Path, seed: str) -> None:
    """Save records for ever."""
    store = RecordStore(FileStore(directory), "app")
    for n in count():
        say("saving", f"{seed}.{n}")
        store.save(some(f"{seed}.{n}"))
        say("saved", f"{seed}.{n}")


MODES: dict[str, Callable[..., None]] = {"fill": fill, "step": step, "loop": loop, "add": add, "records": records}
