"""The protocol of metadata stores, versioned keys to bytes with compare-and-set; and the store in memory.

The few bytes that must outlive a process are kept in one way, on a laptop as in a cluster: a writer says which
version it replaces, and a version it did not expect stops it. The store in memory, for tests and local runs, is the
reference the others (`file_store`, `config_map_store`) are compared with. Calls are synchronous, because the core
has no event loop. For objects of Kubernetes:

- `object_name(key)` is a valid name of an object, and no two keys share one; the value goes to `binaryData`.
- A version is `metadata.resourceVersion`: `put` of a new key is a create, otherwise a replace with that version in
  it, `delete` has it as its precondition. The answers 409 and 404 are `VersionConflictError`.
- The API server keeps the version of an object that is replaced by an equal one, so `put` must change something,
  e.g. an annotation; else "every put makes a new version" does not hold, and removing leftovers is no longer safe.

Must not know what the values mean: the placement record is `record_store`'s business.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import NewType, Protocol

from holdfast.errors import RetrySoonError, UserActionError

DEFAULT_BUDGET = 512 * 1024
"""Bytes per value. etcd refuses objects near 1.5 MiB, ConfigMaps end at 1 MiB, and base64 adds a third."""

_KEY = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(/[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_KEY = 253

Version = NewType("Version", str)
"""Which put made a value. Opaque: only equality means something, and no version of a key ever comes back."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """A value with the put that made it."""

    value: bytes
    version: Version


class MetadataStore(Protocol):
    """Keys to bytes, with compare-and-set. Every operation is atomic: after a crash it happened or it did not."""

    @property
    def budget(self) -> int:
        """How many bytes a value may have."""

    def get(self, key: str) -> Versioned | None:
        """The value of this key; None where there is none. What can't be read is an error, never None."""

    def put(self, key: str, value: bytes, expected: Version | None) -> Version:
        """Write this value over the expected version, None meaning that the key must not exist.

        Every put makes a new version, also of an equal value. Raises `VersionConflictError` where another version is
        there, `ValueTooLargeError` beyond the budget.
        """

    def delete(self, key: str, expected: Version) -> None:
        """Remove this key, which has the expected version; raises `VersionConflictError` where it has not."""

    def list(self, prefix: str) -> Mapping[str, Version]:
        """All keys that start with this text, in order, with their versions."""


class VersionConflictError(RetrySoonError):
    """Somebody else wrote since this writer looked; nothing was written."""

    def __init__(self, key: str, expected: Version | None, found: Version | None) -> None:
        self.key = key
        wanted = "no value" if expected is None else f"version {expected}"
        there = "no value" if found is None else f"version {found}"
        super().__init__(f"{key} has {there} where {wanted} was expected: somebody else wrote it; read it again")


class KeyNameError(UserActionError):
    """A key no store takes."""


class ValueTooLargeError(UserActionError):
    """A value larger than the budget of its store; nothing was written."""


class ContentUnreadableError(UserActionError):
    """What is stored can't be read as what it should be. It is never overwritten: it may be all that is left."""


def check_key(key: str) -> str:
    """Give back a key that stores take: parts of lower-case letters, digits and inner dashes, joined by `/`."""
    if len(key) > _MAX_KEY or not _KEY.fullmatch(key):
        message = (
            f"{key!r} is no key: write parts of lower-case letters, digits and inner dashes, joined by /, "
            f"at most {_MAX_KEY} characters, e.g. ad-clicks/record"
        )
        raise KeyNameError(message)
    return key


def check_size(key: str, value: bytes, budget: int) -> None:
    """Refuse a value larger than the budget; a store that takes it now may be unable to keep it elsewhere."""
    if len(value) > budget:
        message = f"{key} would have {len(value)} bytes, the budget of a value is {budget}: split it"
        raise ValueTooLargeError(message)


def check_version(key: str, expected: Version | None, found: Version | None) -> None:
    """Refuse to write over another version than the expected one."""
    if expected != found:
        raise VersionConflictError(key, expected, found)


def object_name(key: str) -> str:
    """The name of the file or object that holds this key."""
    return check_key(key).replace("/", ".")


def key_of(name: str) -> str | None:
    """The key a file or object of this name holds; None where the name is not one of `object_name`."""
    key = name.replace(".", "/")
    return key if "/" not in name and len(key) <= _MAX_KEY and _KEY.fullmatch(key) else None


class MemoryStore:
    """Keys to bytes, gone with the process. Threads may share it."""

    def __init__(self, *, budget: int = DEFAULT_BUDGET) -> None:
        self.budget = budget
        self._values: dict[str, Versioned] = {}
        self._puts = 0
        self._lock = Lock()

    def get(self, key: str) -> Versioned | None:
        """The value of this key."""
        return self._values.get(check_key(key))

    def put(self, key: str, value: bytes, expected: Version | None) -> Version:
        """Write this value over the expected version."""
        check_size(check_key(key), value, self.budget)
        with self._lock:
            self._check(key, expected)
            # One count for all keys, or a key deleted and put again would meet its old versions.
            self._puts += 1
            version = Version(str(self._puts))
            self._values[key] = Versioned(bytes(value), version)
            return version

    def delete(self, key: str, expected: Version) -> None:
        """Remove this key, which has the expected version."""
        check_key(key)
        with self._lock:
            self._check(key, expected)
            del self._values[key]

    def list(self, prefix: str) -> dict[str, Version]:
        """All keys that start with this text, in order."""
        with self._lock:
            return {key: self._values[key].version for key in sorted(self._values) if key.startswith(prefix)}

    def _check(self, key: str, expected: Version | None) -> None:
        found = self._values.get(key)
        check_version(key, expected, None if found is None else found.version)
