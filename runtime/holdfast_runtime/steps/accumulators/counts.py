"""Functions that count rows or look at booleans: count, count_if, bool_and, bool_or."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.columns.key_columns import Mask
from holdfast_runtime.steps.accumulators.accumulator import Accumulator, AggregateResult, Maker, RowGroups
from holdfast_runtime.steps.accumulators.numbers import counting, counts_of, numbers, refuse_type, summed


@dataclass(frozen=True, slots=True)
class RowCount:
    """The number of rows without a null in the arguments; with `true`, of those where the argument is true."""

    true: bool = False

    @property
    def kept(self) -> tuple[pa.DataType, ...]:
        """The number."""
        return (pa.int64(),)

    @property
    def result(self) -> pa.DataType:
        """BIGINT."""
        return pa.int64()

    def gather(self, arguments: Sequence[pa.Array], counted: Mask | None, groups: RowGroups) -> list[pa.Array]:
        """Return the number of rows of each group."""
        counts = counting(arguments, counted, groups)
        if self.true:
            counts = numbers(arguments[0], counts, groups).astype(np.bool_)
        return [pa.array(counts_of(counts, groups))]

    def merge(self, partials: Sequence[pa.Array], groups: RowGroups) -> list[pa.Array]:
        """Return the sum of the numbers."""
        return [pa.array(summed(partials[0], groups))]

    def finish(self, partials: Sequence[pa.Array]) -> AggregateResult:
        """Return the number."""
        return AggregateResult(partials[0])


@dataclass(frozen=True, slots=True)
class BooleanFold:
    """Whether all values are true, or any; null where there is none."""

    every: bool

    @property
    def kept(self) -> tuple[pa.DataType, ...]:
        """The result so far."""
        return (pa.bool_(),)

    @property
    def result(self) -> pa.DataType:
        """BOOLEAN."""
        return pa.bool_()

    def gather(self, arguments: Sequence[pa.Array], counted: Mask | None, groups: RowGroups) -> list[pa.Array]:
        """Return what the values of each group come to."""
        counts = counting(arguments, counted, groups)
        values = numbers(arguments[0], counts, groups, filler=self.every)
        folded = (np.logical_and if self.every else np.logical_or).reduceat(values, groups.starts)
        return [pa.array(folded, mask=counts_of(counts, groups) == 0)]

    def merge(self, partials: Sequence[pa.Array], groups: RowGroups) -> list[pa.Array]:
        """Return the same of what groups came to."""
        return self.gather(partials, None, groups)

    def finish(self, partials: Sequence[pa.Array]) -> AggregateResult:
        """Return the result."""
        return AggregateResult(partials[0])


def _of_booleans(accumulator: Accumulator) -> Maker:
    def maker(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
        if not pt.is_boolean(types[0]):
            raise refuse_type(call, types[0], "BOOLEAN")
        return accumulator

    return maker


MAKERS: Mapping[str, Maker] = {
    "count": lambda _, __: RowCount(),
    "count_if": _of_booleans(RowCount(true=True)),
    "bool_and": _of_booleans(BooleanFold(every=True)),
    "bool_or": _of_booleans(BooleanFold(every=False)),
}
"""Function -> what makes its accumulator."""
