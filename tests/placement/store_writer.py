"""A process of its own that writes a `FileStore`, says what it is about to do and what is done, and can be killed.

`python store_writer.py DIRECTORY MODE [...]`; a line is written to the pipe before and after each operation, so what it
acknowledged is known whatever instant it dies at.
"""

import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.placement.file_store import FileStore, FileStoreUnavailableError
from holdfast.placement.record_store import RecordStore
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import PlacementRecord

KEYS = ("a", "a/b", "c")


class Writer:
    """The process, from the test's side."""

    def __init__(self, directory: Path, mode: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(directory), mode, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.kill()
        self._process.communicate(timeout=60)

    def line(self) -> str:
        """The next thing it says; empty once it is gone."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().removesuffix("\n")

    def lines(self) -> list[str]:
        """All it says until it is gone; a line its death cut short does not count."""
        assert self._process.stdout is not None
        return [line[:-1] for line in self._process.stdout.readlines() if line.endswith("\n")]

    def kill(self) -> None:
        """Give it no chance to tidy up."""
        self._process.send_signal(signal.SIGKILL)

    def ended(self) -> int:
        """How it ended."""
        return self._process.wait(timeout=60)


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def hold(directory: Path) -> None:
    """Be the writer until the pipe is closed."""
    with FileStore(directory) as store:
        store.lock()
        say("locked")
        sys.stdin.read()


def fill(directory: Path) -> None:
    """Meet a file system that takes only the first half of a value."""
    with FileStore(directory) as store:
        version = store.put("a", b"first", None)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))
        try:
            store.put("a", bytes(1000), version)
        except FileStoreUnavailableError as error:
            say("refused", str(error).partition(";")[0])
        found = store.get("a")
        say("old value is there" if found is not None and found.value == b"first" else "old value is gone")
        store.put("a", b"third", version)
        say("written again")


def step(directory: Path, operation: str, fatal: str) -> None:
    """Die right after one step of one put or delete."""
    arm: list[str] = []

    def at(name: str) -> None:
        if name in arm:
            os.kill(os.getpid(), signal.SIGKILL)

    store = FileStore(directory, at=at)
    version = None if operation == "create" else store.put("a", b"old", None)
    arm.append(fatal)
    if operation == "delete" and version is not None:
        store.delete("a", version)
    else:
        store.put("a", b"new", version)


def loop(directory: Path, seed: str) -> None:
    """Write and delete for ever."""
    draw = random.Random(seed)  # noqa: S311
    store = FileStore(directory)
    store.lock()
    for n in count():
        key = draw.choice(KEYS)
        found = store.get(key)
        version = None if found is None else found.version
        if version is not None and draw.random() < 0.2:
            say("deleting", key)
            store.delete(key, version)
            say("deleted", key)
        else:
            value = f"{seed}.{n}." + "x" * draw.choice([0, 100, 20_000])
            say("putting", key, value)
            say("put", key, store.put(key, value.encode(), version))


def records(directory: Path, seed: str) -> None:
    """Save records for ever, each of several shards."""
    store = RecordStore(FileStore(directory), "app", budget=2000)
    for n in count():
        say("saving", f"{seed}.{n}")
        store.save(record_of(f"{seed}.{n}"))
        say("saved", f"{seed}.{n}")


def record_of(name: str) -> PlacementRecord:
    """A record of some shards, the first of which never change."""
    tasks = {f"partition-{i:03}": (StreamPartition("clicks", i),) for i in range(100)}
    return PlacementRecord("1", tasks, {}, {"partition-099": name})


MODES: dict[str, Callable[..., None]] = {"hold": hold, "fill": fill, "step": step, "loop": loop, "records": records}

if __name__ == "__main__":
    MODES[sys.argv[2]](Path(sys.argv[1]), *sys.argv[3:])
