"""The protocol of metadata stores: keys to bytes, where a write names the version that it replaces.

The few bytes that must outlive a process are kept the same way on a laptop (`file_store`) and in a cluster
(`config_map_store`): a put fails if the key has another version than the writer has read. Calls are synchronous,
because the core has no event loop. Must not know what the values mean: `record_store` does.
"""

import re
from dataclasses import dataclass
from typing import NewType, Protocol

from holdfast.errors import RetrySoonError, UserActionError

MOST_VALUE_BYTES = 1_000_000
"""Bytes per value, in every store: a ConfigMap holds 1 MiB of data, and etcd 1.5 MiB of it in base64."""

_KEY = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(/[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_KEY = 253

Version = NewType("Version", str)
"""Identifies what a put has stored. Opaque: compare only for equality."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """A value with its version."""

    value: bytes
    version: Version


class MetadataStore(Protocol):
    """Keys to bytes, with compare-and-set. Every operation is atomic, also in a crash."""

    def get(self, key: str) -> Versioned | None:
        """Return the value of this key; None if there is none. A value that can't be read raises, it is never None."""

    def put(self, key: str, value: bytes, expected: Version | None) -> Version:
        """Replace the expected version with this value and return the new version; None: the key must not exist.

        Raise `VersionConflictError` if the key has another version, `ValueTooLargeError` if the value is too large.
        """

    def remove(self, key: str, expected: Version) -> None:
        """Remove this version; nothing if the key is gone. Raise `VersionConflictError` if it has another version.

        A key that is made again has a version that it never had.
        """


class VersionConflictError(RetrySoonError):
    """Another writer wrote since this one read; nothing was written."""

    def __init__(self, key: str, expected: Version | None) -> None:
        was = "was made" if expected is None else "was written or removed"
        super().__init__(f"{key} {was} by somebody else since it was read; nothing was written. Read it again")


def object_name(key: str) -> str:
    """Return the name of the file or object that holds this key; raise `KeyNameError` if it is not valid."""
    if len(key) > _MAX_KEY or not _KEY.fullmatch(key):
        message = (
            f"{key!r} is no key: write parts of lower-case letters, digits and inner dashes, joined by /, "
            f"at most {_MAX_KEY} characters, e.g. ad-clicks/record"
        )
        raise UserActionError(message, code="KeyNameError")
    return key.replace("/", ".")


def check_size(key: str, value: bytes) -> None:
    """Refuse a value larger than every store takes, also in a store that could hold it."""
    if len(value) > MOST_VALUE_BYTES:
        message = f"{key} would have {len(value)} bytes; a ConfigMap holds at most {MOST_VALUE_BYTES}"
        raise UserActionError(message, code="ValueTooLargeError")
