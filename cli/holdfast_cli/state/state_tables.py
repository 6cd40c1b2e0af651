"""The output of `holdfast state`: tables and rows as text or JSON, and a whole table as a file.

An export is Parquet or Arrow, takes bounded memory, and its file appears only when it is complete. Must not decode rows
itself.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.spec.kept_state import table_name
from holdfast.suggest import did_you_mean
from holdfast_cli.output.screen import TextTable, print_json, screen
from holdfast_cli.state.state_rows import RowKind, as_json, row_kind
from holdfast_cli.state.state_runs import RunsRows, is_for_runs, runs_size
from holdfast_cli.state.state_stores import OpenedState, RunStores

_NUMBERS = ("KEYS", "BYTES", "BATCH", "EPOCH")
_OF_RUNS = ("rows", "runs", "oldest", "newest")


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Which rows to show."""

    table: str
    task: str | None
    key: str | None
    most: int


def show_tables(stores: RunStores, task: str | None, output: str, color: str) -> None:
    """Print a line per task and table."""
    tasks = []
    for name in stores.tasks(task):
        with stores.opened(name) as opened:
            tasks.append(_task(opened))
    shared = [] if task is not None else list(_shared(stores))
    if output == "json":
        tree = {"app": stores.logs.app.name, "run": stores.run, "tasks": tasks, "broadcast": shared}
        print_json(tree)
        return
    # Most apps have no such tables, and their lines stay short.
    of_runs = any(table_tree["runs"] is not None for task_tree in tasks for table_tree in task_tree["tables"])
    more = _OF_RUNS if of_runs or shared else ()
    names = ("KEYS", *(name.upper() for name in more), *_NUMBERS[1:])
    table = TextTable("TASK", "TABLE", *names, "FROM", right=names)
    for task_tree in tasks:
        source = task_tree["from"] if task_tree["why"] is None else f"{task_tree['from']} ({task_tree['why']})"
        for table_tree in task_tree["tables"] or [{"name": "-", "keys": 0, "bytes": 0}]:
            cells = [
                *(table_tree.get(name) for name in ("keys", *more, "bytes")),
                task_tree["batch"],
                task_tree["epoch"],
            ]
            table.add(
                task_tree["task"], table_tree["name"], *("-" if cell is None else str(cell) for cell in cells), source
            )
    for table_tree in shared:
        cells = [*(table_tree.get(name) for name in ("keys", *more, "bytes")), table_tree["batch"], None]
        table.add(
            "(location)",
            table_tree["name"],
            *("-" if cell is None else str(cell) for cell in cells),
            table_tree["from"],
        )
    table.print(screen(color))
    for task_tree in tasks:
        for damaged in task_tree["damaged"]:
            screen(color, to_stderr=True).print(f"warning: {damaged}")


def _shared(stores: RunStores) -> Iterator[dict[str, Any]]:
    for name in stores.shared_tables:
        with stores.shared(name) as opened:
            if opened is not None:
                size = runs_size(opened.table)
                yield {
                    "name": name,
                    "bytes": opened.table.manifest.bytes,
                    "batch": opened.batch,
                    "from": opened.source,
                } | size


def show_rows(stores: RunStores, selection: RowSelection, output: str, color: str) -> None:
    """Print the selected rows."""
    rows: list[dict[str, Any]] = []
    if selection.table in stores.shared_tables:
        with opened_table(stores, selection.table) as runs:
            rows += islice(runs.shown(selection.key), selection.most)
    else:
        rows += _of_tasks(stores, selection)
    if selection.key is not None and not rows:
        message = f"table {selection.table} has no key {selection.key}"
        raise UserActionError(message, code="UsageError")
    if output == "json":
        sys.stdout.writelines(as_json(row) + "\n" for row in rows)
    else:
        _print(rows, color)


def _of_tasks(stores: RunStores, selection: RowSelection) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    tables: set[str] = set()
    for name in stores.tasks(selection.task):
        if len(rows) >= selection.most:
            break
        with stores.opened(name) as opened:
            tables |= (names := {table.name for table in opened.store.tables()})
            # Read all rows before the store closes: closing checks that none was overwritten meanwhile.
            shown = _shown(opened, stores, selection, _kept_as(selection.table, names))
            rows += [{"task": name} | row for row in islice(shown, selection.most - len(rows))]
    check_table(_kept_as(selection.table, tables), tables)
    return rows


@contextmanager
def opened_table(stores: RunStores, name: str) -> Iterator[RunsRows]:
    """Open the rows of a Broadcast table."""
    with stores.shared(name) as opened:
        runs = None if opened is None else RunsRows.of(opened.table)
        if runs is None:
            message = f"table {name} holds nothing yet in {stores.shown}: run the app first"
            raise UserActionError(message, code="UsageError")
        yield runs


