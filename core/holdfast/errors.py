"""The errors Holdfast raises on purpose, typed by who has to act; and `safely`, which turns a bug into an error.

Callers decide by type, never by the text of a message; a message names the thing, the value and what to do. Reading
and planning a user's spec must give a result even if Holdfast, pydantic or sqlglot have a bug. So programs read apps
and make plans through `safely`, which lets errors raised on purpose pass. Must not log: callers do, and have the cause
in `__cause__`.
"""

import hashlib
from collections.abc import Callable
from types import FrameType
from typing import TypeVar


class HoldfastError(Exception):
    """Base of all errors raised on purpose.

    The type says who has to act, `code` what happened: a name for programs, which `-o json` prints and releases keep. A
    class of its own is only for what is caught somewhere; its code is its name.
    """

    def __init__(self, message: str = "", *, code: str = "") -> None:
        super().__init__(message)
        self.code = code or type(self).__name__


def code_of(error: BaseException) -> str:
    """Return what programs call an error: its code, or the name of its type if Holdfast did not raise it."""
    return error.code if isinstance(error, HoldfastError) else type(error).__name__


class UserActionError(HoldfastError):
    """A user has to change something: a spec, a file, a command line."""


class WorldChangeError(HoldfastError):
    """Not possible now; possible when something outside changes (a topic appears, a disk has space)."""


class RetrySoonError(HoldfastError):
    """Lost a race, or state was changing: read again and try again; nobody has to act."""


class AwayError(RetrySoonError):
    """Something outside does not answer. Wait for as long as it takes, and report that."""


Result = TypeVar("Result")
_OURS = "holdfast"
_DEEP = (RecursionError, MemoryError)
"""Errors raised at a random depth: their code is derived from where the work began."""


class PlanningFailedError(HoldfastError):
    """A bug while a spec was read or planned; `bug` is the same each time it occurs."""

    def __init__(self, bug: str) -> None:
        self.bug = bug
        super().__init__(
            f"the spec could not be planned (code {bug}): a bug of Holdfast; the log of the program has the details"
        )


def safely(work: Callable[[], Result]) -> Result:
    """Return the result of `work`; raise `PlanningFailedError` for any error that Holdfast did not raise on purpose."""
    try:
        return work()
    except HoldfastError:
        raise
    except Exception as error:
        raise PlanningFailedError(_code(error)) from error


def _code(error: Exception) -> str:
    """A short code made from the type of the error and the function it came from."""
    frames: list[FrameType] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    # The first is `safely` itself.
    function_names = [frame.f_code.co_qualname for frame in frames[1:] if _is_ours(frame)] or [""]
    function_name = function_names[0] if isinstance(error, _DEEP) else function_names[-1]
    return hashlib.sha256(f"{type(error).__name__} {function_name}".encode()).hexdigest()[:8]


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0].startswith(_OURS)
