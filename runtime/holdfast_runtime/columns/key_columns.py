"""Key columns in canonical form, their 64-bit hash, and whether two rows have the same key.

Rows of one key must meet whatever their columns look like: -0.0 is 0.0, all NaN are one, an INT is the BIGINT of the
same value, a DATE the day. So each Arrow column becomes words of 64 bits, or bytes, and hashes and comparisons only see
those. A null is a value of its own here; whoever joins takes rows with null keys out before.

The hash nominates and never decides: two keys of one hash are told apart by `same_keys`. It is stored beside rows, so
HASH_FORMAT counts up with any change of its bits, and golden vectors in the tests hold it. Must not know steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from holdfast.errors import UserActionError
from holdfast_runtime.columns.loops import address, loops

HASH_FORMAT = 1

Words = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xFF51AFD7ED558CCD)
_SECOND = np.uint64(0xC4CEB9FE1A85EC53)
_NOTHING = np.uint64(0x6E756C6C6E756C6C)
"""What a null contributes."""
_HALF, _SHIFT = np.uint64(32), np.uint64(33)
_WORD = 8
_FEW = 8
"""When only this few longer values are left, the numpy twin takes them one by one."""
_ALL = 0xFFFFFFFFFFFFFFFF


_TEXTS = (pt.is_string, pt.is_binary, pt.is_large_string, pt.is_large_binary)
_FAMILIES = (
    *_TEXTS, pt.is_boolean, pt.is_integer, pt.is_floating, pt.is_decimal128, pt.is_date, pt.is_timestamp,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WordColumn:
    """A key column of fixed width."""

    words: Words
    valid: Mask | None


@dataclass(frozen=True, slots=True)
class BytesColumn:
    """A key column of texts or bytes."""

    bounds: Rows
    """Where each value begins, and at last where the last one ends."""
    bytes: npt.NDArray[np.uint8]
    valid: Mask | None


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The key columns of rows, in canonical form."""

    rows: int
    columns: tuple[WordColumn | BytesColumn, ...]

    @classmethod
    def of(cls, columns: Sequence[pa.Array], rows: int) -> "KeyColumns":
        """Return the key columns in canonical form, of `rows` rows; without columns all rows have one key."""
        return cls(rows, tuple(part for column in columns for part in _canonical(column)))

    def hashes(self) -> Words:
        """Return the hash of each row's key."""
        state = np.full(self.rows, HASH_FORMAT, np.uint64)
        for column in self.columns:
            if isinstance(column, WordColumn):
                _mix_words(state, column)
            else:
                _mix_bytes(state, column)
        return state

    def without_nulls(self) -> Mask | None:
        """Return a mask of the rows whose key has no null in it; None: all rows."""
        mask: Mask | None = None
        for column in self.columns:
            if column.valid is not None:
                mask = column.valid if mask is None else mask & column.valid
        return mask


def check_key_types(columns: Sequence[pa.Field], step: str) -> None:
    """Raise an error for a key column whose type has no canonical form."""
    for column in columns:
        kind = column.type.value_type if pt.is_dictionary(column.type) else column.type
        if not any(belongs(kind) for belongs in _FAMILIES):
            message = (
                f"step {step}: column {column.name} is of type {kind} and can't be a key; choose columns of texts, "
                "bytes, numbers, dates or times"
            )
            raise UserActionError(message, code="KeyTypeError")


def same_keys(left_keys: KeyColumns, left_rows: Rows, right_keys: KeyColumns, right_rows: Rows) -> Mask:
    """Return for each pair of a left and a right row whether their keys are equal; a null equals a null.

    Pair i is the row `left_rows[i]` of `left_keys` with the row `right_rows[i]` of `right_keys`.
    """
    same = np.ones(len(left_rows), np.bool_)
    for left, right in zip(left_keys.columns, right_keys.columns, strict=True):
        if isinstance(left, WordColumn) and isinstance(right, WordColumn):
            equal = left.words[left_rows] == right.words[right_rows]
        elif isinstance(left, BytesColumn) and isinstance(right, BytesColumn):
            equal = _equal_bytes(left, left_rows, right, right_rows)
        else:
            msg = "keys of different kinds are compared"
            raise AssertionError(msg)
        if left.valid is not None or right.valid is not None:
            left_valid = np.ones(len(left_rows), np.bool_) if left.valid is None else left.valid[left_rows]
            right_valid = np.ones(len(left_rows), np.bool_) if right.valid is None else right.valid[right_rows]
            equal = np.where(left_valid & right_valid, equal, left_valid == right_valid)
        same &= equal
    return same


def _canonical(column: pa.Array) -> tuple[WordColumn | BytesColumn, ...]:
    if pt.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    valid = None if not column.null_count else np.asarray(column.is_valid())
    if pt.is_boolean(kind) or pt.is_integer(kind):
        return (WordColumn(_whole(column), valid),)
    if pt.is_date(kind):
        return (WordColumn(_whole(column.cast(pa.date32()).cast(pa.int32())), valid),)
    if pt.is_timestamp(kind):
        return (WordColumn(_whole(column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())), valid),)
    if pt.is_floating(kind):
        return (WordColumn(_floats(column), valid),)
    if pt.is_decimal128(kind):
        halves = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset : 2 * (column.offset + len(column))]
        if valid is not None:
            halves = np.where(np.repeat(valid, 2), halves, np.uint64(0))
        low, high = np.ascontiguousarray(halves[::2]), np.ascontiguousarray(halves[1::2])
        return (WordColumn(low, valid), WordColumn(high, valid))
    if any(belongs(kind) for belongs in _TEXTS):
        return (_bytes(column, valid),)
    message = f"a column of type {kind} has no canonical form; `check_key_types` refuses it before"
    raise AssertionError(message)


