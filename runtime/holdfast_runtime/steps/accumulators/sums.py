"""Sums and averages: sum, try_sum, avg, try_avg, of integers, decimals and floats.

Sums of integers and decimals are kept in words of 32 bits, each in a column of 64, so that no order of merging
overflows; only the result is measured against its type. Sums of floats are added in the order of rows, and depend on it
by rounding, as everywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.columns.key_columns import Mask
from holdfast_runtime.steps.accumulators.accumulator import Accumulator, AggregateResult, Maker, RowGroups
from holdfast_runtime.steps.accumulators.numbers import Numbers, counting, counts_of, numbers, refuse_type, summed

Whole = npt.NDArray[np.int64]
_BITS, _LOW = 32, 2**32 - 1
_SMALL = 2**62
_DIGITS = 38
_INTEGER_WORDS, _DECIMAL_WORDS = 2, 4


class Total(Protocol):
    """A sum as it is kept."""

    @property
    def kept(self) -> tuple[pa.DataType, ...]:
        """The types of its columns."""

    def gather(self, column: pa.Array, counts: Mask | None, groups: RowGroups) -> list[pa.Array]:
        """Return the sum of each group."""

    def merge(self, partials: Sequence[pa.Array], groups: RowGroups) -> list[pa.Array]:
        """Return the sum of the sums of each group."""


@dataclass(frozen=True, slots=True)
class WordTotal:
    """A sum of whole numbers, the lowest word first; the highest has the sign."""

    words: int

    @property
    def kept(self) -> tuple[pa.DataType, ...]:
        """A column for each word."""
        return (pa.int64(),) * self.words

    def gather(self, column: pa.Array, counts: Mask | None, groups: RowGroups) -> list[pa.Array]:
        """Return the sum of each group."""
        if self.words == _DECIMAL_WORDS:
            word_sums = [np.add.reduceat(word, groups.starts) for word in _decimal_words(column, counts, groups)]
            return _carried(word_sums)
        values = numbers(column, counts, groups).astype(np.int64)
        largest = max(-int(values.min()), int(values.max())) if len(values) else 0
        if largest * len(values) < _SMALL:
            total = np.add.reduceat(values, groups.starts)
            return [pa.array(total & _LOW), pa.array(total >> _BITS)]
        return _carried([np.add.reduceat(word, groups.starts) for word in (values & _LOW, values >> _BITS)])

    def merge(self, partials: Sequence[pa.Array], groups: RowGroups) -> list[pa.Array]:
        """Return the sum of the sums of each group."""
        return _carried([summed(word, groups) for word in partials])


@dataclass(frozen=True, slots=True)
class FloatTotal:
    """A sum of floats."""

    @property
    def kept(self) -> tuple[pa.DataType, ...]:
        """One column."""
        return (pa.float64(),)

    def gather(self, column: pa.Array, counts: Mask | None, groups: RowGroups) -> list[pa.Array]:
        """Return the sum of each group."""
        values = numbers(column, counts, groups).astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            return [pa.array(np.add.reduceat(values, groups.starts) + 0.0)]  # of -0.0 alone it is 0.0

    def merge(self, partials: Sequence[pa.Array], groups: RowGroups) -> list[pa.Array]:
        """Return the sum of the sums of each group."""
        with np.errstate(invalid="ignore", over="ignore"):
            return [pa.array(summed(partials[0], groups))]


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum with the number of its values, and what becomes of it."""

    total: Total
    result: pa.DataType
    average: bool
    lenient: bool
    """Whether a result that does not fit is null."""
    shift: int = 0
    """How many digits more an average has behind the point."""

    @property
    def kept(self) -> tuple[pa.DataType, ...]:
        """The sum, and the number of values."""
        return (*self.total.kept, pa.int64())

    def gather(self, arguments: Sequence[pa.Array], counted: Mask | None, groups: RowGroups) -> list[pa.Array]:
        """Return sum and number of each group."""
        counts = counting(arguments, counted, groups)
        return [*self.total.gather(arguments[0], counts, groups), pa.array(counts_of(counts, groups))]

    def merge(self, partials: Sequence[pa.Array], groups: RowGroups) -> list[pa.Array]:
        """Return the same of all values of several groups."""
        return [*self.total.merge(partials[:-1], groups), pa.array(summed(partials[-1], groups))]

    def finish(self, partials: Sequence[pa.Array]) -> AggregateResult:
        """Return the results; null where there is no value."""
        value_counts = partials[-1].to_numpy()
        words = [word.to_numpy() for word in partials[:-1]]
        if pt.is_decimal(self.result):
            totals = _decimals(words, value_counts if self.average else None, self)
        elif self.average:
            total = words[0] if len(words) == 1 else words[1] * 2.0**_BITS + words[0]
            with np.errstate(invalid="ignore"):
                totals = _Made(total / np.maximum(value_counts, 1), None)
        elif len(words) == 1:
            totals = _Made(words[0], None)
        else:
            high = words[1]
            fits = (high >= -(2**31)) & (high < 2**31)
            totals = _Made((high << _BITS) | words[0], ~fits)
        return self._result(totals, value_counts)

    def _result(self, totals: "_Made", value_counts: Whole) -> AggregateResult:
        nothing = value_counts == 0
        if totals.beyond is None or not totals.beyond.any():
            return AggregateResult(pa.array(totals.values, self.result, mask=nothing))
        values = pa.array(totals.values, self.result, mask=nothing | totals.beyond)
        if self.lenient:
            return AggregateResult(values)
        most = "BIGINT holds, 9223372036854775807" if pt.is_integer(self.result) else f"{_spark(self.result)} holds"
        return AggregateResult(values, totals.beyond & ~nothing, f"is more than {most}")


