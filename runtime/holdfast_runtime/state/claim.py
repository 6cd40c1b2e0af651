"""The lock on a task's local store: one process at a time may open, drop or rebuild it.

LMDB's own lock can't tell processes of different pods apart, for pods have their own process ids; with this lock LMDB
runs without its own. The kernel gives a dead process's lock away, so nothing is ever left to clean up. Must not wait:
whoever schedules tries again when a store is taken.
"""

import fcntl
import os
from dataclasses import dataclass

from holdfast_runtime.state.environment import typed_store_errors
from holdfast_runtime.state.errors import StoreBusyError
from holdfast_runtime.state.place import LastUse, StorePlace, read_last_use

# The kernel's lock is the process's: a second claim within the process would succeed without this.
_CLAIMED: set[tuple[int, str]] = set()


@dataclass(slots=True)
class Claim:
    """The right to open, drop or rebuild the store at a place."""

    descriptor: int
    key: tuple[int, str]

    @property
    def held(self) -> bool:
        """Whether others are still kept out."""
        return self.key in _CLAIMED and self.key[0] == os.getpid()

    def left(self) -> LastUse | None:
        """How the store was left; None: nobody says."""
        return read_last_use(os.pread(self.descriptor, 1 << 10, 0))

    def note(self, left: LastUse | None) -> None:
        """How it would be left now; None: as no store that could be used."""
        if left is None:
            os.ftruncate(self.descriptor, 0)
        else:
            os.pwrite(self.descriptor, left.line(), 0)

    def release(self) -> None:
        """Let others in; again is fine."""
        if self.held:
            _CLAIMED.discard(self.key)
            os.close(self.descriptor)


def last_use_at(place: StorePlace) -> LastUse | None:
    """How the store was left, for somebody who has no claim and changes nothing.

    Not for a process that has one: closing the file a second time would give the lock away.
    """
    try:
        return read_last_use(place.lock_path.read_bytes())
    except OSError:
        return None


def claim(place: StorePlace) -> Claim:
    """Become the one user of this place; raises `StoreBusyError`."""
    key = (os.getpid(), str(place.path.absolute()))
    if key in _CLAIMED:
        message = f"the store of {place.identity} at {place.path} is open in this process already: close it first"
        raise StoreBusyError(message)
    with typed_store_errors(place):
        place.lock_path.parent.mkdir(parents=True, exist_ok=True)
        # Not `flock`: a forked child of a user's function would go on holding that.
        descriptor = os.open(place.lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            os.close(descriptor)
            message = (
                f"the store of {place.identity} at {place.path} is open in another process: try again when it ends"
            )
            raise StoreBusyError(message) from error
    _CLAIMED.add(key)
    return Claim(descriptor, key)
