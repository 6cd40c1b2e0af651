"""A file that appears under its name only when it is complete, and never in place of another one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import UserActionError


@contextmanager
def new_file(name: str) -> Iterator[Path]:
    """Yield a path to write to, which gets this name at the end; who removes it before that leaves no file."""
    target = Path(name)
    if target.exists():
        message = f"{name} exists already: remove it, or choose another name"
        raise UserActionError(message, code="UsageError")
    temporary = target.with_name(f".{target.name}.writing")
    try:
        yield temporary
        if temporary.exists():
            temporary.rename(target)
    except OSError as error:
        message = f"{name} can't be written: {error}"
        raise UserActionError(message, code="UsageError") from error
    finally:
        temporary.unlink(missing_ok=True)