@dataclass(frozen=True, slots=True)
class _Made:
    values: npt.NDArray[Any]
    beyond: Mask | None
    """Which do not fit; None: all do."""


def _carried(words: list[Numbers]) -> list[pa.Array]:
    """Return words whose lower ones have 32 bits again."""
    for index in range(len(words) - 1):
        words[index + 1] = words[index + 1] + (words[index] >> _BITS)
        words[index] = words[index] & _LOW
    return [pa.array(word) for word in words]


def _decimal_words(column: pa.Array, counts: Mask | None, groups: RowGroups) -> list[Whole]:
    """Return the words of decimals in the groups' order, the lowest first."""
    span = slice(2 * column.offset, 2 * (column.offset + len(column)))
    halves = np.frombuffer(column.buffers()[1], np.int64)[span].reshape(-1, 2)[groups.order]
    if counts is not None:
        halves = np.where(counts[:, None], halves, 0)
    low, high = halves[:, 0], halves[:, 1]
    return [low & _LOW, (low >> _BITS) & _LOW, high & _LOW, high >> _BITS]


def _decimals(words: list[Whole], value_counts: Whole | None, of: Sum) -> _Made:
    """Return sums as decimals of the result's scale, or averages of `value_counts` values, rounded half up."""
    from decimal import Context, Decimal  # noqa: PLC0415 - few apps have decimals

    total = np.sum([word.astype(object) << (_BITS * index) for index, word in enumerate(words)], axis=0)
    if value_counts is not None:
        divisor = np.maximum(value_counts, 1).astype(object)
        total = np.sign(total) * ((np.abs(total) * 10**of.shift * 2 + divisor) // (divisor * 2))
    beyond = np.asarray(np.abs(total) >= 10**of.result.precision, np.bool_)
    exact = Context(prec=2 * _DIGITS)
    scaled = [
        None if out else exact.scaleb(Decimal(int(unscaled)), -of.result.scale)
        for unscaled, out in zip(total, beyond, strict=True)
    ]
    return _Made(np.array(scaled, object), beyond)


def _spark(kind: pa.DataType) -> str:
    return f"DECIMAL({kind.precision},{kind.scale})" if pt.is_decimal(kind) else str(kind).upper()


def _maker(*, average: bool, lenient: bool) -> Maker:
    def maker(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
        kind = types[0]
        if pt.is_integer(kind):
            return Sum(WordTotal(_INTEGER_WORDS), pa.float64() if average else pa.int64(), average, lenient)
        if pt.is_floating(kind):
            return Sum(FloatTotal(), pa.float64(), average, lenient)
        if pt.is_decimal128(kind):
            more, scale = (4, min(_DIGITS, kind.scale + 4)) if average else (10, kind.scale)
            result = pa.decimal128(min(_DIGITS, kind.precision + more), scale)
            return Sum(WordTotal(_DECIMAL_WORDS), result, average, lenient, scale - kind.scale)
        raise refuse_type(call, kind, "numbers")

    return maker


MAKERS: Mapping[str, Maker] = {
    "sum": _maker(average=False, lenient=False),
    "try_sum": _maker(average=False, lenient=True),
    "avg": _maker(average=True, lenient=False),
    "try_avg": _maker(average=True, lenient=True),
}
"""Function -> what makes its accumulator."""
