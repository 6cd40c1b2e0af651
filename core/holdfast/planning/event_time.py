"""Why: steps that work in event time need one on every row; streams that bring none are found here.

Must not look at schemas: whether a declared event time fits its stream is judged with the stream's columns.
"""

from collections.abc import Iterator

from holdfast.planning.graph import Graph
from holdfast.planning.problems_part import Problem
from holdfast.reasons import Reason
from holdfast.spec.steps import Step


def event_time_problems(graph: Graph) -> Iterator[Problem]:
    """A problem for each step in event time that is reached by rows without one."""
    timeless: dict[str, frozenset[str]] = {
        name: frozenset() if stream.event_time else frozenset({name}) for name, stream in graph.streams.items()
    }
    for name in graph.order:
        step = graph.steps[name]
        without = frozenset[str]().union(*(timeless.get(source, frozenset()) for source in step.inputs))
        # An aggregate without a window still passes event time on; one with a window makes it anew from the same rows.
        timeless[name] = without
        if without and (why := _needs_event_time(step)):
            streams = ", ".join(sorted(without))
            message = (
                f"{why} needs event time, but none is declared for {streams}; "
                f"add eventTime: {{column: ..., lateness: ...}} there"
            )
            yield Problem(Reason.EVENT_TIME_MISSING, message, step=name)


def _needs_event_time(step: Step) -> str | None:
    if step.join is not None:
        return f"join within {step.join.within}"
    if step.aggregate is not None and (step.aggregate.window or step.aggregate.session):
        return "a window" if step.aggregate.window else "a session"
    if step.deduplicate is not None and step.deduplicate.within:
        return f"deduplicate within {step.deduplicate.within}"
    return None
