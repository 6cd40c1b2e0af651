"""Why: a driver's last word: how it ended, and who has to act, for an operator that sees no more than the pod's end.

Must not decide anything by the text of an error.
"""

import json
import logging
from pathlib import Path

from holdfast.errors import RetrySoonError, UserActionError, WorldChangeError
from holdfast_runtime.progress import RunEnded

_LOG = logging.getLogger("holdfast")
_LONGEST = 2000
"""Bytes of a message; Kubernetes keeps 4096 of all."""


def success_message(ended: RunEnded) -> str:
    """As JSON."""
    return json.dumps({"ended": ended.ending.value})


def failure_message(error: BaseException) -> str:
    """As JSON, with the way out: `user`, `world` or `bug`."""
    if isinstance(error, UserActionError):
        way_out = "user"
    elif isinstance(error, WorldChangeError | RetrySoonError):
        way_out = "world"
    else:
        way_out = "bug"
    text = str(error) if way_out != "bug" else f"{type(error).__name__}: {error}"
    message = text.encode(errors="replace")[:_LONGEST].decode(errors="ignore")
    return json.dumps({"failed": way_out, "message": message}, ensure_ascii=False)


def write_termination(message: str, path: Path) -> None:
    """Put it where Kubernetes looks; outside of a pod there may be no such place."""
    try:
        path.write_text(message, encoding="utf-8")
    except OSError as error:
        _LOG.warning("%s can't be written (%s): %s", path, error.strerror, message)
