"""A run's logs of offsets and commits, in Spark's format: reads them, and removes or replaces a planned entry.

A batch is planned when it is in the offset log, and done when it is in the commit log. Spark reruns a batch that is
planned but not done, as its entry says; without the entry it asks its source again, from where the last batch ended.
The checksum beside an entry is removed first: Spark reads an entry without one unchecked. Reading is safe while the app
runs. Must not change an entry while batches run, nor one of a batch that is done.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID
from zlib import crc32

from holdfast.errors import UserActionError
from holdfast_runtime.checkpoint.offsets import Offsets, OffsetsUnreadableError
from holdfast_runtime.state.durable.storage import DirectoryStorage
from holdfast_runtime.state.errors import CheckpointUnavailableError

VERSION, _SOURCE_LINE = "v1", 2
"""The first line of an entry, and the number of the line with the offsets of the only source."""
_TRIES = 5
_STRIDE = 512
_CHECKSUMS_OF = b"crc\0" + _STRIDE.to_bytes(4, "big")
_CURE = "put the checkpoint back from a copy, with all else that the run keeps, or start under a new spec.runId"


@dataclass(frozen=True, slots=True)
class OffsetLogState:
    """The state of a run by its logs."""

    done: Offsets
    """The offsets after the last batch that is done."""
    planned: Offsets | None = None
    """The offsets after the batch that is planned but not done, which runs next; None if there is none."""


def read_offset_log(query: Path) -> OffsetLogState | None:
    """Return the state of the run with this checkpoint; None if it has never planned a batch."""
    for left in reversed(range(_TRIES)):
        try:
            return _logged(query)
        except FileNotFoundError as error:
            # Spark may remove old entries while they are read.
            if not left:
                message = f"{error.filename} is missing, though a later batch is done: put the checkpoint back"
                raise CheckpointUnavailableError(message) from error
        except OSError as error:
            message = f"{error.filename} can't be read ({error.strerror}): see that this process may read it"
            raise CheckpointUnavailableError(message) from error
    return None


def check_query(query: Path) -> None:
    """Raise `OffsetsUnreadableError` if Spark could not continue from this checkpoint.

    Checks what Spark will read. Spark's own errors would mislead: "log files were deleted", that another query writes
    there, or a stack trace of its file system, which keeps checksums in files beside.
    """
    done, planned = last_entry(query / "commits"), last_entry(query / "offsets")
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


def _check_order(directory: Path, planned: int) -> None:
    """Refuse an entry of the wrong batch: one that was copied over another passes all other checks."""
    if planned:
        before, after = (_entry(directory / str(batch)).batch for batch in (planned - 1, planned))
        # Spark may begin with an empty batch.
        if after != before + 1 and not before == after == 0:
            message = (
                f"{directory / str(planned)} is of batch {after}, and the entry before it of batch {before}: {_CURE}"
            )
            raise OffsetsUnreadableError(message)


def _checksums(content: bytes) -> bytes:
    """Return checksums as Hadoop writes them for local files: one per 512 bytes."""
    parts = (content[start : start + _STRIDE] for start in range(0, len(content), _STRIDE))
    return _CHECKSUMS_OF + b"".join(crc32(part).to_bytes(4, "big") for part in parts)


def _is_metadata(lines: list[str]) -> bool:
    return bool(UUID(json.loads(lines[0])["id"]))


def _is_offsets(lines: list[str]) -> bool:
    Offsets.parse(json.loads(lines[_SOURCE_LINE])["offsets"])
    return lines[0] == VERSION and isinstance(json.loads(lines[1])["batchTimestampMs"], int)


def _is_commit(lines: list[str]) -> bool:
    return lines[0] == VERSION and isinstance(json.loads(lines[1])["nextBatchWatermarkMs"], int)


def _logged(query: Path) -> OffsetLogState | None:
    # Commits first: in the other order, a batch that ends meanwhile would be done but not planned.
    done, planned = last_entry(query / "commits"), last_entry(query / "offsets")
    if planned is None:
        return None
    return OffsetLogState(
        Offsets() if done is None else _entry(query / "offsets" / str(done)),
        _entry(query / "offsets" / str(planned)) if done is None or planned > done else None,
    )


def last_entry(directory: Path) -> int | None:
    """Return the number of the last entry of a log; None if it has none."""
    try:
        # The names of drafts and checksums begin with a dot.
        return max((int(path.name) for path in directory.iterdir() if path.name.isdecimal()), default=None)
    except FileNotFoundError:
        return None


def _entry(path: Path) -> Offsets:
    content = path.read_bytes()
    try:
        lines = content.decode().splitlines()
        if lines[0] == VERSION:
            return Offsets.parse(json.loads(lines[_SOURCE_LINE])["offsets"])
    except (ValueError, KeyError, TypeError, IndexError):
        pass
    message = f"{path} is no entry of an offset log that this release of Holdfast knows; put the checkpoint back"
    raise OffsetsUnreadableError(message)


class SparkPlanLog:
    """The offset log of one run's query."""

    def __init__(self, query: Path) -> None:
        self._query = query

    def take_back(self, planned: Offsets, instead: Offsets | None) -> None:
        """Remove the plan of this batch, or replace it by `instead`."""
        logged = read_offset_log(self._query)
        if logged is None or logged.planned != planned:
            message = f"{self._query} does not plan batch {planned.batch} any more: look again with `holdfast offsets`"
            raise UserActionError(message, code="PlanChangedError")
        entries = DirectoryStorage(self._query / "offsets")
        entry = str(max(int(name) for name in entries.names() if name.isdecimal()))
        text = (entries.read(entry) or b"").decode()
        names = [f".{entry}.crc", *([entry] if instead is None else [])]
        for _ in entries.delete(names):
            pass
        if instead is not None:
            entries.write(entry, [_with_offsets(text, instead).encode()], replace=True)


def _with_offsets(entry: str, offsets: Offsets) -> str:
    lines = entry.splitlines()
    lines[_SOURCE_LINE] = json.dumps({"offsets": offsets.text()}, separators=(",", ":"))
    return "\n".join(lines)