def check_table(name: str, tables: set[str]) -> None:
    """Raise `UsageError` if no task has this table."""
    if name not in tables:
        listed = ", ".join(sorted(tables)) or "none"
        message = f"no task has a table {name}{did_you_mean(name, sorted(tables))}; tables: {listed}"
        raise UserActionError(message, code="UsageError")


def _kept_as(name: str, tables: set[str]) -> str:
    """Return the state table that a name means: one of that name, or the rows of the table of the app."""
    return name if name in tables or table_name(name) not in tables else table_name(name)


def _shown(opened: OpenedState, stores: RunStores, selection: RowSelection, table: str) -> Iterator[dict[str, Any]]:
    """Yield the selected rows of a task as JSON values."""
    runs = RunsRows.of(opened.store.table(table))
    if runs is not None:
        yield from runs.shown(selection.key)
    elif not is_for_runs(stores.logs, table):
        yield from _shown_values(opened, row_kind(stores.logs, table), selection)


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


def _task(opened: OpenedState) -> dict[str, Any]:
    head = opened.store.head
    tables = []
    for table_size in opened.store.tables():
        size = runs_size(opened.store.table(table_size.name))
        # What such a table has as keys are pieces of many rows: their number says nothing to users.
        keys = table_size.keys if size["runs"] is None else None
        tables.append({"name": table_size.name, "keys": keys, "bytes": table_size.bytes} | size)
    return {
        "task": opened.task,
        "batch": head.batch,
        "epoch": head.epoch,
        "from": opened.source,
        "why": opened.why,
        "damaged": list(opened.damaged),
        "tables": tables,
    }


def _print(rows: list[dict[str, Any]], color: str) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = TextTable(*(name.upper() for name in names))
    for row in rows:
        table.add(*(_cell(row.get(name)) for name in names))
    table.print(screen(color))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) and value.isprintable() else as_json(value)


_ROWS_AT_ONCE = 10_000
_TASK = pa.field("task", pa.string())


def export(stores: RunStores, table: str, task: str | None, to: str) -> None:
    """Write a table to a file and print how many rows it has."""
    target = Path(to)
    if target.exists():
        message = f"{to} exists already: remove it, or choose another name"
        raise UserActionError(message, code="UsageError")
    batches = exported(stores, table, task)
    first = next(batches)
    temporary, count = target.with_name(f".{target.name}.writing"), 0
    try:
        with _writer(temporary, first.schema, parquet=target.suffix == ".parquet") as write:
            for batch in chain([first], batches):
                if batch.schema != first.schema:
                    message = f"tasks hold table {table} with other columns: export them one by one, with --task"
                    raise UserActionError(message, code="UsageError")
                write(batch)
                count += batch.num_rows
        temporary.rename(target)
    finally:
        temporary.unlink(missing_ok=True)
    sys.stdout.write(f"{count} {'row' if count == 1 else 'rows'} of {table} written to {to}\n")


def exported(stores: RunStores, table: str, task: str | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table, task by task; an empty batch if there are none."""
    if table in stores.shared_tables:
        with opened_table(stores, table) as runs:
            yield from runs.exported()
            yield pa.RecordBatch.from_pylist([], runs.columns)
        return
    tables, any_rows = set[str](), False
    for name in stores.tasks(task):
        with stores.opened(name) as opened:
            tables |= (names := {kept_table.name for kept_table in opened.store.tables()})
            for rows in _columns(opened, stores, _kept_as(table, names)):
                arrays = [pa.repeat(pa.scalar(name, pa.string()), rows.num_rows), *rows.columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema([_TASK, *rows.schema]))
                any_rows = True
    check_table(_kept_as(table, tables), tables)
    if not any_rows:
        yield pa.RecordBatch.from_pylist([], pa.schema([_TASK, *row_kind(stores.logs, table).columns]))


def _columns(opened: OpenedState, stores: RunStores, table: str) -> Iterator[pa.RecordBatch]:
    runs = RunsRows.of(opened.store.table(table))
    if runs is not None:
        yield from runs.exported()
    elif not is_for_runs(stores.logs, table):
        kind, rows = row_kind(stores.logs, table), opened.store.rows(table)
        while chunk := [kind.exported(row) for row in islice(rows, _ROWS_AT_ONCE)]:
            columns = zip(*chunk, strict=True)
            arrays = [pa.array(list(c), f.type) for c, f in zip(columns, kind.columns, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=kind.columns)


@contextmanager
def _writer(path: Path, schema: pa.Schema, *, parquet: bool) -> Iterator[Callable[[pa.RecordBatch], None]]:
    try:
        if parquet:
            from pyarrow import parquet as pq  # noqa: PLC0415 - slow to import

            with pq.ParquetWriter(str(path), schema) as writer:
                yield writer.write_batch
        else:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as stream:
                yield stream.write_batch
    except OSError as error:
        message = f"{path} can't be written: {error}"
        raise UserActionError(message, code="UsageError") from error
