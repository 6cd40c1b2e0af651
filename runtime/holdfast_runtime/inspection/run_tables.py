"""The tables of a run's state: how large they are, their rows as JSON values, and a whole table as columns.

A name means a step that keeps rows, whose own columns are shown; a state table; the rows of a table of the app; or a
Broadcast table, which belongs to no task.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.spec.kept_state import kept_rows, table_name
from holdfast.suggest import did_you_mean
from holdfast_runtime.inspection.run_stores import RunStores
from holdfast_runtime.inspection.shown_columns import task_column
from holdfast_runtime.inspection.sorted_rows import LayeredTableRows, key_row
from holdfast_runtime.inspection.step_tables import Note, StepTable, step_of, step_table
from holdfast_runtime.inspection.table_rows import RowKind, StepKeys, row_kind, shown_values
from holdfast_runtime.inspection.task_state import OpenedState
from holdfast_runtime.state.sorted.view import LayeredSize, LayeredView


@dataclass(frozen=True, slots=True)
class TableSummary:
    """How large a table is."""

    name: str
    bytes: int
    keys: int | None
    """None: its rows are in layers, and what it has as keys are pieces of many rows."""
    layered: LayeredSize | None


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """What a task remembers."""

    task: str
    batch: int
    """Its last batch."""
    epoch: int | None
    """The attempt that computed this state."""
    source: str
    """`local` or `durable`."""
    why: str | None
    """Why the local store is not used."""
    damaged: tuple[str, ...]
    """Unreadable snapshots, with reasons."""
    tables: tuple[TableSummary, ...]


@dataclass(frozen=True, slots=True)
class BroadcastSummary:
    """What a location has of a Broadcast table."""

    table: TableSummary
    batch: int
    source: str


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Which rows are read."""

    table: str
    task: str | None
    key: str | None
    """A key as a user writes it."""
    most: int
    raw: bool = False
    """Whether rows of steps are shown as they are kept."""


def task_summaries(stores: RunStores, only: str | None) -> Iterator[TaskSummary]:
    """Yield what each task remembers, or this one alone."""
    for task in stores.tasks(only):
        with stores.opened(task) as opened:
            head = opened.store.head
            yield TaskSummary(
                task, head.batch, head.epoch, opened.source, opened.why, opened.damaged, tuple(_tables(opened))
            )


def _tables(opened: OpenedState) -> Iterator[TableSummary]:
    for size in opened.store.tables():
        view = LayeredView.of(opened.store.table(size.name))
        keys, layered = (size.keys, None) if view is None else (None, view.size())
        yield TableSummary(size.name, size.bytes, keys, layered)


def broadcast_summaries(stores: RunStores) -> Iterator[BroadcastSummary]:
    """Yield the Broadcast tables that hold anything."""
    for name in stores.shared_tables:
        with stores.shared(name) as opened:
            if opened is not None:
                view = LayeredView.of(opened.table)
                table = TableSummary(name, opened.table.manifest.bytes, None, None if view is None else view.size())
                yield BroadcastSummary(table, opened.batch, opened.source)


def selected_rows(stores: RunStores, selection: RowSelection, note: Note) -> list[dict[str, Any]]:
    """Return the selected rows as JSON values; raise `UsageError` if there is no such table or key."""
    if selection.table in stores.shared_tables:
        with _broadcast(stores, selection.table) as layered:
            rows = list(islice(layered.shown(selection.key), selection.most))
    elif (step_rows := _step_rows(stores, selection.table, note, raw=selection.raw)) is not None:
        rows = _of_step(stores, step_rows, selection, note)
    else:
        rows = _of_tasks(stores, selection, note)
    if selection.key is not None and not rows:
        message = f"table {selection.table} has no key {selection.key}"
        raise UserActionError(message, code="UsageError")
    return rows


def _step_rows(stores: RunStores, name: str, note: Note, *, raw: bool) -> StepTable | None:
    """Return the rows of a step of this name, if its own columns are to be shown and can be."""
    step = None if raw else step_of(stores.local_app, name)
    return None if step is None else step_table(stores.local_app, step, name, note)


def _of_step(stores: RunStores, step_rows: StepTable, selection: RowSelection, note: Note) -> list[dict[str, Any]]:
    text, task = selection.key, task_column(step_rows.columns).name
    key = None if text is None else key_row(selection.table, StepKeys(step_rows.key), text)
    rows: list[dict[str, Any]] = []
    for name in stores.tasks(selection.task):
        if len(rows) >= selection.most:
            break
        with stores.opened(name) as opened, _raw_offered():
            for batch in step_rows.rows(opened.store, key, note):
                part = batch.slice(0, selection.most - len(rows))
                columns = [shown_values(column) for column in part.columns]
                rows += [
                    {task: name} | dict(zip(part.schema.names, values, strict=True))
                    for values in zip(*columns, strict=True)
                ]
                if len(rows) >= selection.most:
                    break
    return rows


@contextmanager
def _raw_offered() -> Iterator[None]:
    """Say in an error about columns that rows can be seen as they are kept."""
    try:
        yield
    except UserActionError as error:
        if error.code != "RunsSchemaError":
            raise
        message = f"{error}. `--raw` of `get` and `export` shows what is kept"
        raise UserActionError(message, code=error.code) from error


