"""Steps of long work: each says that it begins, what it took, and, if it fails, its last words.

All that the programs of a step print goes into one file. Steps may run side by side.
"""

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.cluster.folders import logs

_LIMIT = 1800.0
_LAST_WORDS = 3000
_BEGAN = time.monotonic()


class ClusterError(Exception):
    """The cluster can't be had; the message says why."""


class Step:
    """Runs programs, and keeps what they print."""

    def __init__(self, log: Path) -> None:
        self._log = log
        log.write_bytes(b"")

    def run(self, *command: str | Path, environment: Mapping[str, str] | None = None, seconds: float = _LIMIT) -> None:
        """Run a program to its end."""
        words = [str(word) for word in command]
        everything = {**os.environ, **(environment or {})}
        with self.writing() as log:
            log.write(f"$ {' '.join(words)}\n".encode())
            log.flush()
            quiet = subprocess.DEVNULL
            subprocess.run(words, stdin=quiet, stdout=log, stderr=log, env=everything, check=True, timeout=seconds)

    @contextmanager
    def writing(self) -> Iterator[IO[bytes]]:
        """The file of its words; what fails meanwhile ends with the last of them."""
        with self._log.open("ab") as log:
            try:
                yield log
            except (subprocess.SubprocessError, OSError) as error:
                message = f"{error}\n{self.last_words()}\nall of it: {self._log}"
                raise ClusterError(message) from error

    def last_words(self) -> str:
        """The end of what was printed."""
        return self._log.read_text(errors="replace")[-_LAST_WORDS:]


@contextmanager
def step(name: str) -> Iterator[Step]:
    """A part of the work, with its time."""
    began = time.monotonic()
    _say(f"{name} ...")
    file = re.sub(r"[^\w.]+", "-", name)
    try:
        yield Step(logs() / f"{file}.log")
    except BaseException:
        _say(f"{name} failed after {time.monotonic() - began:.0f} s")
        raise
    _say(f"{name}: {time.monotonic() - began:.1f} s")


def side_by_side(*lanes: Callable[[], None]) -> None:
    """All of them; what fails is told when all have ended."""
    with ThreadPoolExecutor(max(1, len(lanes))) as pool:
        for running in [pool.submit(lane) for lane in lanes]:
            running.result()


def _say(line: str) -> None:
    print(f"{time.monotonic() - _BEGAN:5.0f} s  {line}", flush=True)  # noqa: T201 - progress is for people
