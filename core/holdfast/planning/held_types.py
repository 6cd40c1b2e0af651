"""The columns that the state of an app holds, with their types: a run can't go on with others.

Of rows on their way columns may come and go: the runtime fills or drops them. The order of columns means nothing. Must
not know how state is stored, nor judge a change: `spec.kept_state` does.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from holdfast.planning.known_columns import Flow, comparable
from holdfast.planning.types.spark_types import OPEN, UNKNOWN, Column, RowType
from holdfast.spec.app import AppSpec
from holdfast.spec.edits import held_path, joined_names, shortened, table_paths
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

COLUMNS = "the list of its columns"
"""What holds all columns of rows has this beside their types."""
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def held_types(spec: AppSpec, flow: Flow) -> dict[str, dict[str, str]]:
    """Return what holds columns -> column -> its type, where that is known."""
    types_by_path = {held_path(step.was or step.name): _typed(_held(step, flow)) for step in spec.steps}
    types_by_path |= {
        table_paths(name)[1]: _typed((column.name, column.type) for column in rows.columns)
        for name, rows in flow.tables.items()
    }
    # Files are loaded again where their columns change.
    loaded = {table.name for table in spec.tables if table.files is not None}
    whole = {table_paths(name)[1]: rows for name, rows in flow.tables.items() if name not in loaded}
    whole |= {
        held_path(step.was or step.name): flow.rows.get(step.name, OPEN) for step in spec.steps if _all_kept(step)
    }
    for what, rows in whole.items():
        if rows.closed:
            types_by_path[what][COLUMNS] = shortened(joined_names([column.name.casefold() for column in rows.columns]))
    return {what: types for what, types in types_by_path.items() if types}


def _all_kept(step: Step) -> bool:
    """Whether it keeps all columns of its rows."""
    return step.join is not None and step.join.select is None


def _held(step: Step, flow: Flow) -> Iterator[tuple[str, str]]:
    rows = [flow.rows.get(name, OPEN) for name in step.inputs]
    match step.operation:
        case Join():
            for side, side_rows in zip(("left", "right"), rows, strict=False):
                yield from ((f"{side}.{column.name}", column.type) for column in side_rows.columns)
        case Aggregate():
            yield from ((column.name, column.type) for column in flow.rows.get(step.name, OPEN).columns)
        case Deduplicate(by=by):
            yield from ((column.name, column.type) for column in _of(rows[0], by))
        case Process(form="Batch", by=by):
            yield from ((column.name, column.type) for column in _of(rows[0], by))
        case Process(by=by):
            # Keys are kept as text, and so are rows on their way: there whole numbers of all lengths are the same.
            yield from ((column.name, _as_text(column.type)) for column in _of(rows[0], by))
        case Repartition() | Broadcast():
            yield from ((column.name, _as_text(column.type)) for column in rows[0].columns)
        case Filter() | Select() | Merge() | Apply() | Lookup() | To() | ToTable():
            return
        case never:
            assert_never(never)


def _of(rows: RowType, names: Sequence[str]) -> Iterator[Column]:
    return (column for name in names if (column := rows.find(name)) is not None)


def _as_text(kind: str) -> str:
    return _WHOLE[-1] if kind in _WHOLE else kind


def _typed(columns: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {shortened(name.casefold()): shortened(comparable(kind)) for name, kind in columns if kind != UNKNOWN}
