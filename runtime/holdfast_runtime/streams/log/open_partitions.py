"""The open log partitions of a process: LMDB allows one environment per path and process, none across a fork.

Partitions must be opened here. Must not close one that may be in use: partitions stay open until the process ends or a
test is over.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.log.log_partition import LogPartition


class OpenedOtherwiseError(UserActionError):
    """One process opens a partition both with and without waiting for the disk."""


@dataclass(slots=True)
class _Open:
    process: int
    partitions: dict[Path, tuple[LogPartition, tuple[int, int]]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)


_state = _Open(os.getpid())


def open_partition(path: Path, partition: StreamPartition, *, map_size: int, sync: bool) -> LogPartition:
    """Return the partition at this path, opened by this process."""
    path = path.absolute()
    here = _own()
    with here.lock:
        if path in here.partitions:
            found, identity = here.partitions[path]
            if identity == _identity(path):
                if found.sync != sync:
                    message = f"{path} is open with sync={found.sync} in this process; open the log the same way"
                    raise OpenedOtherwiseError(message)
                return found
            del here.partitions[
                path
            ]  # the files were removed, perhaps made again: the open one is a file without a name
            found.close()
        opened = LogPartition(path, partition, map_size=map_size, sync=sync)
        here.partitions[path] = opened, _identity(path)
        return opened


def close_all() -> None:
    """Close all partitions of this process; none may be in use."""
    here = _own()
    with here.lock:
        while here.partitions:
            here.partitions.popitem()[1][0].close()


def close_under(folder: Path) -> None:
    """Close the partitions of this process whose files are below a folder; none may be in use."""
    here, folder = _own(), folder.absolute()
    with here.lock:
        for path in [path for path in here.partitions if path.is_relative_to(folder)]:
            here.partitions.pop(path)[0].close()


def _own() -> _Open:
    global _state  # noqa: PLW0603 - a process has one set of environments, as LMDB has it
    if _state.process != os.getpid():
        # After a fork, the parent's environments must not be used, nor its lock, which may be held for ever. LMDB's own
        # clean-up knows that they belong to another process.
        _state = _Open(os.getpid())
    return _state


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = (path / "data.mdb").stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_dev, found.st_ino
