"""Why: LMDB and the disk speak in codes; a user needs the task, the size and the cure.

Must not swallow: everything that is no known trouble of a disk goes on as it is.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import lmdb

from holdfast_runtime.lmdb_file import FileDamagedError
from holdfast_runtime.state.errors import (
    StoreDamagedError,
    StoreDiskError,
    StoreFullError,
    StoreMisuseError,
)
from holdfast_runtime.state.place import StorePlace, size_of, write_sidecar

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PROBE = 1 << 20
_DAMAGE = (
    FileDamagedError,
    lmdb.BadTxnError,
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageFullError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
)
TABLES = 120
"""Tables of a task; LMDB wants to know before it opens."""


@contextmanager
def typed_store_errors(place: StorePlace) -> Iterator[None]:
    """Turn what LMDB and the disk raise into typed errors that name this place."""
    try:
        yield
    except lmdb.MapFullError as error:
        message = (
            f"the state of {place.identity} has reached its quota of {place.quota:,} bytes at {place.path} "
            f"({size_of(place):,} on disk): raise the quota (state.size), or keep less (retention, TTL, windows); the "
            f"batch was not committed, and the state is as it was before"
        )
        raise StoreFullError(message) from error
    except lmdb.DbsFullError as error:
        message = f"{place.identity} uses more than {TABLES} state tables: merge some of them"
        raise StoreMisuseError(message) from error
    except _DAMAGE as error:
        raise mark_damaged(place, str(error)) from error
    except lmdb.Error as error:
        raise _disk_error(place, error.code, str(error)) from error
    except OSError as error:
        raise _disk_error(place, error.errno or 0, str(error)) from error


def mark_damaged(place: StorePlace, what: str) -> StoreDamagedError:
    """An error that says so, and a note beside the store, which is then not used again."""
    # Where not even that can be written, the next who reads meets the damage, too.
    with suppress(OSError):
        write_sidecar(place, damage=what)
    return StoreDamagedError(
        f"the local store of {place.identity} at {place.path} is damaged ({what}): it is restored from the durable copy"
    )


def _probed(place: StorePlace) -> int:
    """What stands behind LMDB's EIO: it says so too when a full disk took the first half of a write."""
    probe = place.path / "probe"
    try:
        probe.write_bytes(bytes(_PROBE))
    except OSError as error:
        return error.errno or errno.EIO
    finally:
        probe.unlink(missing_ok=True)
    return errno.EIO


def _disk_error(place: StorePlace, code: int, text: str) -> StoreFullError | StoreDiskError:
    if code == errno.EIO:
        code = _probed(place)
    if code in _NO_SPACE:
        message = (
            f"the disk under {place.path} has no space for the state of {place.identity} "
            f"({size_of(place):,} bytes now, {os.strerror(code)}): free or add space, and the batch runs again; it was "
            f"not committed, and the state is as it was before"
        )
        return StoreFullError(message)
    return StoreDiskError(
        f"the state of {place.identity} at {place.path} can't be used ({text}): see that the disk works and lets this "
        f"process write; the batch was not committed"
    )
