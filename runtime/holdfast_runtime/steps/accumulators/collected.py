"""Functions that keep a group's values: collect_list, collect_set, and count(DISTINCT ...).

What is kept grows with the rows, so a group may have only so many values: one more is an error that names the group, as
a result cut short would look like a right one. Values are equal as in Spark: NaN is NaN, -0.0 is 0.0. Lists are in the
order in which rows came, whatever merges did.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast.planning.aggregation import AggregateCall
from holdfast.planning.sql.aggregate_calls import MOST_VALUES
from holdfast_runtime.columns.grouping import group_rows
from holdfast_runtime.columns.key_columns import Mask, Rows
from holdfast_runtime.columns.sorted_hashes import spans
from holdfast_runtime.steps.accumulators.accumulator import (
    Accumulator,
    AggregateResult,
    Maker,
    RowGroups,
    TooManyValuesError,
)
from holdfast_runtime.steps.accumulators.member_rows import MemberRows, valid_rows
from holdfast_runtime.steps.accumulators.ordering import check_comparable
from holdfast_runtime.steps.accumulators.value_keys import element_numbers, value_keys


@dataclass(frozen=True, slots=True)
class CollectedValues:
    """The values of a group, as a list; with several arguments, as a list of structs."""

    types: tuple[pa.DataType, ...]
    distinct: bool
    counts: bool = False
    """Whether the result is how many there are."""
    most: int = MOST_VALUES

    @property
    def kept(self) -> tuple[pa.DataType, ...]:
        """A list of the values."""
        value = self.types[0] if len(self.types) == 1 else pa.struct(_named(self.types))
        return (pa.list_(pa.field("element", value)),)

    @property
    def result(self) -> pa.DataType:
        """The list, or BIGINT."""
        return pa.int64() if self.counts else self.kept[0]

    def gather(self, arguments: Sequence[pa.Array], counted: Mask | None, groups: RowGroups) -> list[pa.Array]:
        """Return the values of each group; one with a null in it is none."""
        members = MemberRows.of(groups, counted, valid_rows(arguments))
        if len(arguments) == 1:
            return [self._collected(arguments[0], members, len(groups.starts))]
        values = pa.StructArray.from_arrays(list(arguments), fields=_named(self.types))
        return [self._collected(values, members, len(groups.starts))]

    def merge(self, partials: Sequence[pa.Array], groups: RowGroups) -> list[pa.Array]:
        """Return the values of all lists of each group."""
        (lists,) = partials
        bounds = np.asarray(lists.offsets).astype(np.int64)
        members = MemberRows.of(groups)
        starts, lengths = bounds[members.rows], np.diff(bounds)[members.rows]
        inside = MemberRows(spans(starts, lengths), np.repeat(members.groups, lengths))
        return [self._collected(lists.values, inside, len(groups.starts))]

    def finish(self, partials: Sequence[pa.Array]) -> AggregateResult:
        """Return the lists, or how long they are."""
        (lists,) = partials
        return AggregateResult(pa.array(np.diff(np.asarray(lists.offsets)), pa.int64()) if self.counts else lists)

    def _collected(self, column: pa.Array, members: MemberRows, groups: int) -> pa.Array:
        values = column.take(pa.array(members.rows))
        if self.distinct:
            indices = _first_of_each(values, members.groups)
            values, members = values.take(pa.array(indices)), members.at(indices)
        counts = members.counts(groups)
        if len(counts) and counts.max() > self.most:
            raise TooManyValuesError(int(np.argmax(counts > self.most)), self.most)
        bounds = pa.array(np.append(0, np.cumsum(counts)), pa.int32())
        return pa.ListArray.from_arrays(bounds, values, type=self.kept[0])


def _first_of_each(values: pa.Array, groups: Rows) -> Rows:
    """Return the indices where a value is the first of its kind in its group, ascending."""
    keys = value_keys([pa.array(groups), values], len(values), element_numbers)
    grouped = group_rows(keys, keys.hashes())
    return np.sort(grouped.order[grouped.starts])


def _named(types: Sequence[pa.DataType]) -> list[pa.Field]:
    return [pa.field(str(index), kind) for index, kind in enumerate(types)]


def _maker(*, distinct: bool, counts: bool = False) -> Maker:
    def make(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
        once = distinct or call.distinct
        for column, kind in zip(call.arguments, types, strict=True):
            if once:
                check_comparable(kind, call.function, column)
        return CollectedValues(tuple(types), once, counts)

    return make


MAKERS: Mapping[str, Maker] = {
    "collect_list": _maker(distinct=False),
    "collect_set": _maker(distinct=True),
    "count distinct": _maker(distinct=True, counts=True),
}
