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
        with stores.opened(name) as found:
            tasks.append(_task(found))
    shared = [] if task is not None else list(_shared(stores))
    if output == "json":
        tree = {"app": stores.logs.app.name, "run": stores.run, "tasks": tasks, "broadcast": shared}
        print_json(tree)
        return
    # Most apps have no such tables, and their lines stay short.
    of_runs = any(each["runs"] is not None for one in tasks for each in one["tables"])
    more = _OF_RUNS if of_runs or shared else ()
    names = ("KEYS", *(name.upper() for name in more), *_NUMBERS[1:])
    table = TextTable("TASK", "TABLE", *names, "FROM", right=names)
    for one in tasks:
        source = one["from"] if one["why"] is None else f"{one['from']} ({one['why']})"
        for each in one["tables"] or [{"name": "-", "keys": 0, "bytes": 0}]:
            cells = [*(each.get(name) for name in ("keys", *more, "bytes")), one["batch"], one["epoch"]]
            table.add(one["task"], each["name"], *("-" if cell is None else str(cell) for cell in cells), source)
    for each in shared:
        cells = [*(each.get(name) for name in ("keys", *more, "bytes")), each["batch"], None]
        table.add("(location)", each["name"], *("-" if cell is None else str(cell) for cell in cells), each["from"])
    table.print(screen(color))
    for one in tasks:
        for damaged in one["damaged"]:
            screen(color, to_stderr=True).print(f"warning: {damaged}")


def _shared(stores: RunStores) -> Iterator[dict[str, Any]]:
    for name in stores.shared_tables:
        with stores.shared(name) as found:
            if found is not None:
                size = runs_size(found.table)
                yield {
                    "name": name,
                    "bytes": found.table.manifest.bytes,
                    "batch": found.batch,
                    "from": found.source,
                } | size


def show_rows(stores: RunStores, wanted: RowSelection, output: str, color: str) -> None:
    """Print the selected rows."""
    rows: list[dict[str, Any]] = []
    if wanted.table in stores.shared_tables:
        with opened_table(stores, wanted.table) as runs:
            rows += islice(runs.shown(wanted.key), wanted.most)
    else:
        rows += _of_tasks(stores, wanted)
    if wanted.key is not None and not rows:
        message = f"table {wanted.table} has no key {wanted.key}"
        raise UserActionError(message, code="UsageError")
    if output == "json":
        sys.stdout.writelines(as_json(row) + "\n" for row in rows)
    else:
        _print(rows, color)


def _of_tasks(stores: RunStores, wanted: RowSelection) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    tables: set[str] = set()
    for name in stores.tasks(wanted.task):
        if len(rows) >= wanted.most:
            break
        with stores.opened(name) as found:
            tables |= (here := {table.name for table in found.store.tables()})
            # Read all rows before the store closes: closing checks that none was overwritten meanwhile.
            shown = _shown(found, stores, wanted, _kept_as(wanted.table, here))
            rows += [{"task": name} | row for row in islice(shown, wanted.most - len(rows))]
    check_table(_kept_as(wanted.table, tables), tables)
    return rows


@contextmanager
def opened_table(stores: RunStores, name: str) -> Iterator[RunsRows]:
    """Open the rows of a Broadcast table."""
    with stores.shared(name) as found:
        runs = None if found is None else RunsRows.of(found.table)
        if runs is None:
            message = f"table {name} holds nothing yet in {stores.shown}: run the app first"
            raise UserActionError(message, code="UsageError")
        yield runs


def check_table(name: str, tables: set[str]) -> None:
    """Raise `UsageError` if no task has this table."""
    if name not in tables:
        there = ", ".join(sorted(tables)) or "none"
        message = f"no task has a table {name}{did_you_mean(name, sorted(tables))}; tables: {there}"
        raise UserActionError(message, code="UsageError")


def _kept_as(name: str, tables: set[str]) -> str:
    """Return the state table that a name means: one of that name, or the rows of the table of the app."""
    return name if name in tables or table_name(name) not in tables else table_name(name)


def _shown(found: OpenedState, stores: RunStores, wanted: RowSelection, table: str) -> Iterator[dict[str, Any]]:
    """Yield the selected rows of a task as JSON values."""
    runs = RunsRows.of(found.store.table(table))
    if runs is not None:
        yield from runs.shown(wanted.key)
    elif not is_for_runs(stores.logs, table):
        yield from _shown_values(found, row_kind(stores.logs, table), wanted)


def _shown_values(found: OpenedState, kind: RowKind, wanted: RowSelection) -> Iterator[dict[str, Any]]:
    if wanted.key is None:
        yield from map(kind.shown, found.store.rows(wanted.table))
        return
    key = kind.looked_up(wanted.key)
    if key is None:
        message = f"rows of {wanted.table} are in order of time and have no keys to look up: leave --key out"
        raise UserActionError(message, code="UsageError")
    value = found.store.get(wanted.table, key)
    if value is not None:
        yield kind.shown((key, value))


def _task(found: OpenedState) -> dict[str, Any]:
    head = found.store.head
    tables = []
    for one in found.store.tables():
        size = runs_size(found.store.table(one.name))
        # What such a table has as keys are pieces of many rows: their number says nothing to users.
        keys = one.keys if size["runs"] is None else None
        tables.append({"name": one.name, "keys": keys, "bytes": one.bytes} | size)
    return {
        "task": found.task,
        "batch": head.batch,
        "epoch": head.epoch,
        "from": found.source,
        "why": found.why,
        "damaged": list(found.damaged),
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
    tables, some = set[str](), False
    for name in stores.tasks(task):
        with stores.opened(name) as found:
            tables |= (here := {one.name for one in found.store.tables()})
            for rows in _columns(found, stores, _kept_as(table, here)):
                arrays = [pa.repeat(pa.scalar(name, pa.string()), rows.num_rows), *rows.columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema([_TASK, *rows.schema]))
                some = True
    check_table(_kept_as(table, tables), tables)
    if not some:
        yield pa.RecordBatch.from_pylist([], pa.schema([_TASK, *row_kind(stores.logs, table).columns]))


def _columns(found: OpenedState, stores: RunStores, table: str) -> Iterator[pa.RecordBatch]:
    runs = RunsRows.of(found.store.table(table))
    if runs is not None:
        yield from runs.exported()
    elif not is_for_runs(stores.logs, table):
        kind, rows = row_kind(stores.logs, table), found.store.rows(table)
        while some := [kind.exported(row) for row in islice(rows, _ROWS_AT_ONCE)]:
            columns = zip(*some, strict=True)
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
