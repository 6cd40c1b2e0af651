"""The protocol of metadata stores, versioned keys to bytes with compare-and-set; and the store in memory.

The few bytes that must outlive a process are kept the same way on a laptop and in a cluster: a writer says which
version it replaces, and the write fails if the key has another version. The store in memory, for tests and local runs,
is the reference for the others (`file_store`, `config_map_store`). Calls are synchronous, because the core has no
event loop. For Kubernetes objects:

- `object_name(key)` is a valid object name, different for every key; the value goes to `binaryData`.
- A version is `metadata.resourceVersion`: `put` of a new key is a create, otherwise a replace with that version in
  it; for `delete` it is the precondition. The answers 409 and 404 become `VersionConflictError`.
- The API server keeps the version of an object that is replaced by an equal one, so `put` must change something,
  e.g. an annotation. Otherwise not every put would make a new version, and removing leftovers would not be safe.

Must not know what the values mean: `record_store` does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import NewType, Protocol

from holdfast.errors import RetrySoonError, UserActionError

DEFAULT_BUDGET = 512 * 1024
"""Bytes per value. etcd refuses objects near 1.5 MiB, ConfigMaps hold at most 1 MiB, and base64 adds a third."""

_KEY = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(/[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_KEY = 253

Version = NewType("Version", str)
"""Identifies the put that made a value. Opaque: compare only for equality; a key never has the same version twice."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """A value with its version."""

    value: bytes
    version: Version


class MetadataStore(Protocol):
    """Keys to bytes, with compare-and-set. Every operation is atomic, also in a crash."""

    @property
    def budget(self) -> int:
        """The most bytes a value may have."""

    def get(self, key: str) -> Versioned | None:
        """Return the value of this key; None if there is none. A value that can't be read raises, it is never None."""

    def put(self, key: str, value: bytes, expected: Version | None) -> Version:
        """Replace the expected version with this value and return the new version; None: the key must not exist.

        Every put makes a new version, also of an equal value. Raise `VersionConflictError` if the key has another
        version, `ValueTooLargeError` if the value is larger than the budget.
        """

    def delete(self, key: str, expected: Version) -> None:
        """Remove this key; raise `VersionConflictError` if it does not have the expected version."""

    def list(self, prefix: str) -> Mapping[str, Version]:
        """Return all keys with this prefix, sorted, with their versions."""


class VersionConflictError(RetrySoonError):
    """Another writer wrote since this one read; nothing was written."""

    def __init__(self, key: str, expected: Version | None, found: Version | None) -> None:
        self.key = key
        wanted = "no value" if expected is None else f"version {expected}"
        there = "no value" if found is None else f"version {found}"
        super().__init__(f"{key} has {there} where {wanted} was expected: somebody else wrote it; read it again")


class KeyNameError(UserActionError):
    """An invalid key."""


class ValueTooLargeError(UserActionError):
    """A value larger than the budget of its store; nothing was written."""


class ContentUnreadableError(UserActionError):
    """Stored content that can't be read as expected. It is never overwritten: it may be the only copy."""


def check_key(key: str) -> str:
    """Return the key if it is valid: parts of lower-case letters, digits and inner dashes, joined by `/`."""
    if len(key) > _MAX_KEY or not _KEY.fullmatch(key):
        message = (
            f"{key!r} is no key: write parts of lower-case letters, digits and inner dashes, joined by /, "
            f"at most {_MAX_KEY} characters, e.g. ad-clicks/record"
        )
        raise KeyNameError(message)
    return key


def check_size(key: str, value: bytes, budget: int) -> None:
    """Refuse a value larger than the budget, also in a store that could hold it: another store could not."""
    if len(value) > budget:
        message = f"{key} would have {len(value)} bytes, the budget of a value is {budget}: split it"
        raise ValueTooLargeError(message)


def check_version(key: str, expected: Version | None, found: Version | None) -> None:
    """Raise `VersionConflictError` unless the found version is the expected one."""
    if expected != found:
        raise VersionConflictError(key, expected, found)


def object_name(key: str) -> str:
    """Return the name of the file or object that holds this key."""
    return check_key(key).replace("/", ".")


def key_of(name: str) -> str | None:
    """Return the key that a file or object of this name holds; None if `object_name` makes no such name."""
    key = name.replace(".", "/")
    return key if "/" not in name and len(key) <= _MAX_KEY and _KEY.fullmatch(key) else None


class MemoryStore:
    """A metadata store in memory, gone with the process. Threads may share it."""

    def __init__(self, *, budget: int = DEFAULT_BUDGET) -> None:
        self.budget = budget
        self._values: dict[str, Versioned] = {}
        self._puts = 0
        self._lock = Lock()

    def get(self, key: str) -> Versioned | None:
        """Return the value of this key; None if there is none."""
        return self._values.get(check_key(key))

    def put(self, key: str, value: bytes, expected: Version | None) -> Version:
        """Replace the expected version with this value and return the new version."""
        check_size(check_key(key), value, self.budget)
        with self._lock:
            self._check(key, expected)
            # One counter for all keys: otherwise a key that is deleted and put again would get its old versions.
            self._puts += 1
            version = Version(str(self._puts))
            self._values[key] = Versioned(bytes(value), version)
            return version

    def delete(self, key: str, expected: Version) -> None:
        """Remove this key if it has the expected version."""
        check_key(key)
        with self._lock:
            self._check(key, expected)
            del self._values[key]

    def list(self, prefix: str) -> dict[str, Version]:
        """Return all keys with this prefix, sorted, with their versions."""
        with self._lock:
            return {key: self._values[key].version for key in sorted(self._values) if key.startswith(prefix)}

    def _check(self, key: str, expected: Version | None) -> None:
        found = self._values.get(key)
        check_version(key, expected, None if found is None else found.version)
