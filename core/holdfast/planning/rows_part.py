"""Why: the columns and types of every stream, table and step, found in one walk along the order of flow.

What is wrong is said at the place where it is wrong; behind it the walk goes on with what can still be known, so that
one typo is one problem.
"""

from holdfast.planning.flow import MOST_PROBLEMS, expressions_of
from holdfast.planning.flow_part import Flow
from holdfast.planning.graph import Graph
from holdfast.planning.problems_part import Problem
from holdfast.planning.rows import declared_table_rows, stream_rows
from holdfast.planning.step_rows import step_rows
from holdfast.planning.types.columns import OPEN, UNKNOWN, RowType
from holdfast.planning.types.findings import listed
from holdfast.reasons import Reason


def flow_rows(graph: Graph) -> Flow:
    """Columns and types everywhere."""
    flow = Flow()
    for name in sorted(graph.streams):
        flow.rows[name] = _afforded(flow, stream_rows(graph, name, flow), stream=name)
    for name in sorted(graph.tables):
        if (declared := _table_rows(graph, name, flow)) is not None:
            flow.tables[name] = _afforded(flow, declared, stream=name)
    for name in graph.order:
        step = graph.steps[name]
        inputs = tuple(flow.rows.get(source, OPEN) for source in step.inputs)
        if len(flow.problems) > MOST_PROBLEMS or not _affords(flow, expressions_of(step), step=name):
            flow.rows[name], flow.passes[name] = OPEN, {}
            continue
        rows, flow.passes[name] = step_rows(graph, flow, step, inputs)
        flow.rows[name] = _afforded(flow, rows, step=name)
        _warn_of_unknown_types(flow, name, inputs)
    return flow


def _table_rows(graph: Graph, name: str, flow: Flow) -> RowType | None:
    table = graph.tables[name]
    # Each source is selected from.
    if not _affords(flow, (table.select or ()) * len(table.sources or ()), stream=name):
        return OPEN
    return declared_table_rows(graph, name, flow)


def _affords(flow: Flow, texts: tuple[str, ...], *, step: str | None = None, stream: str | None = None) -> bool:
    """Whether these expressions may still be read."""
    return not _too_much(flow, flow.budget.refused_sql(texts), step=step, stream=stream)


def _afforded(flow: Flow, rows: RowType, *, step: str | None = None, stream: str | None = None) -> RowType:
    """The rows, if their columns may still be followed."""
    return OPEN if _too_much(flow, flow.budget.refused_columns(rows), step=step, stream=stream) else rows


def _too_much(flow: Flow, why: str | None, *, step: str | None, stream: str | None) -> bool:
    if why is None:
        return False
    # Said once: what is left of the app is over it, too.
    if not any(problem.reason is Reason.TOO_LARGE for problem in flow.problems):
        flow.problems.append(Problem(Reason.TOO_LARGE, why, step=step, stream=stream))
    return True


def _warn_of_unknown_types(flow: Flow, step: str, inputs: tuple[RowType, ...]) -> None:
    """Say once, where it begins, that a type can't be told. Rows with findings have said enough."""
    rows = flow.rows[step]
    before = {column.name for given in inputs for column in given.columns if column.type == UNKNOWN}
    fresh = [column.name for column in rows.columns if column.type == UNKNOWN and column.name not in before]
    if fresh and rows.closed:
        message = f"the type of {listed(fresh)} can't be told before it runs; use CAST to fix it"
        flow.warnings.append(Problem(Reason.TYPE_UNKNOWN, message, step=step))