def _of_tasks(stores: RunStores, selection: RowSelection, note: Note) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    tables: set[str] = set()
    for name in stores.tasks(selection.task):
        if len(rows) >= selection.most:
            break
        with stores.opened(name) as opened:
            tables |= (names := {table.name for table in opened.store.tables()})
            # Read all rows before the store closes: closing checks that none was overwritten meanwhile.
            table = _kept_as(stores, selection.table, names)
            shown = _shown(opened, stores, selection, table)
            if not selection.raw:
                _note_left(opened, stores, table, note)
            rows += [{"task": name} | row for row in islice(shown, selection.most - len(rows))]
    _check_table(_kept_as(stores, selection.table, tables), tables)
    return rows


@contextmanager
def _broadcast(stores: RunStores, name: str) -> Iterator[LayeredTableRows]:
    """Open the rows of a Broadcast table."""
    with stores.shared(name) as opened:
        layered = None if opened is None else LayeredTableRows.of(opened.table)
        if layered is None:
            message = f"table {name} holds nothing yet in {stores.shown}: run the app first"
            raise UserActionError(message, code="UsageError")
        yield layered


def _check_table(name: str, tables: set[str]) -> None:
    """Raise `UsageError` if no task has this table."""
    if name not in tables:
        listed = ", ".join(sorted(tables)) or "none"
        message = f"no task has a table {name}{did_you_mean(name, sorted(tables))}; tables: {listed}"
        raise UserActionError(message, code="UsageError")


def _kept_as(stores: RunStores, name: str, tables: set[str]) -> str:
    """Return the state table that a name means: one of that name, that of a step, or the rows of a table of the app."""
    candidates = (name, kept_rows(stores.local_app.app.spec).get(name), table_name(name))
    return next((table for table in candidates if table in tables), name)


def _note_left(opened: OpenedState, stores: RunStores, table: str, note: Note) -> None:
    """Note that rows are of a step that the app no longer has."""
    of_app = kept_rows(stores.local_app.app.spec).values()
    if table not in of_app and LayeredView.of(opened.store.table(table)) is not None:
        note(f"table {table} is of no step that the app has now: its rows are shown as they are kept")


def _shown(opened: OpenedState, stores: RunStores, selection: RowSelection, table: str) -> Iterator[dict[str, Any]]:
    """Yield the selected rows of a task as JSON values."""
    layered = LayeredTableRows.of(opened.store.table(table))
    if layered is not None:
        yield from layered.shown(selection.key)
    elif table not in kept_rows(stores.local_app.app.spec).values():
        yield from _shown_values(opened, row_kind(stores.local_app, table), selection)


def _shown_values(opened: OpenedState, kind: RowKind, selection: RowSelection) -> Iterator[dict[str, Any]]:
    if selection.key is None:
        yield from map(kind.shown, opened.store.rows(selection.table))
        return
    key = kind.looked_up(selection.key)
    if key is None:
        message = f"rows of {selection.table} are in order of time and have no keys to look up: leave --key out"
        raise UserActionError(message, code="UsageError")
    value = opened.store.get(selection.table, key)
    if value is not None:
        yield kind.shown((key, value))


_ROWS_AT_ONCE = 10_000
_TASK = pa.field("task", pa.string())


def table_columns(
    stores: RunStores, table: str, task: str | None, note: Note, *, raw: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table, task by task; an empty batch if there are none."""
    if table in stores.shared_tables:
        with _broadcast(stores, table) as layered:
            yield from layered.exported()
            yield pa.RecordBatch.from_pylist([], layered.columns)
        return
    if (step_rows := _step_rows(stores, table, note, raw=raw)) is not None:
        yield from _columns_of_step(stores, step_rows, task, note)
        return
    tables, any_rows = set[str](), False
    for name in stores.tasks(task):
        with stores.opened(name) as opened:
            tables |= (names := {kept_table.name for kept_table in opened.store.tables()})
            stored_name = _kept_as(stores, table, names)
            if not raw:
                _note_left(opened, stores, stored_name, note)
            for rows in _columns(opened, stores, stored_name):
                arrays = [pa.repeat(pa.scalar(name, pa.string()), rows.num_rows), *rows.columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema([_TASK, *rows.schema]))
                any_rows = True
    _check_table(_kept_as(stores, table, tables), tables)
    if not any_rows:
        yield pa.RecordBatch.from_pylist([], pa.schema([_TASK, *row_kind(stores.local_app, table).columns]))


def _columns_of_step(stores: RunStores, step_rows: StepTable, task: str | None, note: Note) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([task_column(step_rows.columns), *step_rows.columns])
    for name in stores.tasks(task):
        with stores.opened(name) as opened, _raw_offered():
            for rows in step_rows.rows(opened.store, None, note):
                columns = dict(zip(rows.schema.names, rows.columns, strict=True))
                columns[schema.names[0]] = pa.repeat(pa.scalar(name, pa.string()), rows.num_rows)
                arrays = [columns.get(field.name, pa.nulls(rows.num_rows, field.type)) for field in schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
    yield pa.RecordBatch.from_pylist([], schema)


def _columns(opened: OpenedState, stores: RunStores, table: str) -> Iterator[pa.RecordBatch]:
    layered = LayeredTableRows.of(opened.store.table(table))
    if layered is not None:
        yield from layered.exported()
    elif table not in kept_rows(stores.local_app.app.spec).values():
        kind, rows = row_kind(stores.local_app, table), opened.store.rows(table)
        while chunk := [kind.exported(row) for row in islice(rows, _ROWS_AT_ONCE)]:
            columns = zip(*chunk, strict=True)
            arrays = [pa.array(list(c), f.type) for c, f in zip(columns, kind.columns, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=kind.columns)
