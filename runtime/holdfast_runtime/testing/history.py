"""The planned and finished batches of a test, kept on disk as Spark keeps them in its two logs.

So a batch that was cut off runs again as it was planned, even in another process. A batch is planned once: if its file
exists already, another driver is using the directory. Must not sync to disk: tests lose processes, not machines.
"""

import os
from pathlib import Path

from holdfast_runtime.checkpoint.offset_log import OffsetLogState
from holdfast_runtime.checkpoint.offsets import Offsets, OffsetsUnreadableError
from holdfast_runtime.state.errors import CheckpointUnavailableError
from holdfast_runtime.testing.failures import TestMisuseError

_KEPT = 3


class History:
    """The offsets of the planned and finished batches of one run."""

    def __init__(self, directory: Path) -> None:
        if (directory / "metadata").exists():
            message = (
                f"{directory} was written by Spark (`holdfast run`), whose offsets a TestDriver does not read; give "
                "the test a directory of its own"
            )
            raise TestMisuseError(message)
        self._planned, self._done = directory / "test-offsets", directory / "test-commits"
        for folder in (self._planned, self._done):
            folder.mkdir(parents=True, exist_ok=True)

    def done(self) -> Offsets:
        """Return the offsets after the last finished batch."""
        batch = _last(self._done)
        return Offsets() if batch == 0 else self._read(batch)

    def unfinished(self) -> Offsets | None:
        """Return the batch that is planned but not done; None if there is none."""
        batch = _last(self._planned)
        return self._read(batch) if batch > _last(self._done) else None

    def logged(self) -> OffsetLogState:
        """Return `done` and `unfinished` as the state of an offset log."""
        return OffsetLogState(self.done(), self.unfinished())

    def plan(self, offsets: Offsets) -> None:
        """Write the plan of a batch; from now on the batch is run with these offsets."""
        draft = self._planned / f".{os.getpid()}"
        draft.write_text(offsets.text(), encoding="utf-8")
        try:
            (self._planned / str(offsets.batch)).hardlink_to(draft)
        except FileExistsError as error:
            message = (
                f"batch {offsets.batch} was planned by another driver on {self._planned.parent}; this one must end"
            )
            raise TestMisuseError(message) from error
        finally:
            draft.unlink()

    def take_back(self, planned: Offsets, instead: Offsets | None) -> None:
        """Remove the plan of a batch, or replace it by `instead`."""
        path = self._planned / str(planned.batch)
        if instead is None:
            path.unlink()
            return
        draft = self._planned / f".{os.getpid()}"
        draft.write_text(instead.text(), encoding="utf-8")
        draft.replace(path)

    def finish(self, offsets: Offsets) -> None:
        """Mark a batch as done."""
        (self._done / str(offsets.batch)).touch()
        for folder in (self._done, self._planned):
            for batch in _batches(folder):
                if batch <= offsets.batch - _KEPT:
                    (folder / str(batch)).unlink(missing_ok=True)

    def _read(self, batch: int) -> Offsets:
        path = self._planned / str(batch)
        try:
            found = Offsets.parse(path.read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            message = f"{path} can't be read ({error.strerror}), though its batch is done: put the directory back"
            raise CheckpointUnavailableError(message) from error
        if found.batch != batch:
            message = f"{path} is of batch {found.batch}: put the directory back"
            raise OffsetsUnreadableError(message)
        return found


def _batches(folder: Path) -> list[int]:
    return [int(name) for name in os.listdir(folder) if name.isdecimal()]  # noqa: PTH208 - half the time


def _last(folder: Path) -> int:
    return max(_batches(folder), default=0)
