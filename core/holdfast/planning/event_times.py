"""Checks of event time on its way through the steps: who needs it and gets none, and who sets it where it is too late.

Must not look at columns: `stream_columns` checks whether what is declared is a time.
"""

from collections.abc import Iterator
from typing import assert_never

from holdfast.planning.graph import Graph, makes_stream
from holdfast.planning.problems import Problem
from holdfast.reasons import Reason
from holdfast.spec.steps import (
    Aggregate,
    Apply,
    Broadcast,
    Deduplicate,
    Filter,
    Join,
    Lookup,
    Merge,
    Process,
    Repartition,
    Select,
    Step,
    To,
    ToTable,
)


def event_time_problems(graph: Graph) -> Iterator[Problem]:
    """A problem for each step that needs event time but gets rows from a stream without it."""
    timeless: dict[str, frozenset[str]] = {
        name: frozenset() if stream.event_time else frozenset({name}) for name, stream in graph.streams.items()
    }
    for name in graph.order:
        step = graph.steps[name]
        without = frozenset[str]().union(*(timeless.get(source, frozenset()) for source in step.inputs))
        # An aggregate without a window passes event time on; one with a window derives it again from the same rows.
        timeless[name] = without if step.event_time is None else frozenset()
        if without and (why := _needs_event_time(step)):
            streams = ", ".join(sorted(without))
            message = (
                f"{why} needs event time, but none is declared for {streams}; "
                f"add eventTime: {{column: ..., lateness: ...}} there, or to a select, apply or process before {name}"
            )
            yield Problem(Reason.EVENT_TIME_MISSING, message, step=name)


def merged_times(graph: Graph) -> Iterator[Problem]:
    """A warning for each step that sets the time of rows that were merged: it can't tell which input is behind."""
    merges: dict[str, frozenset[str]] = {}
    for name in graph.order:
        step = graph.steps[name]
        upstream = frozenset[str]().union(*(merges.get(source, frozenset()) for source in step.inputs))
        if step.event_time is not None and upstream:
            message = (
                f"{name} sets the event time of rows that {', '.join(sorted(upstream))} has merged, by the newest of "
                f"them: while one input is behind the others, its rows are late. Set it before the merge, on each "
                f"input, or give it a lateness that covers how far they may be apart"
            )
            yield Problem(Reason.EVENT_TIME_MERGED, message, step=name)
        starts_anew = step.event_time is not None or makes_stream(step)
        merges[name] = frozenset() if starts_anew else upstream | ({name} if step.merge is not None else set())


def _needs_event_time(step: Step) -> str | None:
    match step.operation:
        case Join(span=span):
            return f"join {span}"
        case Aggregate(window=window) as verb:
            return ("a window" if window else "a session") if verb.windowed else None
        case Deduplicate(within=within):
            return f"deduplicate within {within}" if within else None
        case (
            Filter()
            | Select()
            | Merge()
            | Apply()
            | Process()
            | Lookup()
            | Repartition()
            | Broadcast()
            | To()
            | ToTable()
        ):
            return None
        case never:
            assert_never(never)
