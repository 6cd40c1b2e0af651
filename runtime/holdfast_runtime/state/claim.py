"""The lock on a task's local store: one process at a time may open, drop or rebuild it.

LMDB's own lock can't tell processes of different pods apart, because each pod has its own process ids. With this lock
LMDB runs without its own. The kernel releases the lock of a dead process, so there is nothing to clean up. Must not
wait: the scheduler retries when a store is taken.
"""

import fcntl
import os
from dataclasses import dataclass

from holdfast_runtime.state.environment import typed_store_errors
from holdfast_runtime.state.errors import StoreBusyError
from holdfast_runtime.state.place import LastUse, StorePlace, read_last_use

# The kernel's lock belongs to the process: without this set, a second claim in the same process would succeed.
_CLAIMED: set[tuple[int, str]] = set()


@dataclass(slots=True)
class Claim:
    """The right to open, drop or rebuild the store at a place."""

    descriptor: int
    key: tuple[int, str]

    @property
    def held(self) -> bool:
        """Whether the claim still keeps others out."""
        return self.key in _CLAIMED and self.key[0] == os.getpid()

    def left(self) -> LastUse | None:
        """Return how the last user left the store, or None if nothing readable was noted."""
        return read_last_use(os.pread(self.descriptor, 1 << 10, 0))

    def note(self, left: LastUse | None) -> None:
        """Note the state in which the store would be left now; None marks it as unusable."""
        if left is None:
            os.ftruncate(self.descriptor, 0)
        else:
            os.pwrite(self.descriptor, left.line(), 0)

    def release(self) -> None:
        """Let others in. Calling it again does no harm."""
        if self.held:
            _CLAIMED.discard(self.key)
            os.close(self.descriptor)


def last_use_at(place: StorePlace) -> LastUse | None:
    """Return how the last user left the store, for a reader that has no claim and changes nothing.

    Must not be called by a process that holds a claim: closing the file a second time would release the lock.
    """
    try:
        return read_last_use(place.lock_path.read_bytes())
    except OSError:
        return None


def claim(place: StorePlace) -> Claim:
    """Become the only user of this place, or raise `StoreBusyError`."""
    key = (os.getpid(), str(place.path.absolute()))
    if key in _CLAIMED:
        message = f"the store of {place.identity} at {place.path} is open in this process already: close it first"
        raise StoreBusyError(message)
    with typed_store_errors(place):
        place.lock_path.parent.mkdir(parents=True, exist_ok=True)
        # Not `flock`: a child forked by a user function would keep holding it.
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