def _whole(column: pa.Array) -> Words:
    # A null has some value below it; it must be the same in each batch, as the loops and their twins read it.
    filled = column.fill_null(False if pt.is_boolean(column.type) else 0)
    return np.ascontiguousarray(np.asarray(filled)).astype(np.int64).view(np.uint64)


def _floats(column: pa.Array) -> Words:
    values = np.array(column.cast(pa.float64()).fill_null(0.0), dtype=np.float64)
    values += 0.0  # -0.0 becomes 0.0
    values[np.isnan(values)] = np.nan
    return values.view(np.uint64)


def _bytes(column: pa.Array, valid: Mask | None) -> BytesColumn:
    wide = pt.is_large_string(column.type) or pt.is_large_binary(column.type)
    _, ends, data = column.buffers()
    width = np.int64 if wide else np.int32
    if len(column):
        bounds = np.frombuffer(ends, width)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    else:
        bounds = np.zeros(1, np.int64)
    content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return BytesColumn(bounds, content, valid)


def _mix_words(state: Words, column: WordColumn) -> None:
    library = loops()
    if library is not None:
        library.holdfast_hash_words(address(state), address(column.words), address(column.valid), len(state))
        return
    _mix(state, column.words if column.valid is None else np.where(column.valid, column.words, _NOTHING))


def _mix_bytes(state: Words, column: BytesColumn) -> None:
    library = loops()
    if library is not None:
        library.holdfast_hash_bytes(
            address(state), address(column.bounds), address(column.bytes), address(column.valid), len(state)
        )
        return
    sums = _digests(column)
    _mix(state, sums if column.valid is None else np.where(column.valid, sums, _NOTHING))


def _mix(state: Words, words: Words) -> None:
    """Mix a word into each state: murmur3's last steps, so that each bit of a word moves half of the hash's."""
    state *= _GOLDEN
    state ^= words
    state ^= state >> _SHIFT
    state *= _FIRST
    state ^= state >> _SHIFT
    state *= _SECOND
    state ^= state >> _SHIFT


def _digests(column: BytesColumn) -> Words:
    """Return a word for the bytes of each value: eight bytes at a time, the last ones filled up with zeros.

    The longest come first, so that values with words left are always at the head of the arrays.
    """
    starts, lengths = column.bounds[:-1], np.diff(column.bounds)
    if not len(lengths):
        return np.zeros(0, np.uint64)
    steps = -(-lengths // _WORD)
    order = np.argsort(-steps, kind="stable")
    starts, lengths, steps = starts[order], lengths[order], steps[order]
    padded = np.zeros(len(column.bytes) + _WORD, np.uint8)
    padded[: len(column.bytes)] = column.bytes
    view = np.ndarray((len(column.bytes) + 1,), "<u8", padded.data, 0, (1,))
    sums = lengths.astype(np.uint64) * _GOLDEN
    for step in range(int(steps[0])):
        active = int(np.searchsorted(-steps, -step, side="left"))
        if active <= _FEW:
            for k in range(active):
                sums[k] = _digest_alone(
                    int(sums[k]), padded[starts[k] + step * _WORD : starts[k] + lengths[k]].tobytes()
                )
            break
        word = view[starts[:active] + step * _WORD]
        left = lengths[:active] - step * _WORD
        short = left < _WORD
        if short.any():
            bits = np.where(short, left * 8, 0).astype(np.uint64)
            word = np.where(short, word & ((np.uint64(1) << bits) - np.uint64(1)), word)
        head = sums[:active]
        head ^= word
        head *= _FIRST
        head ^= head >> _HALF
    digests = np.empty_like(sums)
    digests[order] = sums
    return digests


def _digest_alone(total: int, data: bytes) -> int:
    for start in range(0, len(data), _WORD):
        word = int.from_bytes(data[start : start + _WORD], "little")
        total = (total ^ word) * int(_FIRST) & _ALL
        total ^= total >> 32
    return total


def _equal_bytes(left: BytesColumn, left_rows: Rows, right: BytesColumn, right_rows: Rows) -> Mask:
    library = loops()
    if library is None:
        return np.asarray(pc.equal(_array(left).take(pa.array(left_rows)), _array(right).take(pa.array(right_rows))))
    equal = np.empty(len(left_rows), np.bool_)
    left_rows, right_rows = np.ascontiguousarray(left_rows, np.int64), np.ascontiguousarray(right_rows, np.int64)
    library.holdfast_equal_bytes(
        *(address(array) for array in (left.bounds, left.bytes, left_rows, right.bounds, right.bytes, right_rows)),
        len(left_rows),
        address(equal),
    )
    return equal


def _array(column: BytesColumn) -> pa.Array:
    """Return the values as an Arrow array without nulls: where one was, the bytes below it count as a value."""
    buffers = [None, pa.py_buffer(column.bounds), pa.py_buffer(column.bytes)]
    return pa.Array.from_buffers(pa.large_binary(), len(column.bounds) - 1, buffers)
