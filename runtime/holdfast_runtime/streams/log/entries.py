"""The entries of a log partition's LMDB file: keys, values with checksums, markers of batches and fences of owners.

Each value carries a checksum over its key and itself, so a damaged entry is refused by name and no entry can be taken
for another. Works inside the caller's transaction; must not begin or end one.
"""

import json
import struct
from zlib import crc32

import lmdb

from holdfast.errors import HoldfastError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.lmdb_file import FileDamagedError
from holdfast_runtime.streams.markers import is_written
from holdfast_runtime.streams.records import Marker

_LONGEST_KEY = 511

BOUNDS_KEY, NAME_KEY = b"b", b"n"
CHUNK_KEY, FENCE_KEY, MARKER_KEY = b"c", b"f", b"m"
ENTRY_KINDS = (BOUNDS_KEY, NAME_KEY, FENCE_KEY, MARKER_KEY)
AFTER_CHUNKS = b"d"
PAIR = struct.Struct(">qq")
_SUM = struct.Struct("<I")
_FITS = 0x2144DF1C
"""The CRC-32 of any content followed by its own CRC-32."""


def put_marker(txn: "lmdb.Transaction[bytes]", marker: Marker, partition: StreamPartition) -> bool:
    """Write the marker of a task's batch; return False if it is already written. Raises `FencedError`."""
    fence = fence_of(txn, marker.owner)
    if marker.epoch < fence:
        message = (
            f"{partition}: attempt {marker.epoch} of {marker.owner} wants to write batch {marker.batch} of "
            f"{marker.task}, but attempt {fence} has taken over; this process must end"
        )
        raise HoldfastError(message, code="FencedError")
    if is_written(marker, marker_of(txn, marker.owner, marker.task), str(partition)):
        return False
    value = [marker.batch, marker.epoch, marker.life, marker.digest]
    put_entry(txn, marker_key(marker.owner, marker.task), json.dumps(value).encode())
    if marker.epoch > fence:
        put_entry(txn, fence_key(marker.owner), PAIR.pack(marker.epoch, 0))
    return True


def marker_of(txn: "lmdb.Transaction[bytes]", owner: str, task: str) -> Marker | None:
    """Return the marker of a task, or None."""
    stored = get_entry(txn, marker_key(owner, task))
    return None if stored is None else Marker(owner, task, *json.loads(stored))


def fence_of(txn: "lmdb.Transaction[bytes]", owner: str) -> int:
    """Return the newest attempt of an owner that wrote here, or 0."""
    stored = get_entry(txn, fence_key(owner))
    return 0 if stored is None else int(PAIR.unpack(stored)[0])


def put_entry(txn: "lmdb.Transaction[bytes]", key: bytes, *value: bytes) -> None:
    """Write a value, followed by a checksum over key and value, so that no entry can be taken for another."""
    checksum = crc32(key)
    for part in value:
        checksum = crc32(part, checksum)
    txn.put(key, b"".join((*value, _SUM.pack(checksum))))


def get_entry(txn: "lmdb.Transaction[bytes]", key: bytes) -> bytes | None:
    """Return the value of a key, or None; raise `FileDamagedError` if it is damaged."""
    stored = txn.get(key)
    return None if stored is None else checked_value(key, stored).tobytes()


def checked_value(key: bytes, stored: bytes) -> memoryview:
    """Return a stored value without its checksum; raise `FileDamagedError` if the checksum is wrong."""
    if len(stored) < _SUM.size or crc32(stored, crc32(key)) != _FITS:
        message = f"the entry {key!r} does not fit its checksum"
        raise FileDamagedError(message)
    return memoryview(stored)[: -_SUM.size]


def chunk_key(last: int) -> bytes:
    """Return the key of the chunk that ends with this offset."""
    return CHUNK_KEY + last.to_bytes(8, "big")


def offset_of_chunk(key: bytes) -> int:
    """Return the last offset of the chunk that has this key."""
    return int.from_bytes(key[1:], "big")


def fence_key(owner: str) -> bytes:
    """Return the key of an owner's fence."""
    return _named(FENCE_KEY + owner.encode())


def marker_key(owner: str, task: str) -> bytes:
    """Return the key of the marker of an owner's task."""
    return _named(MARKER_KEY + owner.encode() + b"\0" + task.encode())


def _named(key: bytes) -> bytes:
    if len(key) > _LONGEST_KEY:
        message = f"names too long for the embedded log ({len(key)} bytes, at most {_LONGEST_KEY}): {key[1:]!r}"
        raise ValueError(message)
    return key
