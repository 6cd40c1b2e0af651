"""Which types the arguments of an aggregate call may have.

Spark would cast texts to numbers, and add up intervals; here the argument says what is meant, and a wrong one is found
before the app runs. Must not refuse an unknown type, nor know how a call is computed.
"""

from collections.abc import Callable, Iterator

from sqlglot import exp

from holdfast.planning.problems import SqlFinding, excerpt
from holdfast.planning.sql.aggregate_calls import WrittenCall
from holdfast.planning.types.spark_types import BOOLEAN, SparkType, is_number
from holdfast.reasons import Reason

Kinds = Callable[[object], SparkType | None]

OF_NUMBERS = frozenset(
    {"avg", "stddev_pop", "stddev_samp", "sum", "try_avg", "try_sum", "var_pop", "var_samp"}
)  # fmt: skip
OF_BOOLEANS = frozenset({"bool_and", "bool_or", "count_if"})
OF_ORDERED = frozenset({"max", "max_by", "min", "min_by"})
"""Functions whose last argument is compared."""
OF_EQUAL = frozenset({"approx_count_distinct", "collect_set"})
"""Functions that ask whether values are equal, as does every DISTINCT."""
WITHOUT_EQUALITY = ("MAP", "VARIANT")
WITHOUT_ORDER = (*WITHOUT_EQUALITY, "INTERVAL")


def argument_findings(call: WrittenCall, written: str, kinds: Kinds) -> Iterator[SqlFinding]:
    """Return what is wrong with the types of a call's arguments."""
    name = call.function
    if call.condition is not None and kinds(call.condition) not in (BOOLEAN, None):
        message = f"FILTER of {written} needs true or false, but {_shown(call.condition, kinds)}; write a comparison"
        yield SqlFinding(Reason.INVALID_EXPRESSION, message)
    for argument in call.arguments:
        kind = kinds(argument)
        if kind is None:
            continue
        shown = _shown(argument, kinds)
        if name in OF_NUMBERS and kind.is_interval:
            message = f"{written} can't add up intervals, and {shown}; take numbers of one unit, as unix_micros gives"
            yield SqlFinding(Reason.AGGREGATE_NOT_MERGEABLE, message)
        elif name in OF_NUMBERS and not is_number(kind):
            message = f"{written} takes numbers, but {shown}; CAST it to a number type"
            yield SqlFinding(Reason.INVALID_EXPRESSION, message)
        elif name in OF_BOOLEANS and kind != BOOLEAN:
            message = f"{written} takes true or false, but {shown}; write a comparison"
            yield SqlFinding(Reason.INVALID_EXPRESSION, message)
        elif (name in OF_EQUAL or call.distinct) and (word := _inside(kind, WITHOUT_EQUALITY)):
            message = f"{written} compares, and {shown}; a {word} has no equality, take to_json of it"
            yield SqlFinding(Reason.INVALID_EXPRESSION, message)
        elif name in OF_ORDERED and argument is call.arguments[-1] and (word := _inside(kind, WITHOUT_ORDER)):
            message = f"{written} compares, and {shown}; a {word} has no order, take a part of it"
            yield SqlFinding(Reason.INVALID_EXPRESSION, message)


def _shown(argument: exp.Expr, kinds: Kinds) -> str:
    return f"{excerpt(argument.sql('spark'))} is {excerpt(str(kinds(argument)))}"


def _inside(kind: SparkType, words: tuple[str, ...]) -> str | None:
    """Which of these types it is or contains."""
    todo = [kind]
    while todo:
        kind = todo.pop()
        if kind.word in words:
            return kind.word
        todo.extend(kind.inner)
    return None
