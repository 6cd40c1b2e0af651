"""Why: what a user has set waits in a file beside the checkpoint until the batch that makes the jump is committed.

Written whole or not at all, and on the disk when `write` returns. Must not decide whether a jump fits.
"""

from pathlib import Path
from typing import Self

from holdfast_runtime.checkpoint.jumps import Jump
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.state.folder_storage import FolderStorage
from holdfast_runtime.state.storage import Storage

_NAME = "jump.json"


class JumpFile:
    """Of one run."""

    def __init__(self, shared: Storage) -> None:
        """`shared`: what the run keeps as a whole."""
        self._storage = shared

    @classmethod
    def beside(cls, query: Path) -> Self:
        """That of a run on this host; `query`: Spark's checkpoint of it."""
        return cls(FolderStorage(query.parent))

    def read(self) -> Jump | None:
        """The jump that waits; raises `JumpUnreadableError`."""
        content = self._storage.read(_NAME)
        return None if content is None else Jump.parse(content.decode(errors="replace"))

    def write(self, jump: Jump) -> None:
        """Let this one wait, in place of any other."""
        self._storage.write(_NAME, [jump.text().encode()], replace=True)

    def remove(self) -> None:
        """None waits; should a power cut bring it back, it is known by its id."""
        for _ in self._storage.delete([_NAME]):
            pass


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
