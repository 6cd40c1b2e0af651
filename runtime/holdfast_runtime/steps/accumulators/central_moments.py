"""Functions of central moments: stddev and variance, of samples and of populations.

Kept are the number of values, their mean, and the sum of squares of their distances from it; two of these become one by
the formula of Chan, Golub and LeVeque, which loses no digits where the mean is large and the spread small.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.columns.key_columns import Mask
from holdfast_runtime.steps.accumulators.accumulator import Accumulator, AggregateResult, Maker, RowGroups
from holdfast_runtime.steps.accumulators.numbers import counting, counts_of, numbers, refuse_type, summed

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Variance:
    """A variance, or its root."""

    sample: bool
    """Whether it is divided by one less than the number of values."""
    root: bool

    @property
    def kept(self) -> tuple[pa.DataType, ...]:
        """Number, mean, sum of squares."""
        return (pa.int64(), pa.float64(), pa.float64())

    @property
    def result(self) -> pa.DataType:
        """DOUBLE."""
        return pa.float64()

    def gather(self, arguments: Sequence[pa.Array], counted: Mask | None, groups: RowGroups) -> list[pa.Array]:
        """Return number, mean and sum of squares of each group."""
        counts = counting(arguments, counted, groups)
        values = numbers(arguments[0].cast(pa.float64(), safe=False), counts, groups)
        value_counts = counts_of(counts, groups)
        with np.errstate(invalid="ignore", over="ignore"):
            mean = np.add.reduceat(values, groups.starts) / np.maximum(value_counts, 1)
            distance = values - np.repeat(mean, groups.sizes)
            if counts is not None:
                distance = np.where(counts, distance, 0.0)
            squares = np.add.reduceat(distance * distance, groups.starts)
        return [pa.array(value_counts), pa.array(mean), pa.array(squares)]

    def merge(self, partials: Sequence[pa.Array], groups: RowGroups) -> list[pa.Array]:
        """Return the same of all values of several groups."""
        value_counts, means, squares = (column.to_numpy()[groups.order] for column in partials)
        total = summed(partials[0], groups)
        with np.errstate(invalid="ignore", over="ignore"):
            weighed = np.where(value_counts > 0, value_counts * means, 0.0)
            mean = np.add.reduceat(weighed, groups.starts) / np.maximum(total, 1)
            distance = means - np.repeat(mean, groups.sizes)
            squares = squares + np.where(value_counts > 0, value_counts * distance * distance, 0.0)
            return [pa.array(total), pa.array(mean), pa.array(np.add.reduceat(squares, groups.starts))]

    def finish(self, partials: Sequence[pa.Array]) -> AggregateResult:
        """Return the variance or its root; null where there are too few values."""
        value_counts, _, squares = (column.to_numpy() for column in partials)
        divisor = value_counts - int(self.sample)
        with np.errstate(invalid="ignore", over="ignore"):
            variances: Floats = squares / np.maximum(divisor, 1)
            values = np.sqrt(variances) if self.root else variances
        return AggregateResult(pa.array(values, mask=divisor < 1))


def _maker(sample: bool, root: bool) -> Maker:  # noqa: FBT001
    def maker(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
        if not (pt.is_integer(types[0]) or pt.is_floating(types[0]) or pt.is_decimal(types[0])):
            raise refuse_type(call, types[0], "numbers")
        return Variance(sample, root)

    return maker


MAKERS: Mapping[str, Maker] = {
    "stddev_samp": _maker(sample=True, root=True),
    "stddev_pop": _maker(sample=False, root=True),
    "var_samp": _maker(sample=True, root=False),
    "var_pop": _maker(sample=False, root=False),
}
"""Function -> what makes its accumulator."""
