"""Errors of a task's state, typed by the way out: who has to act, and whether to try again.

Whoever meets the trouble knows the names and numbers and writes the message, so nothing here decides anything.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import msgpack

from holdfast.control.bookkeeping_format import StoredBookkeepingError
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


class StoreBusyError(RetrySoonError):
    """Another process, or another part of this one, has the task's local store open."""


class StoreRebuildError(RetrySoonError):
    """The local store is not at the batch before this one: drop it and restore it from the durable copy."""


class StoreDamagedError(RetrySoonError):
    """What was read of the local store can't be right: it is not used again, but restored, and the batch runs anew."""


class StateUnreadableError(UserActionError):
    """What stands in the state is nothing that this release writes.

    Of a local store that is damage, which a restore mends; of the durable copy, whose checksums fit, it is the end.
    """


@contextmanager
def parsing_state(what: str) -> Iterator[None]:
    """Raise `StateUnreadableError` where what is read from state can't be parsed."""
    try:
        yield
    except _PARSE_ERRORS as error:
        message = (
            f"{what} can't be read ({type(error).__name__}: {error}), though the checksums of the durable copy fit: "
            f"it was written by another release or a mistake. Put back a copy of the checkpoint of the time before, or "
            f"start under a new spec.runId"
        )
        raise StateUnreadableError(message) from error


class StoreMisuseError(HoldfastError):
    """A bug in the caller: a call outside a batch, in a forked process, or with what no store can hold."""


class StateKeyError(UserActionError):
    """A key no store can hold."""


class StoreFullError(WorldChangeError):
    """The local store reached its quota, or its disk is full. The batch is not committed, and nothing is lost.

    Space comes without anybody who edits the app: a disk is cleaned, a volume grows, rows expire.
    """


class StoreDiskError(WorldChangeError):
    """The local disk refuses: no permission, a broken device. The batch is not committed."""


class EpochFencedError(HoldfastError):
    """A newer attempt of the app works on this state. This process must end; nothing it does counts any more."""


class CheckpointUnavailableError(WorldChangeError):
    """The checkpoint location refuses to be read or written. The batch is not committed."""


class DeltaExistsError(RetrySoonError):
    """The batch of the task was written by somebody else meanwhile: replay it from what they wrote."""


class DeltaDamagedError(UserActionError):
    """A delta that can't be read. What came after it can't be restored without it."""


class DeltaMissingError(UserActionError):
    """A delta that must be there is not, or belongs to another history of the task."""


class SnapshotDamagedError(UserActionError):
    """A snapshot that can't be read. Restoring falls back on the one before, and says so."""


class NoUsableSnapshotError(UserActionError):
    """The durable copy has no snapshot from which this batch can be reached."""
