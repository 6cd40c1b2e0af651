"""What takes long to make, made once per machine, also where several processes of tests want it at once.

Must not know what is made.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache() -> Path:
    """Where such things are kept; it may be deleted at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "holdfast"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes; the kernel drops it when its holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
