"""What an `aggregate` step computes, taken apart: aggregate calls over columns, and the expressions before and behind them.

`sum(price * pieces) / count(*) AS mean` becomes two calls, one of them over a column that Spark SQL computes before, and
an expression over both results that it computes behind. Where all arguments are columns and all items are calls,
nothing is left for Spark SQL, and rows don't leave Python. Pure; must not know how a call is computed.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate function over columns."""

    function: str
    """Its name in lower case; of functions with several names the first of `FUNCTIONS`."""
    arguments: tuple[str, ...] = ()
    """Columns of the rows that the step gets. None for `count(*)`."""
    condition: str | None = None
    """A boolean column: only rows where it is true count. None: all rows."""
    distinct: bool = False
    """Whether equal values count once."""
    ignore_nulls: bool = False
    """For `first`, `last`, `any_value`: whether nulls are passed over."""
    error: float | None = None
    """For `approx_count_distinct`: the relative standard deviation that is asked for."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """The three parts of an `aggregate` step."""

    before: tuple[str, ...]
    """Items of a select that makes the columns that calls need; empty if the rows have them all."""
    calls: tuple[AggregateCall, ...]
    results: tuple[str, ...]
    """The column for the result of each call."""
    after: tuple[str, ...]
    """Items of a select over `by`, window bounds and results; empty if these are what comes out."""
