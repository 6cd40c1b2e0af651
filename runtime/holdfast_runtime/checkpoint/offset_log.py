"""Spark's own logs of offsets and commits, read without Spark, and the one planned entry taken out or replaced.

A batch is planned when it is in the offset log, and done when it is in the commit log. Spark runs a batch again that
is planned and not done, as its entry says; without the entry it asks its source anew, from where the last batch
ended. The checksum beside an entry is removed first: an entry without one is read as it is. Reading is safe while the
app is at work; must not change an entry while a query has the checkpoint, nor one of a batch that is done.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID
from zlib import crc32

from holdfast.errors import UserActionError
from holdfast_runtime.checkpoint.offsets import Offsets, OffsetsUnreadableError
from holdfast_runtime.state.errors import CheckpointUnavailableError
from holdfast_runtime.state.storage import FolderStorage

_VERSION, _SOURCE = "v1", 2
"""What the first line of an entry says, and which line is about the one source there is."""
_TRIES = 5
_STRIDE = 512
_CHECKSUMS_OF = b"crc\0" + _STRIDE.to_bytes(4, "big")
_CURE = "put the checkpoint back from a copy, with all else that the run keeps, or start under a new spec.runId"


@dataclass(frozen=True, slots=True)
class OffsetLogState:
    """What the logs of a run say."""

    done: Offsets
    """After the last batch that is done."""
    planned: Offsets | None = None
    """After the batch that is planned and not done: it is run next, as it is."""


def read_offset_log(query: Path) -> OffsetLogState | None:
    """Where the run stands that has this checkpoint; None: no batch of it is planned."""
    for left in reversed(range(_TRIES)):
        try:
            return _logged(query)
        except FileNotFoundError as error:
            # Spark clears up while it is read.
            if not left:
                message = f"{error.filename} is missing, though a later batch is done: put the checkpoint back"
                raise CheckpointUnavailableError(message) from error
        except OSError as error:
            message = f"{error.filename} can't be read ({error.strerror}): see that this process may read it"
            raise CheckpointUnavailableError(message) from error
    return None


def check_query(query: Path) -> None:
    """Raise `OffsetsUnreadableError` where Spark could not go on from this checkpoint as it was left.

    Looks at what Spark will read: it would say "log files were deleted", or that another query writes there, or show a
    trace of its file system, whose checksums lie in files beside.
    """
    done, planned = _last(query / "commits"), _last(query / "offsets")
    if done is not None and (planned is None or planned < done):
        message = f"{query / 'offsets' / str(done)} is missing, though its batch is done: {_CURE}"
        raise OffsetsUnreadableError(message)
    try:
        _check_file(query / "metadata", _is_metadata, needed=False)
        if planned is not None:
            for batch in range(max(0, planned - 1), planned + 1):
                _check_file(query / "offsets" / str(batch), _is_offsets)
            _check_order(query / "offsets", planned)
        if done is not None:
            _check_file(query / "commits" / str(done), _is_commit)
    except OSError as error:
        message = f"{error.filename} can't be read ({error.strerror}): see that this process may read it"
        raise CheckpointUnavailableError(message) from error


def _check_file(path: Path, fits: Callable[[list[str]], bool], *, needed: bool = True) -> None:
    if not path.exists():
        if needed:
            message = f"{path} is missing, though the batch after it is planned: {_CURE}"
            raise OffsetsUnreadableError(message)
        return
    content, beside = path.read_bytes(), path.with_name(f".{path.name}.crc")
    if beside.exists() and beside.read_bytes() != _checksums(content):
        message = f"{path} does not fit its checksums in {beside}: {_CURE}"
        raise OffsetsUnreadableError(message)
    try:
        good = fits(content.decode().splitlines())
    except OffsetsUnreadableError as error:
        message = f"{path}: {error}"
        raise OffsetsUnreadableError(message) from error
    except (ValueError, KeyError, TypeError, IndexError):
        good = False
    if not good:
        message = f"{path} is nothing that Spark wrote there: {_CURE}"
        raise OffsetsUnreadableError(message)


def _check_order(folder: Path, planned: int) -> None:
    """An entry that was copied over another is as whole as it was in its own place."""
    if planned:
        before, after = (_entry(folder / str(batch)).batch for batch in (planned - 1, planned))
        # Spark may begin with a batch of nothing.
        if after != before + 1 and not before == after == 0:
            message = f"{folder / str(planned)} is of batch {after}, and the entry before it of batch {before}: {_CURE}"
            raise OffsetsUnreadableError(message)


def _checksums(content: bytes) -> bytes:
    """As Hadoop writes them for local files: one for each 512 bytes."""
    parts = (content[at : at + _STRIDE] for at in range(0, len(content), _STRIDE))
    return _CHECKSUMS_OF + b"".join(crc32(part).to_bytes(4, "big") for part in parts)


def _is_metadata(lines: list[str]) -> bool:
    return bool(UUID(json.loads(lines[0])["id"]))


def _is_offsets(lines: list[str]) -> bool:
    Offsets.parse(json.loads(lines[_SOURCE])["offsets"])
    return lines[0] == _VERSION and isinstance(json.loads(lines[1])["batchTimestampMs"], int)


def _is_commit(lines: list[str]) -> bool:
    return lines[0] == _VERSION and isinstance(json.loads(lines[1])["nextBatchWatermarkMs"], int)


def _logged(query: Path) -> OffsetLogState | None:
    # In this order: read the other way round, a batch that ends meanwhile would be done and not planned.
    done, planned = _last(query / "commits"), _last(query / "offsets")
    if planned is None:
        return None
    return OffsetLogState(
        Offsets() if done is None else _entry(query / "offsets" / str(done)),
        _entry(query / "offsets" / str(planned)) if done is None or planned > done else None,
    )


def _last(folder: Path) -> int | None:
    try:
        # Drafts and checksums have names that begin with a dot.
        return max((int(path.name) for path in folder.iterdir() if path.name.isdecimal()), default=None)
    except FileNotFoundError:
        return None


def _entry(path: Path) -> Offsets:
    content = path.read_bytes()
    try:
        lines = content.decode().splitlines()
        if lines[0] == _VERSION:
            return Offsets.parse(json.loads(lines[_SOURCE])["offsets"])
    except (ValueError, KeyError, TypeError, IndexError):
        pass
    message = f"{path} is no entry of an offset log that this release of Holdfast knows; put the checkpoint back"
    raise OffsetsUnreadableError(message)


_SOURCE_LINE = 2
"""Which line of an entry is about the one source there is."""


class PlanChangedError(UserActionError):
    """The offset log does not hold the batch that was to be taken back."""


class SparkPlanLog:
    """The offset log of one run's query."""

    def __init__(self, query: Path) -> None:
        self._query = query

    def take_back(self, planned: Offsets, instead: Offsets | None) -> None:
        """Have this batch planned no more, or only this of it."""
        logged = read_offset_log(self._query)
        if logged is None or logged.planned != planned:
            message = f"{self._query} does not plan batch {planned.batch} any more: look again with `holdfast offsets`"
            raise PlanChangedError(message)
        entries = FolderStorage(self._query / "offsets")
        entry = str(max(int(name) for name in entries.names() if name.isdecimal()))
        text = (entries.read(entry) or b"").decode()
        gone = [f".{entry}.crc", *([entry] if instead is None else [])]
        for _ in entries.delete(gone):
            pass
        if instead is not None:
            entries.write(entry, [_with_offsets(text, instead).encode()], replace=True)


def _with_offsets(entry: str, offsets: Offsets) -> str:
    lines = entry.splitlines()
    lines[_SOURCE_LINE] = json.dumps({"offsets": offsets.text()}, separators=(",", ":"))
    return "\n".join(lines)
