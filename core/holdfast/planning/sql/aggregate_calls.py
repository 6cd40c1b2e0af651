"""The aggregate calls in a tree: which functions can be merged, and what one call asks for, read once for all.

The planner refuses what can't be read here, and the step is split by the same reading, so that both mean the same. A
function needs a merging form since a task keeps partial results, not rows. Must not resolve names or know types.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from holdfast.planning.problems import ExpressionError, SqlFinding, excerpt
from holdfast.planning.sql import functions
from holdfast.reasons import Reason

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "any_value": (),
    "approx_count_distinct": (),
    "avg": ("mean",),
    "bool_and": ("every",),
    "bool_or": ("some", "any"),
    "collect_list": ("array_agg",),
    "collect_set": (),
    "count": (),
    "count_if": (),
    "first": ("first_value",),
    "last": ("last_value",),
    "max": (),
    "max_by": (),
    "min": (),
    "min_by": (),
    "stddev_pop": (),
    "stddev_samp": ("stddev", "std"),
    "sum": (),
    "try_avg": (),
    "try_sum": (),
    "var_pop": (),
    "var_samp": ("variance",),
}
"""The aggregate functions that can be merged -> their other names."""

CANONICAL = {name: first for first, aliases in FUNCTIONS.items() for name in (first, *aliases)}
"""Name of a function -> its key in `FUNCTIONS`."""

OF_TWO = ("max_by", "min_by")
COLLECTING = ("collect_list", "collect_set")
"""Functions that keep values, as does count(DISTINCT ...)."""
MOST_VALUES = 10_000
"""Most values that one call keeps of a key, or of a key in a window; more stop the app."""
PASSING_NULLS = ("any_value", "first", "last")
"""Functions that may pass over nulls; all others leave nulls out anyway."""
COUNTING_ONCE = "count"
"""The function for which DISTINCT counts each value once."""
ALIKE_DISTINCT = frozenset(
    {"any_value", "approx_count_distinct", "bool_and", "bool_or", "collect_set", "max", "max_by", "min", "min_by"}
)
"""Functions with one result whether or not values repeat."""
DISTINCT_CURES = {
    "collect_list": "write collect_set instead",
    "count_if": "write count(DISTINCT x) FILTER (WHERE ...) to count the values under a condition",
}
REMOVE_BEFORE = "remove repeated values before, with a deduplicate step"

LEAST_ERROR, MOST_ERROR, USUAL_ERROR = 0.0025, 0.39, 0.05
"""Relative standard deviations that may be asked for; Spark refuses more than 39 %."""
MOST_DIGITS = 20

WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)
"""What may stand around a call and belongs to it."""


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """One aggregate call as the user wrote it."""

    function: str
    """A key of `FUNCTIONS`."""
    arguments: tuple[exp.Expr, ...]
    """What it is computed from, without flags, and without what a count does not look at."""
    condition: exp.Expr | None
    distinct: bool
    ignore_nulls: bool
    error: float | None


def aggregate_calls(root: exp.Expr) -> Iterator[exp.Anonymous]:
    """Return the aggregate calls of a tree, in the order of the text; not those inside of others."""
    todo = [root]
    while todo:
        node = todo.pop()
        if isinstance(node, exp.Anonymous) and functions.kinds().get(node.name.lower()) == functions.AGGREGATE:
            yield node
        else:
            todo.extend(reversed(list(node.iter_expressions())))


def whole_call(call: exp.Anonymous) -> exp.Expr:
    """Return the call with the clauses behind its brackets."""
    node: exp.Expr = call
    while isinstance(node.parent, WRAPPERS) and node.arg_key == "this":
        node = node.parent
    return node


def read_call(call: exp.Anonymous) -> WrittenCall:
    """Return what a call asks for; raise `ExpressionError` with the cure if Holdfast can't compute it."""
    written = call.name.lower()
    name = CANONICAL.get(written)
    if name is None:
        _refuse(f"{written} is none of the aggregates that a step can merge; {functions.NOT_MERGEABLE[written]}")
    if call.find_ancestor(exp.Lambda):
        _refuse(f"{written} stands in a function for each element; compute it as an item, and use it in a step behind")
    arguments, distinct = _arguments(call, written)
    condition, ignore_nulls = _clauses(call, written)
    error: float | None = None
    if name in PASSING_NULLS and len(arguments) == 2:  # noqa: PLR2004 - the value and the flag
        ignore_nulls = _flag(written, arguments.pop()) or ignore_nulls
    elif name == "approx_count_distinct" and len(arguments) == 2:  # noqa: PLR2004 - the value and the error
        error = _error(written, arguments.pop())
    if name == COUNTING_ONCE and not distinct:
        _count_takes(arguments)
        arguments = [argument for argument in arguments if not _never_null(argument)]
    else:
        _check_number(name, written, arguments)
    if distinct and name not in (*ALIKE_DISTINCT, COUNTING_ONCE):
        _refuse(f"{written}(DISTINCT ...) is none of the aggregates that a step can merge; {_distinct_cure(name)}")
    return WrittenCall(
        name, tuple(arguments), condition, distinct=distinct and name == COUNTING_ONCE, ignore_nulls=ignore_nulls,
        error=error,
    )  # fmt: skip


