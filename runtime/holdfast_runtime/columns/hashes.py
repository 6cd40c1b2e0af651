"""murmur2 and CRC-32 of a whole Arrow array of keys: the two hashes by which Kafka clients place keys.

murmur2 processes all keys together, one word of four bytes at a time. The longest keys come first, so that keys with
words left are always at the head of the arrays. Must not know partitions.
"""

import zlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]

_WORD = 4
_FEW = 8
"""When only this few longer keys are left, hashing them one by one is faster."""
_FULL = 0xFFFFFFFF
_SEED, _FACTOR = 0x9747B28C, 0x5BD1E995


def crc32(keys: pa.Array) -> Words:
    """Return the CRC-32 of each key; a null counts as an empty key."""
    # zlib takes 0.1 us per key, as fast as tables in numpy could be.
    return np.fromiter((zlib.crc32(key or b"") for key in keys.to_pylist()), np.uint32, len(keys))


def murmur2(keys: pa.Array) -> Words:
    """Return Kafka's murmur2 of each key, as unsigned numbers; a null counts as an empty key."""
    if not len(keys):
        return np.zeros(0, np.uint32)
    starts, lengths, data = _bytes_of(keys)
    words = lengths // _WORD
    order = None if words.min() == words.max() else np.argsort(-words, kind="stable")
    if order is not None:
        starts, lengths, words = starts[order], lengths[order], words[order]
    state = _eaten(np.uint32(_SEED) ^ lengths.astype(np.uint32), starts, words, data)
    left = lengths % _WORD
    tail = _words_at(data)[starts + words * _WORD] & ((np.uint32(1) << (8 * left).astype(np.uint32)) - np.uint32(1))
    state = np.where(left > 0, (state ^ tail) * np.uint32(_FACTOR), state)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(_FACTOR)
    state ^= state >> np.uint32(15)
    if order is None:
        return state
    as_given = np.empty_like(state)
    as_given[order] = state
    return as_given


def _eaten(state: Words, starts: Numbers, words: Numbers, data: Bytes) -> Words:
    """Return the states after all whole words; the longest keys come first."""
    view, ends = _words_at(data), -words
    for i in range(int(words[0])):
        active = int(np.searchsorted(ends, -i, side="left"))
        if active <= _FEW:
            for k in range(active):
                rest = data[starts[k] + i * _WORD : starts[k] + words[k] * _WORD]
                state[k] = _alone(int(state[k]), rest)
            break
        word = view[starts[:active] + i * _WORD] * np.uint32(_FACTOR)
        word ^= word >> np.uint32(24)
        word *= np.uint32(_FACTOR)
        state[:active] *= np.uint32(_FACTOR)
        state[:active] ^= word
    return state


def _alone(state: int, data: Bytes) -> int:
    for word in data.view("<u4").tolist():
        mixed = word * _FACTOR & _FULL
        state = (state * _FACTOR & _FULL) ^ ((mixed ^ mixed >> 24) * _FACTOR & _FULL)
    return state


def _words_at(data: Bytes) -> Words:
    """Return the word that starts at each byte, aligned or not."""
    return np.ndarray((len(data) - _WORD + 1,), "<u4", data.data, 0, (1,))


def _bytes_of(keys: pa.Array) -> tuple[Numbers, Numbers, Bytes]:
    """Return where each key starts, its length, and the bytes, padded with one more word."""
    if keys.type != pa.binary():
        keys = keys.cast(pa.binary())
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(keys) + 1, keys.offset * 4).astype(np.int64)
    lengths = np.diff(bounds)
    if keys.null_count:
        lengths[keys.is_null().to_numpy(zero_copy_only=False)] = 0
    padded = np.zeros(bounds[-1] - bounds[0] + _WORD, np.uint8)
    if data is not None:
        padded[: bounds[-1] - bounds[0]] = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    return bounds[:-1] - bounds[0], lengths, padded
