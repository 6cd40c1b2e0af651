"""The order of a column's values as Spark has it, in parts that numpy compares, and the extreme row of each group.

NaN is the largest number and -0.0 equals 0.0; texts go by their bytes; structs field by field and arrays element by
element, with nulls lowest. pyarrow's own order differs in the first, and has none of structs. To rank all rows
would cost more than the answer, so rows compete: after each part only those level with the best of their group go on,
and of a text only as many bytes are read as it takes. Values of different arrays must not be compared: ranks of
elements hold within one.
"""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from holdfast.errors import UserActionError
from holdfast_runtime.columns.grouping import starts_of
from holdfast_runtime.columns.key_columns import Rows
from holdfast_runtime.columns.sorted_hashes import spans
from holdfast_runtime.steps.accumulators.member_rows import MemberRows

Ranks = npt.NDArray[Any]
"""Integers; a smaller one comes first."""

_WORD, _READ = 8, 7
"""Of a word seven bytes are the value's; the last counts how many are, so that a prefix comes first."""
_WORDS = 16
"""After so many words of level texts the rest is ranked at once: a megabyte would take 150 000 rounds."""
_HEADS = np.array([2**64 - 2 ** (8 * (_WORD - many)) for many in range(_READ + 1)], np.uint64)
"""The bits of a word of which so many bytes are the value's."""
_SHORT_DIGITS = 18
"""Decimals of so many digits are whole in 64 bits."""
_TEXTS = (pt.is_string, pt.is_binary, pt.is_large_string, pt.is_large_binary)
_WHOLE = (pt.is_boolean, pt.is_integer, pt.is_date, pt.is_timestamp, pt.is_time, pt.is_duration, pt.is_null)


@dataclass(frozen=True, slots=True)
class WordsPart:
    """Values that compare as integers."""

    words: Ranks

    def ranks(self, rows: Rows, turn: int) -> Ranks | None:
        """Return ranks of `rows`, all level in the turns before, by what this turn reads; None: nothing is left."""
        return self.words[rows] if turn == 0 else None

    def all_ranks(self) -> Ranks:
        """Return the ranks of all values by all of their content."""
        return self.words


@dataclass(frozen=True, slots=True)
class BytesPart:
    """Values that compare by their bytes, a prefix before what it begins."""

    starts: Rows
    ends: Rows
    bytes: npt.NDArray[np.uint8]
    """The bytes of all values, and a word behind them, so that the last bytes of a value can be read as a word."""

    def ranks(self, rows: Rows, turn: int) -> Ranks | None:
        """Return ranks of `rows`, all level in the turns before, by what this turn reads; None: nothing is left."""
        starts, ends = self.starts[rows] + turn * _READ, self.ends[rows]
        left = np.clip(ends - starts, 0, _READ)
        if turn > _WORDS or not left.any():
            return None
        if turn == _WORDS:
            return self._ranked(np.minimum(starts, ends), ends)
        words = np.ndarray((len(self.bytes) - _WORD + 1,), ">u8", self.bytes.data, 0, (1,))
        read = words[np.minimum(starts, ends)].astype(np.uint64)
        ranks: Ranks = read & _HEADS[left] | left.astype(np.uint64)
        return ranks

    def all_ranks(self) -> Ranks:
        """Return the ranks of all values by all of their content."""
        return self._ranked(self.starts, self.ends)

    def _ranked(self, starts: Rows, ends: Rows) -> Ranks:
        lengths = ends - starts
        bounds, content = np.append(0, np.cumsum(lengths)), self.bytes[spans(starts, lengths)]
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(content)]
        values = pa.Array.from_buffers(pa.large_binary(), len(starts), buffers)
        return np.asarray(pc.rank(values, tiebreaker="dense"))


Part = WordsPart | BytesPart


def check_comparable(kind: pa.DataType, function: str, column: str) -> None:
    """Raise an error if the column is of a type whose values have no order."""
    if not _has_order(kind):
        message = (
            f"{function} can't compare column {column}, which is of type {kind}; choose texts, bytes, numbers, dates, "
            "times, or structs and arrays of them"
        )
        raise UserActionError(message, code="AggregateTypeError")


def extreme_rows(column: pa.Array, members: MemberRows, *, largest: bool) -> MemberRows:
    """Return for each group the first of its members that has its smallest value in `column` (or its largest).

    The values of members are not null.
    """
    starts = starts_of(members.groups)
    extremes = members.at(starts)
    index = np.zeros(extremes.groups[-1] + 1 if len(starts) else 0, np.int64)
    index[extremes.groups] = np.arange(len(starts))
    members, starts = _undecided(members, starts)
    for part in _parts(column) if len(starts) else ():
        turn = 0
        while len(starts) and (ranks := part.ranks(members.rows, turn)) is not None:
            best = (np.maximum if largest else np.minimum).reduceat(ranks, starts)
            leading = ranks == np.repeat(best, np.diff(starts, append=len(ranks)))
            members = members.at(np.flatnonzero(leading))
            starts = starts_of(members.groups)
            extremes.rows[index[members.groups[starts]]] = members.rows[starts]
            members, starts = _undecided(members, starts)
            turn += 1
    return extremes


