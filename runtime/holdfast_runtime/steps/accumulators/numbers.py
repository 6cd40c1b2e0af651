"""Numbers of a column as numpy takes them, group by group: values with a filler for what does not count.

What functions that compute with all values of a group share. Must not know what is computed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from holdfast.errors import UserActionError
from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.columns.key_columns import Mask
from holdfast_runtime.steps.accumulators.accumulator import RowGroups
from holdfast_runtime.steps.accumulators.member_rows import valid_rows

Numbers = npt.NDArray[Any]


def counting(columns: Sequence[pa.Array], counted: Mask | None, groups: RowGroups) -> Mask | None:
    """Return for each index of the order whether its row counts and has a value in each column; None: all do."""
    mask = valid_rows(columns)
    if counted is not None:
        mask = counted if mask is None else counted & mask
    return None if mask is None else mask[groups.order]


def numbers(column: pa.Array, counts: Mask | None, groups: RowGroups, filler: float = 0) -> Numbers:
    """Return the values in the groups' order; the filler where they don't count."""
    values = column.fill_null(False if pt.is_boolean(column.type) else 0).to_numpy(zero_copy_only=False)
    ordered = values[groups.order]
    return np.asarray(ordered if counts is None else np.where(counts, ordered, ordered.dtype.type(filler)))


def counts_of(counts: Mask | None, groups: RowGroups) -> npt.NDArray[np.int64]:
    """Return how many rows of each group count."""
    if counts is None:
        return groups.sizes
    return np.add.reduceat(counts, groups.starts, dtype=np.int64)


def summed(column: pa.Array, groups: RowGroups) -> Numbers:
    """Return the sum of a kept column for each group; it has no null."""
    return np.asarray(np.add.reduceat(column.to_numpy()[groups.order], groups.starts))


def refuse_type(call: AggregateCall, kind: pa.DataType, takes: str) -> UserActionError:
    """Return the error for an argument of a type that a function does not take."""
    message = (
        f"{call.function}({', '.join(call.arguments)}): a {kind} can't be aggregated so; {call.function} takes {takes}"
    )
    return UserActionError(message, code="AggregateTypeError")
