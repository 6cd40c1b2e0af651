"""The errors Holdfast raises on purpose, typed by the way out of them; and `safely`, which answers for a bug.

Callers decide by type, never by the text of a message; a message names the thing, the value and the cure. Reading
and planning what somebody wrote must end in an answer, also where Holdfast, pydantic or sqlglot have a bug: whoever
asks for an app or a plan at the edge of a program asks through `safely`, which lets errors raised on purpose pass.
Must not log: who asks knows where its log is, and has the cause in `__cause__`.
"""

import hashlib
from collections.abc import Callable
from types import FrameType
from typing import TypeVar


class HoldfastError(Exception):
    """Base of all errors raised on purpose."""


class UserActionError(HoldfastError):
    """Nothing changes until a user edits something: a spec, a file, a command line."""


class WorldChangeError(HoldfastError):
    """Not possible as the world is now; possible when it changes (a topic appears, a broker answers)."""


class RetrySoonError(HoldfastError):
    """Lost a race or met a moment of change: look again and try again, nobody has to do anything."""


class AwayError(RetrySoonError):
    """Something outside does not answer. It is waited for, as long as it takes, and that is said."""


Result = TypeVar("Result")
_OURS = "holdfast"
_DEEP = (RecursionError, MemoryError)
"""Where these are raised is chance; where the work began is not."""


class PlanningFailedError(HoldfastError):
    """A bug came up while a spec was read or planned; `code` is the same each time it does."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(
            f"the spec could not be planned (code {code}): a bug of Holdfast; the log of the program has the details"
        )


def safely(work: Callable[[], Result]) -> Result:
    """What the work gives; raises `PlanningFailedError` in the place of any error that is not ours."""
    try:
        return work()
    except HoldfastError:
        raise
    except Exception as error:
        raise PlanningFailedError(_code(error)) from error


def _code(error: Exception) -> str:
    """A short name of the kind of error and the function it came from."""
    frames: list[FrameType] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    # The first is `safely` itself.
    own = [frame.f_code.co_qualname for frame in frames[1:] if _is_ours(frame)] or [""]
    where = own[0] if isinstance(error, _DEEP) else own[-1]
    return hashlib.sha256(f"{type(error).__name__} {where}".encode()).hexdigest()[:8]


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0].startswith(_OURS)
