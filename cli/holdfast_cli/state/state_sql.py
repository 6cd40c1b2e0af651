"""SQL over what an app remembers: its tables and the state of its steps, as tables of DuckDB.

Only tables that the query names are read. A name that is no word in SQL has `_` in place of other letters:
`campaign-info` is `campaign_info`. Rows of tasks have a column `task`. Must not write anything, and no query must reach
files.
"""

import re
import sys
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from holdfast.errors import UserActionError
from holdfast.spec.kept_state import kept_rows, row_tables, state_name
from holdfast.suggest import did_you_mean
from holdfast_cli.output.screen import noting, screen
from holdfast_cli.output.text_table import TextTable
from holdfast_runtime.inspection.run_stores import RunStores
from holdfast_runtime.inspection.run_tables import table_columns
from holdfast_runtime.inspection.table_rows import as_json, plain

_OTHER = re.compile(r"\W")


def show_query(stores: RunStores, query: str, most: int, output: str, color: str) -> None:
    """Print the result of a query."""
    table_names, note = _names(stores), noting(color)
    with duckdb.connect(":memory:", config={"enable_external_access": "false"}) as database:
        for name in _read(query):
            if name not in table_names:
                near, listed = did_you_mean(name, sorted(table_names)), ", ".join(sorted(table_names))
                message = f"the query reads {name}, and there is no such table{near}; tables: {listed}"
                raise UserActionError(message, code="UsageError")
            database.register(name, pa.Table.from_batches(table_columns(stores, table_names[name], None, note)))
        try:
            answer: duckdb.DuckDBPyRelation | None = database.sql(query)
            if answer is None:
                message = "the query gives no rows: write a SELECT"
                raise UserActionError(message, code="UsageError")
            selected = answer.limit(most).to_arrow_table()
        except duckdb.Error as error:
            message = f"DuckDB can't run the query: {error}"
            raise UserActionError(message, code="UsageError") from error
    columns = [[plain(value) for value in column.to_pylist()] for column in selected.columns]
    rows = [dict(zip(selected.column_names, values, strict=True)) for values in zip(*columns, strict=True)]
    if output == "json":
        sys.stdout.writelines(as_json(row) + "\n" for row in rows)
        return
    table = TextTable(*(name.upper() for name in selected.column_names))
    for row in rows:
        table.add(*(_cell(value) for value in row.values()))
    table.print(screen(color))


def _names(stores: RunStores) -> dict[str, str]:
    """Return name in SQL -> what `holdfast state` calls it."""
    spec = stores.local_app.app.spec
    rows = {name: name for step in spec.steps if (tables := row_tables(step)) for name in (step.name, *tables)}
    keyed = {step.name: state_name(step) for step in spec.steps if step.process and not row_tables(step)}
    tables = {table.name: table.name for table in spec.tables}
    assert kept_rows(spec).keys() <= {*rows, *tables}  # noqa: S101 - nothing that is kept is left out
    return {_OTHER.sub("_", shown): name for shown, name in {**keyed, **rows, **tables}.items()}


def _read(query: str) -> list[str]:
    """Return the tables that a query names."""
    try:
        tree = parse_one(query, dialect="duckdb")
    except SqlglotError as error:
        message = f"the query is not SQL: {str(error).splitlines()[0]}"
        raise UserActionError(message, code="UsageError") from error
    aliases = {expression.alias for expression in tree.find_all(exp.CTE)}
    return sorted({table.name for table in tree.find_all(exp.Table) if table.name not in aliases and table.name})


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) and value.isprintable() else as_json(value)
