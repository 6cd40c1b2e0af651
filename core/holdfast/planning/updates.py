"""Which rows are updates: results that come out again when they change, where the last one of a key holds.

An `aggregate` with `emit: Update` makes them. Steps that look at each row alone pass them on, `process` makes rows of
its own of them, and steps that count rows or match them are refused behind them: each update would be one more row.
Final results come out once, and must come out some time, so that is checked here too. Must not know how results are
computed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from holdfast.planning.aggregation import WINDOW_BOUNDS
from holdfast.planning.graph import Graph
from holdfast.planning.known_columns import Flow, Passes
from holdfast.planning.problems import Problem, listed
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
from holdfast.spec.streams import Stream


@dataclass(frozen=True, slots=True)
class UpdateRows:
    """Rows of which the last one with equal `by` holds."""

    by: tuple[str, ...]
    """The columns that name what is updated. Empty if rows lost them, or if rows with several such keys were merged."""
    made_by: frozenset[str]
    """The aggregates they come from."""

    @property
    def text(self) -> str:
        """For people: `updates by campaign`."""
        return f"updates by {', '.join(self.by)}" if self.by else "updates"


def follow_updates(graph: Graph, flow: Flow) -> dict[str, UpdateRows]:
    """Return step or stream -> its rows, where they are updates."""
    updates: dict[str, UpdateRows] = {}
    # A stream that steps write may be read by steps that stand before them in order.
    for _ in range(len(graph.streams) + 1):
        if not _pass(graph, flow, updates):
            break
    return updates


def _pass(graph: Graph, flow: Flow, updates: dict[str, UpdateRows]) -> bool:
    before = dict(updates)
    for name in graph.order:
        rows = _after(graph.steps[name], flow, name, updates)
        if rows is not None:
            updates[name] = rows
    for stream, writers in graph.stream_writers.items():
        if (rows := _together([updates.get(writer) for writer in writers])) is not None:
            updates[stream] = rows
    return updates != before


def _after(step: Step, flow: Flow, name: str, updates: Mapping[str, UpdateRows]) -> UpdateRows | None:
    match step.operation:
        case Aggregate() as aggregate:
            return UpdateRows(_key(aggregate, flow, name), frozenset({name})) if aggregate.updates else None
        case Process() | Join() | Deduplicate():
            return None
        case Filter() | Select() | Merge() | Apply() | Lookup() | Repartition() | Broadcast() | To() | ToTable():
            inputs = [updates.get(source) for source in step.inputs]
            passed = flow.passes.get(name, {})
            return _together([rows and _passed(rows, side, passed) for side, rows in enumerate(inputs)])
        case never:
            assert_never(never)


def _key(verb: Aggregate, flow: Flow, name: str) -> tuple[str, ...]:
    rows = flow.rows[name]
    by = [column.name if (column := rows.find(one)) else one for one in verb.by]
    return (*by, *(WINDOW_BOUNDS if verb.windowed else ()))


def _passed(rows: UpdateRows, side: int, passes: Passes) -> UpdateRows:
    """The same rows behind a step, with the names that the columns of their key have there."""
    names: list[str] = []
    for column in rows.by:
        source = (side, column.casefold())
        copies = (
            out for out, sources in passes.items() if source in {(number, name.casefold()) for number, name in sources}
        )
        if (copy := next(copies, None)) is None:
            return UpdateRows((), rows.made_by)
        names.append(copy)
    return UpdateRows(tuple(names), rows.made_by)


def _together(inputs: list[UpdateRows | None]) -> UpdateRows | None:
    """What several inputs are in one; None for rows that are only added."""
    updates = [rows for rows in inputs if rows is not None]
    if not updates:
        return None
    keys = {rows.by if rows is not None else () for rows in inputs}
    return UpdateRows(keys.pop() if len(keys) == 1 else (), frozenset().union(*(rows.made_by for rows in updates)))


def update_problems(graph: Graph, updates: Mapping[str, UpdateRows]) -> Iterator[Problem]:
    """A problem for each step that would take an update for one more row."""
    for name in graph.order:
        step = graph.steps[name]
        made_by = {maker for source in step.inputs if source in updates for maker in updates[source].made_by}
        if made_by and (step.join or step.aggregate or step.deduplicate):
            makers = listed(sorted(made_by))
            message = (
                f"{step.verb} would take each update of {makers} for one more row; let {makers} emit: Final, with a "
                f"window or session, or write a process step instead of {name}"
            )
            yield Problem(Reason.UPDATE_ROWS_NOT_ALLOWED, message, step=name)


def never_final(graph: Graph) -> Iterator[Problem]:
    """A problem for each aggregate whose results would come out when inputs end that have no end."""
    endless: dict[str, frozenset[str]] = {
        name: frozenset() if _ends(stream) else frozenset({name}) for name, stream in graph.streams.items()
    }
    for name in graph.order:
        step = graph.steps[name]
        without_end = _all(endless.get(source, frozenset()) for source in step.inputs)
        endless[name] = without_end
        verb = step.aggregate
        if verb is not None and not verb.windowed and not verb.updates and without_end:
            message = (
                f"emit: Final without a window puts results out when the inputs end, and {listed(sorted(without_end))} "
                f"has no end; set window or session, or emit: Update, or bounded: true there"
            )
            yield Problem(Reason.NEVER_FINAL, message, step=name)


def _ends(stream: Stream) -> bool:
    return stream.bounded or stream.control  # the app that writes a control stream says where it ends


def _all(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)
