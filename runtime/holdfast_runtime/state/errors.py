"""Errors of a task's state, typed by the way out: who has to act, and whether to try again.

The code that meets the problem knows names and numbers and writes the message; the types here decide nothing.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import msgpack

from holdfast.control.bookkeeping import StoredBookkeepingError
from holdfast.errors import HoldfastError, RetrySoonError, UserActionError, WorldChangeError

_PARSE_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    ArithmeticError,
    struct.error,
    msgpack.UnpackException,
    StoredBookkeepingError,
)


class StoreDamagedError(RetrySoonError):
    """Something read from the local store can't be right: the store is restored, and the batch runs again."""


class StateUnreadableError(UserActionError):
    """The content of the state is not in the format of this release.

    In a local store this is damage, which a restore repairs. In the durable copy, whose checksums fit, nothing repairs
    it.
    """


@contextmanager
def parsing_state(what: str) -> Iterator[None]:
    """Raise `StateUnreadableError` if content read from state can't be parsed."""
    try:
        yield
    except _PARSE_ERRORS as error:
        message = (
            f"{what} can't be read ({type(error).__name__}: {error}), though the checksums of the durable copy fit: "
            f"it was written by another release or a mistake. Put back a copy of the checkpoint of the time before, or "
            f"start under a new spec.runId"
        )
        raise StateUnreadableError(message) from error


class StoreFullError(WorldChangeError):
    """The local store reached its quota, or its disk is full. The batch is not committed, and nothing is lost.

    Space can appear without an edit of the app: someone cleans the disk, a volume grows, rows expire.
    """


class StoreDiskError(WorldChangeError):
    """The local disk refuses access: no permission, or a broken device. The batch is not committed."""


class EpochFencedError(HoldfastError):
    """A newer attempt of the app works on this state. This process must end; nothing it does counts any longer."""


class CheckpointUnavailableError(WorldChangeError):
    """The checkpoint location can't be read or written. The batch is not committed."""


class DeleteRefusedError(CheckpointUnavailableError):
    """The checkpoint location lets this process do all but delete. What is only obsolete may stay."""


class DeltaDamagedError(UserActionError):
    """A delta that can't be read, or is not of its batch. Nothing else leads to the state after its batch."""


class SnapshotDamagedError(UserActionError):
    """A snapshot that can't be read. Restoring falls back to the one before, and reports it."""
