"""How a user's function fails inside a step, told so that the user finds the line to change.

Step and function are named, and the last frames of the user's own traceback are kept: those of Holdfast would only hide
them. Must not decide what happens next: the step stops the batch, or puts the row aside.
"""

import traceback
from pathlib import Path

from holdfast.errors import UserActionError

_OURS = str(Path(__file__).parents[1])
_FRAMES = 5
_LONGEST_REASON = 1000


class UserFunctionError(UserActionError):
    """A user's function raised."""

    def __init__(self, message: str, step: str, function: str, frames: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.step = step
        self.function = function
        self.frames = frames
        """The innermost frames of the user's code, the failing one last."""

    def __reduce__(self) -> tuple[type, tuple[str, str, str, tuple[str, ...]]]:
        """It travels from a worker process to the driver."""
        return type(self), (str(self), self.step, self.function, self.frames)

    @classmethod
    def raised(cls, error: BaseException, step: str, function: str, about: str = "") -> "UserFunctionError":
        """What to raise from the exception of a user's function; `about`: what it was called with, ` for key 'a'`."""
        frames = user_frames(error)
        where = f" at {frames[-1].split(', in ')[0]}" if frames else ""
        told = "".join(f"\n  {frame}" for frame in frames)
        message = (
            f"step {step}: {function} failed{about}{where}: {_error_text(error)}{told}\n"
            f"correct the function and run again, filter out the rows it can't take, or put them aside: onError: "
            f"DeadLetter of the step"
        )
        return cls(message, step, function, frames)


class FunctionResultError(UserActionError):
    """A user's function gave back what its step can't use: an unknown column, a wrong type, no rows at all."""


class ColumnValueError(FunctionResultError):
    """A user's function gave back a value that its column can't hold: other rows may be good."""

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        """It travels from a worker process to the driver."""
        return type(self), (str(self), self.column)


def reason(error: Exception) -> str:
    """In a line: what a function raised and where, or what is wrong with its result."""
    raised = error.__cause__ if isinstance(error, UserFunctionError) else None
    if raised is None:
        return _shortened(str(error) if isinstance(error, UserActionError) else _error_text(error))
    frames = user_frames(raised)
    where = f" at {frames[-1].split(', in ')[0]}" if frames else ""
    return _shortened(f"{_error_text(raised)}{where}")


def out_of_memory(error: Exception) -> bool:
    """Whether the host is to blame rather than a row."""
    return isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError)


def user_frames(error: BaseException) -> tuple[str, ...]:
    """The innermost frames outside of Holdfast and of libraries, as `file:line, in function: source`."""
    outside = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    found = [frame for frame in outside if not _is_library(frame.filename)] or outside
    return tuple(
        f"{frame.filename}:{frame.lineno}, in {frame.name}" + (f": {frame.line}" if frame.line else "")
        for frame in found[-_FRAMES:]
    )


def _is_library(file: str) -> bool:
    return "site-packages" in file or file.endswith((".pxi", ".pyx"))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


def _error_text(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
