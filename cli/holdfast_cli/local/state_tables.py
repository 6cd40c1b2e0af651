"""Why: `holdfast state ls` and `get`: tables and rows on the screen, or as JSON."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from holdfast.suggest import did_you_mean
from holdfast_cli.local.state_rows import Row, RowKind, as_json, row_kind
from holdfast_cli.local.state_stores import OpenedState, RunStores
from holdfast_cli.output.screen import TextTable, screen
from holdfast_cli.plan.partition_counts import UsageError

_NUMBERS = ("KEYS", "BYTES", "BATCH", "EPOCH")


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Which rows."""

    table: str
    task: str | None
    key: str | None
    most: int


def show_tables(stores: RunStores, task: str | None, output: str, color: str) -> None:
    """A row per task and table."""
    tasks = []
    for name in stores.tasks(task):
        with stores.opened(name) as found:
            tasks.append(_task(found))
    if output == "json":
        tree = {"app": stores.logs.app.name, "run": stores.run, "tasks": tasks}
        sys.stdout.write(json.dumps(tree, indent=1, ensure_ascii=False) + "\n")
        return
    table = TextTable("TASK", "TABLE", *_NUMBERS, "FROM", right=_NUMBERS)
    for one in tasks:
        source = one["from"] if one["why"] is None else f"{one['from']} ({one['why']})"
        standing = str(one["batch"]), "-" if one["epoch"] is None else str(one["epoch"])
        for each in one["tables"] or [{"name": "-", "keys": 0, "bytes": 0}]:
            table.add(one["task"], each["name"], str(each["keys"]), str(each["bytes"]), *standing, source)
    table.print(screen(color))
    for one in tasks:
        for damaged in one["damaged"]:
            screen(color, to_stderr=True).print(f"warning: {damaged}")


def show_rows(stores: RunStores, wanted: RowSelection, output: str, color: str) -> None:
    """A row per row."""
    rows: list[dict[str, Any]] = []
    tables: set[str] = set()
    for name in stores.tasks(wanted.task):
        if len(rows) >= wanted.most:
            break
        with stores.opened(name) as found:
            tables |= {table.name for table in found.store.tables()}
            kind = row_kind(stores.logs, wanted.table)
            # All of them before the store is let go: only then is it known that none was written over meanwhile.
            some = islice(_rows(found, kind, wanted), wanted.most - len(rows))
            rows += [{"task": name} | kind.shown(row) for row in some]
    check_table(wanted.table, tables)
    if wanted.key is not None and not rows:
        message = f"table {wanted.table} has no key {wanted.key}"
        raise UsageError(message)
    if output == "json":
        sys.stdout.writelines(as_json(row) + "\n" for row in rows)
    else:
        _print(rows, color)


def check_table(name: str, tables: set[str]) -> None:
    """Refuse a table that no task has."""
    if name not in tables:
        there = ", ".join(sorted(tables)) or "none"
        message = f"no task has a table {name}{did_you_mean(name, sorted(tables))}; tables: {there}"
        raise UsageError(message)


def _rows(found: OpenedState, kind: RowKind, wanted: RowSelection) -> Iterator[Row]:
    if wanted.key is None:
        yield from found.store.rows(wanted.table)
        return
    key = kind.looked_up(wanted.key)
    if key is None:
        message = f"rows of {wanted.table} are in order of time and have no keys to look up: leave --key out"
        raise UsageError(message)
    value = found.store.get(wanted.table, key)
    if value is not None:
        yield key, value


def _task(found: OpenedState) -> dict[str, Any]:
    head = found.store.head
    tables = [{"name": one.name, "keys": one.keys, "bytes": one.bytes} for one in found.store.tables()]
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
