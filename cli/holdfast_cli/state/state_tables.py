"""The output of `holdfast state`: tables and rows as text or JSON, and a whole table as a file.

An export is Parquet or Arrow, takes bounded memory, and its file appears only when it is complete. Must not read state
itself.
"""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from typing_extensions import Buffer

from holdfast.errors import UserActionError
from holdfast_cli.output.amounts import many
from holdfast_cli.output.new_files import new_file
from holdfast_cli.output.screen import noting, print_json, screen
from holdfast_cli.output.text_table import TextTable
from holdfast_runtime.inspection.run_stores import RunStores
from holdfast_runtime.inspection.run_tables import (
    BroadcastSummary,
    RowSelection,
    TableSummary,
    TaskSummary,
    broadcast_summaries,
    selected_rows,
    table_columns,
    task_summaries,
)
from holdfast_runtime.inspection.table_rows import as_json, row_time

_NUMBERS = ("KEYS", "BYTES", "BATCH", "EPOCH")
_OF_LAYERED = ("rows", "runs", "oldest", "newest")


def show_tables(stores: RunStores, task: str | None, output: str, color: str) -> None:
    """Print a line per task and table."""
    tasks = [_task(summary) for summary in task_summaries(stores, task)]
    shared = [] if task is not None else [_broadcast(summary) for summary in broadcast_summaries(stores)]
    if output == "json":
        tree = {"app": stores.local_app.app.name, "run": stores.run, "tasks": tasks, "broadcast": shared}
        print_json(tree)
        return
    # Most apps have no such tables, and their lines stay short.
    any_layered = any(table_tree["runs"] is not None for task_tree in tasks for table_tree in task_tree["tables"])
    more = _OF_LAYERED if any_layered or shared else ()
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


def show_rows(stores: RunStores, selection: RowSelection, output: str, color: str) -> None:
    """Print the selected rows."""
    rows = selected_rows(stores, selection, noting(color))
    if output == "json":
        sys.stdout.writelines(as_json(row) + "\n" for row in rows)
    else:
        _print(rows, color)


def _task(summary: TaskSummary) -> dict[str, Any]:
    return {
        "task": summary.task,
        "batch": summary.batch,
        "epoch": summary.epoch,
        "from": summary.source,
        "why": summary.why,
        "damaged": list(summary.damaged),
        "tables": [
            {"name": table.name, "keys": table.keys, "bytes": table.bytes} | _layered(table) for table in summary.tables
        ],
    }


def _broadcast(summary: BroadcastSummary) -> dict[str, Any]:
    table = summary.table
    return {"name": table.name, "bytes": table.bytes, "batch": summary.batch, "from": summary.source} | _layered(table)


def _layered(table: TableSummary) -> dict[str, Any]:
    size = table.layered
    if size is None:
        return dict.fromkeys(_OF_LAYERED)
    oldest, newest = (None if time is None else row_time(time) for time in (size.oldest, size.newest))
    return {"rows": size.rows, "runs": size.layers, "oldest": oldest, "newest": newest}


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


def export(stores: RunStores, table: str, task: str | None, to: str, *, raw: bool) -> None:
    """Write a table to a file, or to standard output, and print how many rows it has."""
    batches, parquet = table_columns(stores, table, task, noting("auto"), raw=raw), to.endswith(".parquet")
    if Path(to).stem == "-":
        count = _write(batches, CountedOutput(sys.stdout.buffer), table, parquet=parquet)
        sys.stderr.write(f"{many(count, 'row')} of {table} written\n")
        return
    with new_file(to) as temporary, temporary.open("wb") as file:
        count = _write(batches, file, table, parquet=parquet)
    sys.stdout.write(f"{many(count, 'row')} of {table} written to {to}\n")


def _write(batches: Iterator[pa.RecordBatch], sink: io.BufferedIOBase, table: str, *, parquet: bool) -> int:
    first, count = next(batches), 0
    with _writer(sink, first.schema, parquet=parquet) as write:
        for batch in chain([first], batches):
            if batch.schema != first.schema:
                message = f"tasks hold table {table} with other columns: export them one by one, with --task"
                raise UserActionError(message, code="UsageError")
            write(batch)
            count += batch.num_rows
    return count


@contextmanager
def _writer(sink: io.BufferedIOBase, schema: pa.Schema, *, parquet: bool) -> Iterator[Callable[[pa.RecordBatch], None]]:
    if parquet:
        from pyarrow import parquet as pq  # noqa: PLC0415 - slow to import

        with pq.ParquetWriter(sink, schema) as writer:
            yield writer.write_batch
    else:
        with pa.ipc.new_file(sink, schema) as stream:
            yield stream.write_batch


class CountedOutput(io.BufferedIOBase):
    """Output that can say how much was written to it, as file formats need; a pipe can't."""

    def __init__(self, output: BinaryIO) -> None:
        self._output, self._written = output, 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Buffer) -> int:
        """Write all of it."""
        view = memoryview(data)
        self._output.write(view)
        self._written += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._written

    def flush(self) -> None:
        """Hand on what is buffered."""
        self._output.flush()
