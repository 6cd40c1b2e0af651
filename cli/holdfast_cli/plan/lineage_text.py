"""Column lineage as `holdfast plan --lineage` shows it: a row for each column, and what decides which rows there are.

Must not decide where anything comes from.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from holdfast.errors import UserActionError
from holdfast.planning.graph import build_graph
from holdfast.planning.lineage import DIRECT, ColumnUse, InputColumn, Lineage, RowLineage, Uses, column_lineage
from holdfast.planning.plan import Plan
from holdfast.spec.app import AppSpec
from holdfast.suggest import did_you_mean
from holdfast_cli.output.text_table import TextTable

_FEWEST_FOR_ALL = 3
"""Of an input with fewer columns each is named."""
_DIRECT = {"IDENTITY": "", "TRANSFORMATION": "computed", "AGGREGATION": "aggregated"}
_INDIRECT = {
    "FILTER": "filtered by",
    "JOIN": "joined by",
    "GROUP_BY": "grouped by",
    "WINDOW": "by event time",
}


@dataclass(frozen=True, slots=True)
class ShownLineage:
    """The lineage of a stream, table or step, or of one column of it."""

    kind: str
    name: str
    lineage: RowLineage


def shown_lineages(spec: AppSpec, subject: str) -> list[ShownLineage]:
    """Return the lineage of `NAME` or `NAME.COLUMN`; of all streams and tables that the app writes, of no name."""
    everything = list(_all(column_lineage(spec)))
    if not subject:
        return [shown for shown in everything if shown.kind != "step"]
    name, _, column = subject.partition(".")
    of_name = [shown for shown in everything if shown.name == name]
    if not of_name:
        raise _unknown(spec, name, everything)
    if not column:
        return of_name
    of_column = [
        ShownLineage(shown.kind, name, shown.lineage.taking([exact]))
        for shown in of_name
        for exact in shown.lineage.columns
        if exact.casefold() == column.casefold()
    ]
    if not of_column:
        names = [exact for shown in of_name for exact in shown.lineage.columns]
        message = f"{name} has no column {column}{did_you_mean(column, names)} (columns: {', '.join(names)})"
        raise UserActionError(message, code="LineageUnknownError")
    return of_column


def _all(lineage: Lineage) -> Iterator[ShownLineage]:
    for kind, by_name in (("stream", lineage.streams), ("table", lineage.tables), ("step", lineage.steps)):
        yield from (ShownLineage(kind, name, rows) for name, rows in sorted(by_name.items()))


def _unknown(spec: AppSpec, name: str, everything: list[ShownLineage]) -> UserActionError:
    if name in build_graph(spec).streams:
        message = f"{name} is an input: its columns come from nothing that the app knows"
    else:
        names = [shown.name for shown in everything]
        message = f"the app writes no stream or table {name}, and has no such step{did_you_mean(name, names)}"
    return UserActionError(message, code="LineageUnknownError")


def lineage_json(lineages: list[ShownLineage]) -> list[dict[str, Any]]:
    """Return lineages as plain JSON values."""
    return [
        {
            "kind": shown.kind,
            "name": shown.name,
            "columns": {column: _uses_json(uses) for column, uses in shown.lineage.columns.items()},
            "rows": _uses_json(shown.lineage.rows),
        }
        for shown in lineages
    ]


def _uses_json(uses: Uses) -> list[dict[str, str]]:
    return [
        {use.input.kind: use.input.name, "column": use.input.column, "type": use.type, "subtype": use.subtype}
        for use in sorted(uses)
    ]


def print_lineage(console: Console, lineages: list[ShownLineage], plan: Plan) -> None:
    """Print a table with a row for each column."""
    sizes = {("stream", stream.name): len(stream.rows.columns) for stream in plan.streams}
    table = TextTable("COLUMN", "FROM")
    for shown in lineages:
        for column, uses in shown.lineage.columns.items():
            table.add(f"{shown.name}.{column}", _values(uses, sizes) or "(no column)")
        if shown.lineage.rows:
            table.add(f"{shown.name} (rows)", _rows(shown.lineage.rows, sizes))
    table.print(console)


def _values(uses: Uses, sizes: dict[tuple[str, str], int]) -> str:
    texts = []
    for how in DIRECT:
        names = ", ".join(_names(uses, how, sizes))
        if names:
            texts.append(names + (f" ({_DIRECT[how]})" if _DIRECT[how] else ""))
    return ", ".join(texts)


def _rows(uses: Uses, sizes: dict[tuple[str, str], int]) -> str:
    parts = ((words, ", ".join(_names(uses, how, sizes))) for how, words in _INDIRECT.items())
    return "; ".join(f"{words} {names}" for words, names in parts if names)


def _names(uses: Uses, how: str, sizes: dict[tuple[str, str], int]) -> Iterator[str]:
    """The columns that are used like this; all columns of one input are `orders.*`."""
    by_input: dict[tuple[str, str], list[InputColumn]] = defaultdict(list)
    for use in sorted(uses, key=_order):
        if use.subtype == how:
            by_input[use.input.kind, use.input.name].append(use.input)
    for (kind, name), columns in by_input.items():
        prefix = name if kind == "stream" else f"files of {name}"
        if len(columns) >= _FEWEST_FOR_ALL and len(columns) == sizes.get((kind, name)):
            yield f"{prefix}.*"
        else:
            yield from (f"{prefix}.{column.column}" for column in columns)


def _order(use: ColumnUse) -> InputColumn:
    return use.input
