"""Warnings about state that only grows, and about windows that are cut into very many parts, with figures.

How many keys and rows will come is not known when an app is planned, so the figures are for one key or one window.
Must not refuse anything: whether it fits is for who knows the data.
"""

from collections.abc import Iterator
from math import ceil, gcd, log2

from holdfast.planning.graph import Graph
from holdfast.planning.known_columns import Flow
from holdfast.planning.problems import ExpressionError, Problem, listed
from holdfast.planning.sql.aggregate_calls import (
    COLLECTING,
    MOST_VALUES,
    USUAL_ERROR,
    WrittenCall,
    aggregate_calls,
    read_call,
)
from holdfast.planning.sql.text import parse
from holdfast.planning.types.ddl import parse_type
from holdfast.planning.types.spark_types import SparkType
from holdfast.reasons import Reason
from holdfast.spec.steps import Aggregate, Step
from holdfast.spec.values import millis
from holdfast.times import exact_span

MOST_PANES = 1_000
"""Panes of one window above which a warning says so."""
HASH_AND_TIME = 20
"""Bytes that a key takes beside itself."""
WIDTHS = {
    "BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "FLOAT": 4, "DATE": 4, "BIGINT": 8, "DOUBLE": 8,
    "TIMESTAMP": 8, "TIMESTAMP_NTZ": 8, "DECIMAL": 16,
}  # fmt: skip
"""Bytes of a value. What is not here has a size of its own."""


def kept_for_ever(graph: Graph, flow: Flow) -> Iterator[Problem]:
    """A warning for each step whose state only grows."""
    for name in graph.order:
        step = graph.steps[name]
        message = None
        if step.deduplicate is not None and step.deduplicate.within is None:
            message = (
                f"{name} remembers each {' and '.join(step.deduplicate.by)} for ever, in its own size and about "
                f"{HASH_AND_TIME} bytes; set within, e.g. within: 24h, to forget a key when no duplicate of it can "
                f"come any more"
            )
        # Rows that are not closed have problems, or more SQL than is read.
        elif step.aggregate is not None and _is_for_ever(step.aggregate) and flow.rows[name].closed:
            message = _totals(step, step.aggregate, flow)
        if message is not None:
            yield Problem(Reason.KEPT_FOR_EVER, message, step=name)


def keyed_otherwise(graph: Graph, flow: Flow) -> Iterator[Problem]:
    """A warning for each table whose rows are named by other columns than the records of its side input."""
    for name, table in sorted(graph.tables.items()):
        passes = flow.stored.get(name)
        for source in () if table.versioned else table.sources or ():
            declared = {column.casefold() for column in graph.streams[source].partition_key or ()}
            if passes is None:
                named = {column.casefold() for column in table.key}
            else:
                passed = {out.casefold(): column.casefold() for out, sources in passes.items() for _, column in sources}
                named = {passed.get(column.casefold(), f"computed {column}") for column in table.key}
            if named != declared:
                by = ", ".join(graph.streams[source].partition_key or ()) or "nothing that is declared"
                message = (
                    f"rows of {name} are named by {', '.join(table.key)}, records of {source} by {by}: a record "
                    f"without a value deletes no row, and a record that names another row leaves the former one "
                    f"there. Give both the same key, and look up by that, or let {source} be replaced as a whole "
                    f"(versioned: true)"
                )
                yield Problem(Reason.TABLE_KEY_DIFFERS, message, stream=name)


def _is_for_ever(verb: Aggregate) -> bool:
    return not verb.windowed and verb.updates


def _totals(step: Step, verb: Aggregate, flow: Flow) -> str:
    calls = list(_calls(verb))
    kinds = [parse_type(column.type) for column in flow.rows[step.name].columns[len(verb.by) :]]
    fixed = HASH_AND_TIME + sum(WIDTHS.get(kind.word, 0) for kind in kinds if kind is not None)
    fixed += sum(_sketch(call) for _, call in calls if call.function == "approx_count_distinct")
    sized = "" if all(_has_width(kind) for kind in kinds) else ", and results that have a size of their own"
    message = (
        f"{step.name} keeps the results of each {' and '.join(verb.by)} for ever, in the size of the key and about "
        f"{fixed} bytes{sized}; set window, e.g. window: 1h, to forget them when its end has passed"
    )
    if collecting := [text for text, call in calls if call.function in COLLECTING or call.distinct]:
        message += f". {listed(collecting)} keeps up to {MOST_VALUES} values of each key, and more stop the app"
    return message


def _has_width(kind: SparkType | None) -> bool:
    return kind is not None and kind.word in WIDTHS


def _sketch(call: WrittenCall) -> int:
    """The registers of one approximate count, a byte each."""
    return int(2 ** ceil(2 * log2(1.106 / (call.error or USUAL_ERROR))))


def _calls(verb: Aggregate) -> Iterator[tuple[str, WrittenCall]]:
    """The calls of the items, each with its text; none of an item with problems, which are reported elsewhere."""
    for text in verb.compute:
        try:
            calls = [
                (call.sql("spark", normalize_functions=False), read_call(call)) for call in aggregate_calls(parse(text))
            ]
        except ExpressionError:
            continue
        yield from calls


def many_panes(graph: Graph) -> Iterator[Problem]:
    """A warning for each aggregate whose windows are cut into very many panes."""
    for name in graph.order:
        verb = graph.steps[name].aggregate
        if verb is None or verb.window is None or verb.slide is None:
            continue
        window, slide = millis(verb.window), millis(verb.slide)
        pane = gcd(window, slide)
        if window // pane > MOST_PANES:
            message = (
                f"a window of {verb.window} every {verb.slide} has {window // pane:,} panes of {exact_span(pane)}, and "
                "each end of a window reads them all, for each key; make slide longer, to at least "
                f"{exact_span(window // MOST_PANES)}"
            )
            yield Problem(Reason.MANY_PANES, message, step=name)
