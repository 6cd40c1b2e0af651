"""Why: the columns and types of every stream, table and step, found in one walk along the order of flow.

What is wrong is said at the place where it is wrong; behind it the walk goes on with what can still be known, so that
one typo is one problem.
"""

from holdfast.planning.flow import Flow
from holdfast.planning.graph import Graph
from holdfast.planning.problems import Problem
from holdfast.planning.source_rows import declared_table_rows, stream_rows
from holdfast.planning.sql.columns import OPEN, UNKNOWN, Rows
from holdfast.planning.step_rows import step_rows
from holdfast.reasons import Reason


def flow_rows(graph: Graph) -> Flow:
    """Columns and types everywhere."""
    flow = Flow()
    for name in sorted(graph.streams):
        flow.rows[name] = stream_rows(graph, name, flow)
    for name in sorted(graph.tables):
        if (declared := declared_table_rows(graph, name, flow)) is not None:
            flow.tables[name] = declared
    for name in graph.order:
        step = graph.steps[name]
        inputs = tuple(flow.rows.get(source, OPEN) for source in step.inputs)
        flow.rows[name], flow.passes[name] = step_rows(graph, flow, step, inputs)
        _warn_of_unknown_types(flow, name, inputs)
    return flow


def _warn_of_unknown_types(flow: Flow, step: str, inputs: tuple[Rows, ...]) -> None:
    """Say once, where it begins, that a type can't be told. Rows with findings have said enough."""
    rows = flow.rows[step]
    before = {column.name for given in inputs for column in given.columns if column.type == UNKNOWN}
    fresh = [column.name for column in rows.columns if column.type == UNKNOWN and column.name not in before]
    if fresh and rows.closed:
        message = f"the type of {', '.join(fresh)} can't be told before it runs; use CAST to fix it"
        flow.warnings.append(Problem(Reason.TYPE_UNKNOWN, message, step=step))
