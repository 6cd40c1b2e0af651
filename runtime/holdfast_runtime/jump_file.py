"""Why: what a user has set waits in a file beside the checkpoint until the batch that makes the jump is committed.

Written whole or not at all, and on the disk when `write` returns. Must not decide whether a jump fits.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast_runtime.jumps import Jump
from holdfast_runtime.offsets import Offsets
from holdfast_runtime.state.errors import CheckpointUnavailableError

_NAME, _DRAFT = "jump.json", ".jump.writing"


class JumpFile:
    """Of one run."""

    def __init__(self, query: Path) -> None:
        """`query`: Spark's checkpoint of the run."""
        self._path = query.parent / _NAME

    def read(self) -> Jump | None:
        """The jump that waits; raises `JumpUnreadableError`."""
        with _reporting(self._path):
            try:
                text = self._path.read_text(encoding="utf-8", errors="replace")
            except FileNotFoundError:
                return None
        return Jump.parse(text)

    def write(self, jump: Jump) -> None:
        """Let this one wait, in place of any other."""
        draft = self._path.with_name(_DRAFT)
        with _reporting(self._path):
            with draft.open("w", encoding="utf-8") as file:
                file.write(jump.text())
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
            _sync(self._path.parent)

    def remove(self) -> None:
        """None waits."""
        with _reporting(self._path):
            self._path.unlink(missing_ok=True)
            _sync(self._path.parent)


class DueJump:
    """The jump that an attempt has to make, if any."""

    def __init__(self, file: JumpFile) -> None:
        self._file = file
        self._settled = False

    def after(self, done: Offsets) -> Jump | None:
        """What the next batch has to make; `done`: the offsets of the last batch, which is committed."""
        if self._settled:
            return None
        jump = self._file.read()
        if jump is not None and jump.id != done.jump:
            return jump
        # Only now: removed before its batch is committed, it would be forgotten if that never was.
        if jump is not None:
            self._file.remove()
        self._settled = True
        return None


@contextmanager
def _reporting(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = (
            f"the checkpoint location refuses {path} ({error.strerror}): see that it is there, has space, and lets "
            "this process read and write"
        )
        raise CheckpointUnavailableError(message) from error


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
