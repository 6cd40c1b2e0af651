"""Why: LMDB takes keys of 1 to 511 bytes, and users' keys (addresses, documents) are sometimes longer.

A key of up to 479 bytes is stored as it is. A longer one is stored as its first 479 bytes and the sha256 of the whole,
511 bytes together, and its value is preceded by the whole key: no long key can be taken for a short one (their lengths
differ), nor for another long one (the whole key is compared). Long keys with one beginning lie together, so an ordered
scan sorts within such a group. Must not be used for what leaves the store: deltas carry keys as users wrote them.
"""

import hashlib
from collections.abc import Iterable, Iterator
from struct import Struct

from holdfast_runtime.state.errors import StateKeyError

LONGEST_PLAIN = 479
FOLDED_LENGTH = 511
_LENGTH = Struct(">I")


def check_keys(keys: Iterable[bytes], table: str) -> None:
    """Raise `StateKeyError` where one of them is empty."""
    if b"" in keys:
        message = f"table {table} was given an empty key, which a store can't hold: give the key's columns a prefix"
        raise StateKeyError(message)


def fold_key(key: bytes) -> bytes:
    """The key as LMDB sees it."""
    return key if len(key) <= LONGEST_PLAIN else key[:LONGEST_PLAIN] + hashlib.sha256(key).digest()


def fold_value(key: bytes, value: bytes) -> bytes:
    """The value as LMDB sees it."""
    return value if len(key) <= LONGEST_PLAIN else _LENGTH.pack(len(key)) + key + value


def unfold(stored_key: bytes, stored_value: bytes) -> tuple[bytes, bytes]:
    """Key and value as users see them."""
    if len(stored_key) < FOLDED_LENGTH:
        return stored_key, stored_value
    (length,) = _LENGTH.unpack_from(stored_value)
    end = _LENGTH.size + length
    return stored_value[_LENGTH.size : end], stored_value[end:]


def any_long(keys: Iterable[bytes]) -> bool:
    """Whether one of them is stored folded; asked per batch, so that the usual short keys cost nothing each."""
    return max(map(len, keys), default=0) > LONGEST_PLAIN


def in_order(rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Stored rows as users see them, ordered by the users' keys."""
    group: list[tuple[bytes, bytes]] = []
    for stored_key, stored_value in rows:
        row = unfold(stored_key, stored_value)
        if group and group[0][0][:LONGEST_PLAIN] != stored_key[:LONGEST_PLAIN]:
            yield from sorted(group)
            group = []
        if len(stored_key) == FOLDED_LENGTH:
            group.append(row)
        else:
            yield row
    yield from sorted(group)