def _refuse(message: str) -> NoReturn:
    raise ExpressionError(SqlFinding(Reason.AGGREGATE_NOT_MERGEABLE, message))


def _wrong(message: str) -> NoReturn:
    raise ExpressionError(SqlFinding(Reason.INVALID_EXPRESSION, message))


def _distinct_cure(name: str) -> str:
    return DISTINCT_CURES.get(name, REMOVE_BEFORE)


def _arguments(call: exp.Anonymous, written: str) -> tuple[list[exp.Expr], bool]:
    """The arguments without brackets around them, and whether they are DISTINCT."""
    arguments: list[exp.Expr] = []
    distinct = False
    for argument in call.expressions:
        if isinstance(argument, exp.Distinct):
            distinct = True
            arguments += argument.expressions
        else:
            arguments.append(argument)
    for argument in arguments:
        if isinstance(argument, exp.Order):
            _refuse(
                f"{written}(... ORDER BY ...) needs all rows at once; write "
                f"array_sort(collect_list(struct(order, value))), or use max_by or min_by for one of them"
            )
        if isinstance(argument, exp.IgnoreNulls | exp.RespectNulls):
            _wrong(f"{written}: IGNORE NULLS and RESPECT NULLS stand behind the brackets, as in first(x) IGNORE NULLS")
    return [argument.unnest() for argument in arguments], distinct


def _clauses(call: exp.Anonymous, written: str) -> tuple[exp.Expr | None, bool]:
    """The condition of FILTER, and whether nulls are passed over."""
    condition: exp.Expr | None = None
    ignore_nulls = False
    node: exp.Expr = call
    whole = whole_call(call)
    while node is not whole:
        node = node.parent or whole
        match node:
            case exp.Filter():
                condition = node.expression.this.unnest()
            case exp.WithinGroup():
                _refuse(
                    f"{written} WITHIN GROUP needs all rows at once; leave it out, or sort a collect_list by array_sort"
                )
            case _:
                if CANONICAL[written] not in PASSING_NULLS:
                    _wrong(f"{written} takes no IGNORE NULLS or RESPECT NULLS; leave it out")
                ignore_nulls = isinstance(node, exp.IgnoreNulls)
    return condition, ignore_nulls


def _flag(written: str, argument: exp.Expr) -> bool:
    if not isinstance(argument, exp.Boolean):
        _wrong(
            f"the second argument of {written} says whether nulls are passed over, as true or false, "
            f"not {excerpt(argument.sql('spark'))}"
        )
    return bool(argument.this)


def _error(written: str, argument: exp.Expr) -> float | None:
    text = str(argument.this) if isinstance(argument, exp.Literal) and not argument.is_string else ""
    if isinstance(argument, exp.Cast | exp.TryCast) and isinstance(argument.this, exp.Literal):
        text = str(argument.this.this)  # 0.02D
    try:
        error = float(text) if len(text) <= MOST_DIGITS else 0.0
    except ValueError:
        error = 0.0
    if not LEAST_ERROR <= error <= MOST_ERROR:
        _wrong(
            f"the second argument of {written} is the relative error, a number from {LEAST_ERROR} to {MOST_ERROR} as "
            f"in {written}(x, 0.02), not {excerpt(argument.sql('spark'))}"
        )
    return None if error == USUAL_ERROR else error


def _count_takes(arguments: list[exp.Expr]) -> None:
    if not arguments:
        _wrong("count needs an argument; write count(*)")
    if len(arguments) > 1 and any(isinstance(argument, exp.Star) for argument in arguments):
        _wrong("count takes * alone; write count(*)")


def _never_null(argument: exp.Expr) -> bool:
    """Whether a count need not look at it."""
    return isinstance(argument, exp.Star | exp.Literal | exp.Boolean)


def _check_number(name: str, written: str, arguments: list[exp.Expr]) -> None:
    most = 2 if name in OF_TWO else len(arguments) if name == COUNTING_ONCE else 1
    if len(arguments) == most > 0:
        return
    if name in OF_TWO and len(arguments) == 3:  # noqa: PLR2004 - a value, an order and a number
        _refuse(f"{written} of several values needs all rows at once; leave the number out, or use a process step")
    takes = "two arguments" if name in OF_TWO else "at least one argument" if name == COUNTING_ONCE else "one argument"
    _wrong(f"{written} takes {takes}, not {len(arguments)}")
