"""What every aggregate function gives: columns to keep for a group, the same from several of them, and the result.

What is kept is exact under any cut: rows in one batch or in ten, merged in any nesting, give the same result (sums of
floats up to rounding). So it is kept wide: a sum can't overflow while it is merged, and whether its result fits is
found out when it is finished. Must not know keys, windows or stores.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.columns.key_columns import Mask, Rows


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Which rows belong together."""

    order: Rows
    """The rows, group by group; rows of one group in the order they came."""
    starts: Rows
    """Where each group begins in `order`. Ascending, the first is 0; no group is empty."""
    chosen: "list[ChosenRows]" = field(default_factory=list, compare=False)
    """Choices that calls have made of these rows: who chooses alike takes the same."""

    @property
    def sizes(self) -> Rows:
        """How many rows each group has."""
        return np.diff(self.starts, append=len(self.order)).astype(np.int64, copy=False)


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """The row of each group with the smallest value of a column, or the largest one."""

    compared: pa.Array
    counted: Mask | None
    """The rows that count; None: all."""
    largest: bool
    rows: pa.Array
    """The row of each group; null where none counts."""
    values: pa.Array
    """What is compared, in that row."""

    def is_of(self, compared: pa.Array, counted: Mask | None, *, largest: bool) -> bool:
        """Whether this is the choice by these values."""
        if self.counted is None or counted is None:
            alike = self.counted is counted
        else:
            alike = np.array_equal(self.counted, counted)
        return alike and self.largest is largest and self.compared.equals(compared)


@dataclass(frozen=True, slots=True)
class AggregateResult:
    """The result of each group."""

    values: pa.Array
    failed: Mask | None = None
    """Groups without a result, such as a sum that overflows; None: all have one. Their values are null."""
    why: str = ""
    """What is wrong with those, as in `is more than BIGINT holds`."""


class TooManyValuesError(Exception):
    """A group has more values than a function keeps. Private to the step, which names the key."""

    def __init__(self, group: int, most: int) -> None:
        super().__init__(f"group {group} has more than {most} values")
        self.group, self.most = group, most


class Accumulator(Protocol):
    """One aggregate call over arguments of known types."""

    @property
    def kept(self) -> tuple[pa.DataType, ...]:
        """The types of the columns of a partial."""

    @property
    def result(self) -> pa.DataType:
        """The type of the result, as Spark has it."""

    def gather(self, arguments: Sequence[pa.Array], counted: Mask | None, groups: RowGroups) -> list[pa.Array]:
        """Return a partial for each group of rows, as columns of `kept`; `counted`: the rows that count, None: all."""

    def merge(self, partials: Sequence[pa.Array], groups: RowGroups) -> list[pa.Array]:
        """Return one partial for each group of partials, those of a group in the order in which they came."""

    def finish(self, partials: Sequence[pa.Array]) -> AggregateResult:
        """Return the result of each partial."""


Maker = Callable[[AggregateCall, Sequence[pa.DataType]], Accumulator]
"""Makes the accumulator of a call whose arguments are of these types."""
