"""What an `aggregate` step computes, taken apart: calls over columns, and the expressions before and behind them.

`sum(price * pieces) / count(*) AS mean` becomes two calls, one of them over a column that Spark SQL computes before,
and an expression over both results that it computes behind. Where all arguments are columns and all items are calls,
nothing is left for Spark SQL, and rows don't leave Python. Pure; must not know how a call is computed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from sqlglot import exp

from holdfast.planning.sql.aggregate_calls import FUNCTIONS, aggregate_calls, read_call, whole_call
from holdfast.planning.sql.items import named_item, quoted, written
from holdfast.planning.types.spark_types import UNKNOWN, Column, RowType
from holdfast.spec.steps import Aggregate

__all__ = ["FUNCTIONS", "WINDOW_BOUNDS", "AggregateCall", "Aggregation", "split_compute"]

WINDOW_BOUNDS = ("window_start", "window_end")
"""The columns that a window or session adds behind `by`."""


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


def split_compute(verb: Aggregate, columns: Sequence[str], *, carry: bool = False) -> Aggregation:
    """Return the parts of a step over rows with these columns; `carry` keeps all columns in `before`.

    Only for items without findings: raises `ExpressionError` for a call that can't be computed.
    """
    items = [named_item(text) for text in verb.compute]
    rows = RowType(tuple(Column(name, UNKNOWN) for name in columns))
    by = [_exact(rows, name) or name for name in verb.by]
    key_columns = [*by, *(WINDOW_BOUNDS if verb.windowed else ())]
    split = _Splitting(
        rows, _fresh("__a", columns), _fresh("__r", [*columns, *key_columns, *(name for name, _ in items)])
    )
    made = [f"{split.taken_apart(value, name)} AS {quoted(name)}" for name, value in items]
    before: list[str] = []
    if split.computed:
        bare = [*by, *(name for call in split.calls for name in _columns_of(call) if rows.find(name))]
        before = [quoted(name) for name in dict.fromkeys(columns if carry else bare)]
        before += [f"{expression} AS {quoted(name)}" for expression, name in split.computed.items()]
    as_they_are = split.results == [name for name, _ in items]
    after = [] if as_they_are else [*map(quoted, key_columns), *made]
    return Aggregation(tuple(before), tuple(split.calls), tuple(split.results), tuple(after))


def _exact(rows: RowType, name: str) -> str | None:
    column = rows.find(name)
    return None if column is None else column.name


def _columns_of(call: AggregateCall) -> tuple[str, ...]:
    return call.arguments if call.condition is None else (*call.arguments, call.condition)


def _fresh(prefix: str, used_names: Iterable[str]) -> Iterator[str]:
    """Names that nothing has, ignoring case."""
    folded = {name.casefold() for name in used_names}
    return (name for at in count() if (name := f"{prefix}{at}") not in folded)


@dataclass(slots=True)
class _Splitting:
    """The calls found so far, and what they need."""

    rows: RowType
    columns: Iterator[str]
    """Names for columns that are computed before."""
    result_names: Iterator[str]
    """Names for results of calls that are not an item of their own."""
    calls: list[AggregateCall] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    computed: dict[str, str] = field(default_factory=dict)
    """Expression -> the column for it."""

    def taken_apart(self, value: exp.Expr, name: str | None) -> str:
        """Return an item with result columns for its calls; one that is only a call may take the item's name."""
        for call in list(aggregate_calls(value)):
            whole = whole_call(call)
            result = self._result(self._call(call), name if whole is value else None)
            column = exp.column(exp.to_identifier(result, quoted=True))
            if whole is value:
                return quoted(result)
            whole.replace(column)
        return written(value)

    def _call(self, call: exp.Anonymous) -> AggregateCall:
        written_call = read_call(call)
        return AggregateCall(
            written_call.function,
            tuple(self._column(argument) for argument in written_call.arguments),
            None if written_call.condition is None else self._column(written_call.condition),
            distinct=written_call.distinct,
            ignore_nulls=written_call.ignore_nulls,
            error=written_call.error,
        )

    def _result(self, call: AggregateCall, name: str | None) -> str:
        if call not in self.calls:
            self.calls.append(call)
            self.results.append(name or next(self.result_names))
        return self.results[self.calls.index(call)]

    def _column(self, argument: exp.Expr) -> str:
        """The column that holds an argument: itself, or one that is computed before."""
        if isinstance(argument, exp.Column) and len(argument.parts) == 1:
            name = _exact(self.rows, argument.name)
            if name is not None:
                return name
        expression = written(argument)
        if expression not in self.computed:
            self.computed[expression] = next(self.columns)
        return self.computed[expression]
