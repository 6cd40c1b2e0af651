"""Rows with the group that each belongs to, and picking of them: by a mask, by distinct value, the first or last.

What functions that keep values of rows share: rows come as an order and bounds, some don't count, and a group may be
left without any. Must not know what is kept of a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast_runtime.columns.grouping import starts_of
from holdfast_runtime.columns.key_columns import Mask, Rows
from holdfast_runtime.steps.accumulators.accumulator import RowGroups


@dataclass(frozen=True, slots=True)
class MemberRows:
    """Rows group by group, those of a group in the order they came; some groups may have none."""

    rows: Rows
    groups: Rows
    """The group of each row. Ascending."""

    @classmethod
    def of(cls, groups: RowGroups, *masks: Mask | None) -> "MemberRows":
        """Return the rows that all masks leave; a mask is in row order, None leaves all."""
        members = cls(groups.order, np.repeat(np.arange(len(groups.starts)), groups.sizes))
        for mask in masks:
            if mask is not None:
                members = members.at(mask[members.rows])
        return members

    def at(self, indices: Rows | Mask) -> "MemberRows":
        """Return the rows at these indices; they ascend."""
        return MemberRows(self.rows[indices], self.groups[indices])

    def first(self) -> "MemberRows":
        """Return the first row of each group that has one."""
        return self.at(starts_of(self.groups))

    def last(self) -> "MemberRows":
        """Return the last row of each group that has one."""
        return self.at(np.append(starts_of(self.groups)[1:], len(self.groups))[: len(self.groups)] - 1)

    def counts(self, groups: int) -> Rows:
        """Return how many rows each of so many groups has."""
        return np.bincount(self.groups, minlength=groups).astype(np.int64)


def valid_rows(columns: Sequence[pa.Array]) -> Mask | None:
    """Return which rows have a null in none of the columns; None: all."""
    mask: Mask | None = None
    for column in columns:
        if column.null_count:
            valid = np.asarray(column.is_valid())
            mask = valid if mask is None else mask & valid
    return mask
