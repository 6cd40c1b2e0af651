"""Checkpoint storage of two parts: what stands on the way of a batch is in a log, what is large or rare in a storage.

    delta-, fence-, planned-, done-    in the log; the content of a large one beside it, as NAME.RANDOM
    all else                           in the storage

Must not know what the objects mean beyond their names.
"""

import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from holdfast_runtime.state.durable.changelog.log_storage import LogStorage
from holdfast_runtime.state.durable.storage import Chunk, Storage

_IN_LOG: Final = ("delta-", "fence-", "planned-", "done-")
_LARGEST: Final = 512 << 10
"""Bytes of content that a record may have: brokers take a MiB unless they are told otherwise."""


@dataclass(frozen=True, slots=True)
class StorageBeside:
    """A log, and the storage beside it."""

    log: LogStorage
    beside: Storage

    @property
    def at_once(self) -> int:
        """How many threads best use it at once."""
        return self.log.at_once

    def refuses_taken(self, size: int) -> bool:
        """Whether writing so many bytes is known to be refused if the name is taken."""
        return self.log.refuses_taken(size)

    @property
    def directory(self) -> str:
        """The location, for people to read."""
        return f"{self.beside.directory} with {self.log.log.title}"

    def below(self, *names: str) -> "StorageBeside":
        """Return the storage of a subdirectory, which need not exist."""
        return StorageBeside(self.log.below(*names), self.beside.below(*names))

    def path(self, name: str) -> str:
        """Return the path of an object, for people to read."""
        return self.log.path(name) if _is_logged(name) else self.beside.path(name)

    def names(self) -> list[str]:
        """Return the names of all objects, unordered, without unfinished ones."""
        return self.log.names() + [name for name in self.beside.names() if not _is_logged(name)]

    def names_behind(self, name: str) -> list[str]:
        """Return the names in the log that sort behind this one: nobody looks behind a write for what is beside it."""
        return self.log.names_behind(name)

    def modified(self) -> dict[str, int]:
        """Return when each object was last written, in milliseconds since 1970."""
        return self.beside.modified() | self.log.modified()

    def directories(self) -> list[str]:
        """Return the names of subdirectories, unordered."""
        return [*{*self.beside.directories(), *self.log.directories()}]

    def unfinished(self) -> dict[str, str]:
        """Return contents beside the log to which it does not refer, each name with its intended one."""
        large = {name: name.rpartition(".")[0] for name in self.beside.names() if _is_logged(name)}
        if not large:
            return self.beside.unfinished()
        known = {name: self.log.place(name) for name in self.log.names()}
        return self.beside.unfinished() | {name: meant for name, meant in large.items() if known.get(meant) != name}

    def read(self, name: str) -> bytes | None:
        """Return the whole object, or None if it does not exist."""
        if not _is_logged(name):
            return self.beside.read(name)
        place = self.log.place(name)
        return self.beside.read(place) if place else self.log.read(name)

    @contextmanager
    def reading(self, name: str) -> Iterator[Callable[[int], bytes]]:
        """Give a function that reads the next bytes of the object."""
        place = self.log.place(name) if _is_logged(name) else name
        with self.beside.reading(place) if place else self.log.reading(name) as read:
            yield read

    def write(self, name: str, chunks: Iterable[Chunk], *, replace: bool = False) -> int | None:
        """Create an object and return its size in bytes, or None if the name is taken; that object stays."""
        if not _is_logged(name):
            return self.beside.write(name, chunks, replace=replace)
        content = b"".join(chunks)
        if len(content) <= _LARGEST:
            return self.log.write(name, [content], replace=replace)
        place = f"{name}.{secrets.token_hex(8)}"
        self.beside.write(place, [content])
        return len(content) if self.log.refer(name, place, content, replace=replace) else None

    def delete(self, names: Iterable[str]) -> Iterator[str]:
        """Delete objects, yielding each name once it is gone; ones already gone are ignored.

        What is logged goes after what is not, and contents go after what refers to them.
        """
        logged, unlogged, contents = list[str](), list[str](), list[str]()
        for name in names:
            (unlogged if not _is_logged(name) else contents if "." in name else logged).append(name)
        yield from self.beside.delete(unlogged)
        places = [place for name in logged if (place := self.log.place(name))]
        yield from self.log.delete(logged)
        yield from self.beside.delete(contents)
        for _ in self.beside.delete(places):
            pass

    def clear(self, keep: Collection[str]) -> int:
        """Delete everything, also in subdirectories, except objects of these names in this one; return the count."""
        return self.log.clear(keep) + self.beside.clear(keep)


def _is_logged(name: str) -> bool:
    return name.startswith(_IN_LOG)
