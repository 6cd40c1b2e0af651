"""Why: objects in checkpoint storage of which a reader sees the whole or nothing, wherever they are.

What a folder and an object store both can do, and no more: write a whole object, read it, list names, delete. There is
no renaming and no lock in it. That a name is free is looked at before the write; who must be sure that nobody else
writes an object gives it a name of its own, with the attempt in it, and looks at the names after the write.

Storages are plain values: they travel to executors, and hold nothing open.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from holdfast_runtime.state.errors import CheckpointUnavailableError

Chunk: TypeAlias = bytes | memoryview


class Storage(Protocol):
    """The objects in one directory."""

    @property
    def directory(self) -> str:
        """Where they are, for people."""
        ...

    def below(self, *names: str) -> "Storage":
        """A directory in this one; it need not be there."""
        ...

    def path(self, name: str) -> str:
        """Of an object, for people."""
        ...

    def names(self) -> list[str]:
        """Objects, in no order; unfinished ones are not among them."""
        ...

    def modified(self) -> dict[str, int]:
        """Objects, and when each was written last: milliseconds since 1970, by the storage's clock."""
        ...

    def directories(self) -> list[str]:
        """Directories in this one, in no order."""
        ...

    def unfinished(self) -> dict[str, str]:
        """What dead (or living) writers have not finished: by its name, the object's name it would have got."""
        ...

    def read(self, name: str) -> bytes | None:
        """The whole object, None where there is none."""
        ...

    def reading(self, name: str) -> AbstractContextManager[Callable[[int], bytes]]:
        """A function that reads the next bytes of the object."""
        ...

    def write(self, name: str, chunks: Iterable[Chunk], *, replace: bool = False) -> int | None:
        """Make an object, and say how many bytes it has; None: the name was taken, and its object stays."""
        ...

    def delete(self, names: Iterable[str]) -> Iterator[str]:
        """Remove objects, each gone when it is named; that somebody else did is fine."""
        ...

    def clear(self, keep: Collection[str]) -> int:
        """Remove all there is, also in directories below, but objects of these names in this one; how many went."""
        ...


def storage_unavailable(path: str, error: Exception, cure: str) -> CheckpointUnavailableError:
    """What to raise where a storage can't do what it is asked to."""
    return CheckpointUnavailableError(f"the checkpoint location refuses {path} ({error}): {cure}")
