"""Functions that choose a row of each group and keep values of it: min, max, min_by, max_by, first, last, any_value.

Which row is chosen depends on the order in which rows came, never on how they were cut into batches: among equal ones
it is the first. Spark leaves ties of `min_by` and the choice of `any_value` open. `take` copies values of any type, so
nothing here may know what it keeps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.columns.key_columns import Mask
from holdfast_runtime.steps.accumulators.accumulator import Accumulator, AggregateResult, ChosenRows, Maker, RowGroups
from holdfast_runtime.steps.accumulators.member_rows import MemberRows, valid_rows
from holdfast_runtime.steps.accumulators.ordering import check_comparable, extreme_rows


@dataclass(frozen=True, slots=True)
class Extreme:
    """The smallest or largest value, or what stands in the row of it; a null never is one."""

    kept: tuple[pa.DataType, ...]
    """The type of the value that is compared; before it that of the one that is asked for, if it is another."""
    largest: bool

    @property
    def result(self) -> pa.DataType:
        """The type of the result."""
        return self.kept[0]

    def gather(self, arguments: Sequence[pa.Array], counted: Mask | None, groups: RowGroups) -> list[pa.Array]:
        """Return the values of the chosen row of each group."""
        chosen = self._chosen(arguments[-1], counted, groups)
        return [*(column.take(chosen.rows) for column in arguments[:-1]), chosen.values]

    def merge(self, partials: Sequence[pa.Array], groups: RowGroups) -> list[pa.Array]:
        """Return the values of the row that is chosen of those that were."""
        return self.gather(partials, None, groups)

    def finish(self, partials: Sequence[pa.Array]) -> AggregateResult:
        """Return the values asked for."""
        return AggregateResult(partials[0])

    def _chosen(self, compared: pa.Array, counted: Mask | None, groups: RowGroups) -> ChosenRows:
        for earlier in groups.chosen:
            if earlier.is_of(compared, counted, largest=self.largest):
                return earlier
        rivals = MemberRows.of(groups, counted, valid_rows([compared]))
        rows = _indices(extreme_rows(compared, rivals, largest=self.largest), len(groups.starts))
        chosen = ChosenRows(compared, counted, self.largest, rows, compared.take(rows))
        groups.chosen.append(chosen)
        return chosen


@dataclass(frozen=True, slots=True)
class EndOfRows:
    """The value of the first or the last row; a null is a value unless it is passed over."""

    result: pa.DataType
    last: bool
    ignore_nulls: bool

    @property
    def kept(self) -> tuple[pa.DataType, ...]:
        """The type of the value, and whether there was a row: a null does not say."""
        return (self.result, pa.bool_())

    def gather(self, arguments: Sequence[pa.Array], counted: Mask | None, groups: RowGroups) -> list[pa.Array]:
        """Return the value of the chosen row of each group."""
        (column,) = arguments
        valid = valid_rows([column]) if self.ignore_nulls else None
        return self._chosen(column, MemberRows.of(groups, counted, valid), len(groups.starts))

    def merge(self, partials: Sequence[pa.Array], groups: RowGroups) -> list[pa.Array]:
        """Return the value of the row that is chosen of those that were."""
        column, present = partials
        return self._chosen(column, MemberRows.of(groups, np.asarray(present)), len(groups.starts))

    def finish(self, partials: Sequence[pa.Array]) -> AggregateResult:
        """Return the values."""
        return AggregateResult(partials[0])

    def _chosen(self, column: pa.Array, members: MemberRows, groups: int) -> list[pa.Array]:
        chosen = members.last() if self.last else members.first()
        present = np.zeros(groups, np.bool_)
        present[chosen.groups] = True
        return [column.take(_indices(chosen, groups)), pa.array(present)]


def _extreme(*, largest: bool) -> Maker:
    def make(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
        check_comparable(types[-1], call.function, call.arguments[-1])
        return Extreme(tuple(types), largest)

    return make


def _end(*, last: bool) -> Maker:
    return lambda call, types: EndOfRows(types[0], last, call.ignore_nulls)


EXTREMES: Mapping[str, bool] = {"min": False, "max": True, "min_by": False, "max_by": True}
"""Function -> whether it is the largest that it chooses."""
MAKERS: Mapping[str, Maker] = {
    **{function: _extreme(largest=largest) for function, largest in EXTREMES.items()},
    "first": _end(last=False),
    "last": _end(last=True),
    "any_value": _end(last=False),
}


def _indices(chosen: MemberRows, groups: int) -> pa.Array:
    """Return the row that each of so many groups has; null where it has none."""
    rows, missing = np.zeros(groups, np.int64), np.ones(groups, np.bool_)
    rows[chosen.groups], missing[chosen.groups] = chosen.rows, False
    return pa.array(rows, mask=missing)
