"""Why: where a run stands, read from Spark's own logs without Spark, while the app is at work or not.

A batch is planned when it is in the offset log, and done when it is in the commit log. Must not write.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from holdfast_runtime.offsets import Offsets, OffsetsUnreadableError
from holdfast_runtime.state.errors import CheckpointUnavailableError

_VERSION, _SOURCE = "v1", 2
"""What the first line of an entry says, and which line is about the one source there is."""
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Logged:
    """What the logs of a run say."""

    done: Offsets
    """After the last batch that is done."""
    planned: Offsets | None = None
    """After the batch that is planned and not done: it is run next, as it is."""


def read_offset_log(query: Path) -> Logged | None:
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


def _logged(query: Path) -> Logged | None:
    # In this order: read the other way round, a batch that ends meanwhile would be done and not planned.
    done, planned = _last(query / "commits"), _last(query / "offsets")
    if planned is None:
        return None
    return Logged(
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
    lines = path.read_text(encoding="utf-8").splitlines()
    try:
        if lines[0] == _VERSION:
            return Offsets.parse(json.loads(lines[_SOURCE])["offsets"])
    except (ValueError, KeyError, TypeError, IndexError):
        pass
    message = f"{path} is no entry of an offset log that this release of Holdfast knows; put the checkpoint back"
    raise OffsetsUnreadableError(message)
