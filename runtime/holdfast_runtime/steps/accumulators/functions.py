"""The accumulator of each aggregate function."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.steps.accumulators import approximate, central_moments, choice, collected, counts, sums
from holdfast_runtime.steps.accumulators.accumulator import Accumulator, Maker

MAKERS: Mapping[str, Maker] = {
    **approximate.MAKERS,
    **choice.MAKERS,
    **collected.MAKERS,
    **counts.MAKERS,
    **central_moments.MAKERS,
    **sums.MAKERS,
}
"""Function -> what makes its accumulator."""
DISTINCT = "count distinct"
"""A function of its own: it keeps values."""

_KEPT_AS: Mapping[str, str] = {
    **dict.fromkeys(sums.MAKERS, "sum"),
    **dict.fromkeys(central_moments.MAKERS, "variance"),
    "any_value": "first",
}
"""Function -> another one that keeps the same; not those that keep what no other does."""


def accumulator_for(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
    """Return the accumulator of a call whose arguments are of these types."""
    return MAKERS[DISTINCT if call.function == "count" and call.distinct else call.function](call, types)


def kept_columns(call: AggregateCall, count: int) -> list[Hashable]:
    """Return what each of the `count` columns is that a call keeps: the same of two calls is kept once."""
    alike = replace(call, function=_KEPT_AS.get(call.function, call.function))
    columns: list[Hashable] = [(alike, part) for part in range(count)]
    if (largest := choice.EXTREMES.get(call.function)) is not None:
        columns[-1] = (largest, call.arguments[-1], call.condition)
    return columns