def _undecided(members: MemberRows, starts: Rows) -> tuple[MemberRows, Rows]:
    """Return the groups that have several members, and where each of them starts."""
    sizes = np.diff(starts, append=len(members.rows))
    members = members.at(np.repeat(sizes > 1, sizes))
    return members, starts_of(members.groups)


def _has_order(kind: pa.DataType) -> bool:
    if pt.is_struct(kind):
        return all(_has_order(field.type) for field in kind)
    if pt.is_list(kind):
        return _has_order(kind.value_type)
    return any(belongs(kind) for belongs in (*_TEXTS, *_WHOLE, pt.is_floating, pt.is_decimal128))


def _parts(column: pa.Array) -> list[Part]:
    """Return the parts by which the values of a column compare, the most significant first.

    A null of the column itself is level with some value; callers never compare it.
    """
    kind = column.type
    if pt.is_struct(kind):
        return [part for field in column.flatten() for part in _nullable_parts(field)]
    if pt.is_list(kind):
        return [_list_part(column)]
    if any(belongs(kind) for belongs in _TEXTS):
        return [_text_part(column)]
    if pt.is_decimal128(kind):
        return _decimal_parts(column)
    return [WordsPart(_float_ranks(column) if pt.is_floating(kind) else _whole(column))]


def _nullable_parts(column: pa.Array) -> list[Part]:
    if not column.null_count:
        return _parts(column)
    return [WordsPart(np.asarray(column.is_valid()).astype(np.int64)), *_parts(column)]


def _decimal_parts(column: pa.Array) -> list[Part]:
    halves = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset : 2 * (column.offset + len(column))]
    if column.null_count:
        halves = np.where(np.repeat(np.asarray(column.is_valid()), 2), halves, np.uint64(0))
    low, high = halves[::2], halves[1::2]
    if column.type.precision <= _SHORT_DIGITS:
        return [WordsPart(low.view(np.int64))]
    return [WordsPart(high.view(np.int64)), WordsPart(low)]


def _float_ranks(column: pa.Array) -> Ranks:
    """Return integers in the order of the floats: their bits, with all but the sign flipped where it is negative."""
    values = np.array(column.cast(pa.float64()).fill_null(0.0))
    values += 0.0  # -0.0 becomes 0.0
    values[np.isnan(values)] = np.nan
    bits = values.view(np.int64)
    return bits ^ (bits >> 63 & np.int64(2**63 - 1))


def _whole(column: pa.Array) -> Ranks:
    kind = column.type
    if pt.is_null(kind):
        return np.zeros(len(column), np.int64)
    if not (pt.is_boolean(kind) or pt.is_integer(kind)):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())  # noqa: PLR2004 - bits
    if column.null_count:
        column = column.fill_null(False if pt.is_boolean(kind) else 0)
    return np.asarray(column).astype(np.int64, copy=False)


def _text_part(column: pa.Array) -> BytesPart:
    wide = column.cast(pa.large_binary())
    if wide.null_count == len(wide):
        nowhere = np.zeros(len(wide), np.int64)
        return BytesPart(nowhere, nowhere, np.zeros(_WORD, np.uint8))
    _, ends, data = wide.buffers()
    bounds = np.frombuffer(ends, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    # Texts such as URLs begin alike: no turn is spent on what all have.
    extremes = pc.min_max(wide)
    alike = len(os.path.commonprefix([extremes["min"].as_py(), extremes["max"].as_py()]))  # noqa: RUF071 - of bytes, not of paths
    return _bytes_part(column, bounds - bounds[0], content, alike)


def _list_part(column: pa.Array) -> BytesPart:
    """Return arrays as bytes that compare as the arrays do: the rank of each element as a big-endian word."""
    bounds = np.asarray(column.offsets).astype(np.int64)
    elements = column.values[int(bounds[0]) : int(bounds[-1])]
    levels = [part.all_ranks() for part in _nullable_parts(elements)]
    order = np.lexsort(levels[::-1]) if levels else np.arange(len(elements))
    changed = np.zeros(max(len(elements) - 1, 0), np.bool_)
    for level in levels:
        changed |= level[order[1:]] != level[order[:-1]]
    ranks = np.zeros(len(elements), ">u8")
    ranks[order[1:]] = np.cumsum(changed)
    return _bytes_part(column, (bounds - bounds[0]) * _WORD, ranks.view(np.uint8))


def _bytes_part(column: pa.Array, bounds: Rows, content: npt.NDArray[np.uint8], alike: int = 0) -> BytesPart:
    """Return the part of values that are the bytes of `content` between `bounds`, without the first `alike` bytes."""
    starts, ends = bounds[:-1] + alike, bounds[1:]
    if column.null_count:
        starts = np.where(np.asarray(column.is_valid()), starts, ends)  # what is below a null must not decide
    return BytesPart(starts, ends, np.concatenate([content, np.zeros(_WORD, np.uint8)]))
