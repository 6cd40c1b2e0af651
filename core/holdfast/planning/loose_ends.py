"""Why: rows that go nowhere, come from nowhere, or come out once per task: seldom meant, so always said."""

from collections.abc import Iterator

from holdfast.planning.graph import Graph
from holdfast.planning.keys import Spread
from holdfast.planning.problems_part import Problem
from holdfast.reasons import Reason


def unused_rows(graph: Graph) -> Iterator[Problem]:
    """Steps, streams and tables nobody reads."""
    for name in graph.order:
        step = graph.steps[name]
        if name not in graph.readers and step.to is None and step.to_table is None:
            message = f"nobody reads the rows of {name}; write them with to, or remove the step"
            yield Problem(Reason.ROWS_UNUSED, message, step=name)
    dead_letters = {stream.dead_letter for stream in graph.streams.values()}
    dead_letters |= {step.dead_letter for step in graph.steps.values()}
    for name in sorted(graph.streams):
        used = name in graph.readers or name in graph.stream_writers or name in graph.side_inputs
        if not used and name not in dead_letters:
            yield Problem(Reason.ROWS_UNUSED, f"no step or table uses stream {name}", stream=name)
    for name in sorted(graph.tables):
        if name not in graph.lookups:
            yield Problem(Reason.ROWS_UNUSED, f"no lookup reads table {name}", stream=name)


def empty_tables(graph: Graph) -> Iterator[Problem]:
    """Tables nothing is ever put into."""
    for name in sorted(graph.tables):
        if graph.tables[name].sources is None and name not in graph.table_writers:
            message = f"nothing feeds table {name}: give it sources, or write to it with toTable"
            yield Problem(Reason.TABLE_EMPTY, message, stream=name)


def repeated_inside(graph: Graph, spreads: dict[str, Spread]) -> Iterator[Problem]:
    """Steps that write rows every task has into a stream of the app's own, where they would be counted many times."""
    for name in graph.order:
        step = graph.steps[name]
        source = spreads.get(step.inputs[0])
        if source is not None and source.repeated and (step.repartition is not None or step.broadcast is not None):
            message = (
                f"every task has the broadcast rows that reach {name} and would write them again, once per task; "
                f"{step.verb} them where they come from, before they are broadcast"
            )
            yield Problem(Reason.BROADCAST_REPEATED, message, step=name)


def repeated_rows(graph: Graph, spreads: dict[str, Spread]) -> Iterator[Problem]:
    """Steps that write rows every task has."""
    for name in graph.order:
        step = graph.steps[name]
        source = spreads.get(step.inputs[0])
        if source is not None and source.repeated and step.to is not None:
            message = (
                f"every task has the broadcast rows that reach {name}, so each task writes them; "
                f"write them where they come from, before broadcast"
            )
            yield Problem(Reason.BROADCAST_REPEATED, message, step=name)
