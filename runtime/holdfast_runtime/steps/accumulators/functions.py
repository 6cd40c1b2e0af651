"""The accumulator of each aggregate function."""

from collections.abc import Mapping, Sequence

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


def accumulator_for(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
    """Return the accumulator of a call whose arguments are of these types."""
    return MAKERS[DISTINCT if call.function == "count" and call.distinct else call.function](call, types)
