"""Why: how one value of a `FileStore` looks on disk, so that any damage to it is seen before its bytes are used.

One line, then the value: `holdfast-value 1 version=12 length=345 sha256=<64 digits>`. The checksum covers the line's
numbers, the key and the value: a file copied to another key's name is refused like a flipped bit. Must not open files.
"""

import hashlib
import re

from holdfast.placement.metadata_store import ContentUnreadableError

FORMAT = 1
_MAGIC = b"holdfast-value "
_HEADER = re.compile(rb"holdfast-value 1 version=(0|[1-9]\d{0,17}) length=(0|[1-9]\d{0,17}) sha256=([0-9a-f]{64})\n")
_FORMAT = re.compile(rb"holdfast-value ([1-9]\d{0,8}) ")


class StoreFileUnreadableError(ContentUnreadableError):
    """A file of the store that is damaged, foreign, or of a newer Holdfast."""


def header_of(key: str, version: int, value: bytes) -> bytes:
    """The line in front of this value."""
    checksum = _checksum(key, version, value)
    return f"holdfast-value {FORMAT} version={version} length={len(value)} sha256={checksum}\n".encode()


def read_file(path: str, key: str, content: bytes) -> tuple[int, bytes]:
    """Version and value of this key in a file's content; raises `StoreFileUnreadableError` naming file and damage."""
    header = _HEADER.match(content)
    if header is None:
        raise StoreFileUnreadableError(_refusal(path, _why_no_header(content)))
    version, length, checksum = int(header[1]), int(header[2]), header[3].decode()
    value = content[header.end() :]
    if len(value) != length:
        raise StoreFileUnreadableError(_refusal(path, f"it holds {len(value)} bytes where its header says {length}"))
    if _checksum(key, version, value) != checksum:
        raise StoreFileUnreadableError(_refusal(path, f"its checksum is wrong: damaged, or not written as {key}"))
    return version, value


def _checksum(key: str, version: int, value: bytes) -> str:
    return hashlib.sha256(b"%d %s %d %d\n" % (FORMAT, key.encode(), version, len(value)) + value).hexdigest()


def _why_no_header(content: bytes) -> str:
    if not content:
        return "it is empty"
    if not content.startswith(_MAGIC):
        return f"it starts with {content[:16]!r} and was not written by Holdfast"
    format_ = _FORMAT.match(content)
    if format_ is not None and int(format_[1]) > FORMAT:
        return f"it has format {int(format_[1])}, and this Holdfast reads formats up to {FORMAT}"
    return "its first line is damaged"


def _refusal(path: str, why: str) -> str:
    return f"{path} can't be read: {why}; it is left as it is: restore it from a copy, or remove it to give it up"
