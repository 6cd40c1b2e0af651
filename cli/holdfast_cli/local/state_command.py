"""The command `holdfast state`: show and export an app's state, whether the app is running or not.

Must not change the stores or the durable copy, nor disturb a running app.
"""

import argparse
from typing import TYPE_CHECKING

from holdfast.errors import UserActionError
from holdfast_cli.local.local_app import LocalApp, add_app_options, at_least_one, on_app
from holdfast_cli.output.screen import add_output_options

if TYPE_CHECKING:
    from holdfast_cli.local.state_stores import RunStores

_MOST = 100
_EPILOG = """\
Reads the local store of each task; where there is none that can be trusted, or with --durable, the durable copy, which
is restored to a temporary directory first. A running app neither waits nor is waited for.

Exit codes: 0 done, 1 the app is invalid, 2 there is no such state, or it can't be read.
"""
_LS_EPILOG = (
    "A table has the name of the step it belongs to, or of what the step `was`; names that begin with a dot are "
    "Holdfast's own.\n"
    "Tables of `deduplicate` have rows in runs, which batches add and later ones merge. Instead of KEYS they have\n"
    "ROWS (some count twice while they are merged), RUNS, and when the OLDEST and NEWEST stretch of time begins.\n\n"
    + _EPILOG
)
_GET_EPILOG = (
    """\
Rows of `process` steps show key, state, timers and, with a ttl, the last touch (rounded up). Rows of `deduplicate`
steps show key, event time and, with `within`, when the stretch of time begins that they are kept in (bucket); a key may
have several. Rows of `join` and `aggregate` steps show what waits, and those of a table what a look-up would find. Of
other tables keys and values are texts, or base64:... where they are not. With -o json each row is a line.

examples:
  holdfast state get app.yaml --table changed --key sku-1
  holdfast state get app.yaml --table campaign-info --key spring       tables: [{name: campaign-info}]
  holdfast state get app.yaml --table visits --key '["shop-1",7]'     by: [shop, user]

"""
    + _EPILOG
)
_EXPORT_EPILOG = (
    """\
Columns: task, the key's own columns, state and timers as JSON, and touched for `process` steps; task, key, kind and
time for their timers; task, the key's own columns, bucket and time for `deduplicate` steps; task, key and value as
bytes for other tables.

"""
    + _EPILOG
)


_SQL_EPILOG = (
    """\
The app's tables, sides of joins (STEP_left, STEP_right) and other steps with state are tables of DuckDB, with the
columns that `export` gives them; `-` and `.` in names are `_`. Only what the query names is read. While the app runs,
tasks may be a batch apart. Needs the extra `sql`.

examples:
  holdfast state sql app.yaml "select owner, count(*) from campaign_info group by owner"
  holdfast state sql app.yaml "select task, count(*) from matched_left group by task" -o json

"""  # noqa: S608 - a text for people
    + _EPILOG
)


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "state", help="show what an app remembers", description="Show what an app remembers, task by task."
    )
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    ls = _action(actions, "ls", "list tables", "List the tables of each task.", _LS_EPILOG)
    add_output_options(ls)
    get = _action(actions, "get", "show rows of a table", "Show rows of a table, decoded.", _GET_EPILOG)
    get.add_argument("--table", metavar="NAME", required=True, help="a table, see `holdfast state ls`")
    get.add_argument("--key", metavar="KEY", help="only this key; of several columns or no text: as JSON")
    get.add_argument("--max", type=at_least_one, default=_MOST, metavar="N", help=f"at most N rows (default: {_MOST})")
    add_output_options(get)
    export = _action(actions, "export", "write a table to a file", "Write a whole table to a file.", _EXPORT_EPILOG)
    export.add_argument("--table", metavar="NAME", required=True, help="a table, see `holdfast state ls`")
    export.add_argument("--to", metavar="FILE", required=True, type=_file, help="FILE.parquet or FILE.arrow")
    sql = _action(actions, "sql", "query tables", "Query tables and state with SQL.", _SQL_EPILOG, task=False)
    sql.add_argument("query", metavar="QUERY", help="a SELECT")
    sql.add_argument("--max", type=at_least_one, default=_MOST, metavar="N", help=f"at most N rows (default: {_MOST})")
    add_output_options(sql)
    for one, run in ((ls, _ls), (get, _get), (export, _export), (sql, _sql)):
        one.set_defaults(run=on_app(run))


def _action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    hint: str,
    description: str,
    epilog: str,
    *,
    task: bool = True,
) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        name,
        help=hint,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_app_options(parser)
    if task:
        parser.add_argument("--task", metavar="T", help="only this task, e.g. partition-0")
    parser.add_argument("--run", dest="run_id", metavar="ID", help="another run than spec.runId")
    parser.add_argument("--durable", action="store_true", help="read the durable copy, not the local stores")
    return parser


def _file(text: str) -> str:
    if not text.endswith((".parquet", ".arrow")):
        message = f"{text} must end in .parquet or .arrow"
        raise argparse.ArgumentTypeError(message)
    return text


def _stores(logs: LocalApp, options: argparse.Namespace) -> "RunStores":
    # Imported here, as they need the extra `runtime`.
    from holdfast_cli.local.state_stores import RunStores  # noqa: PLC0415

    return RunStores.of(logs, options.run_id, durable=options.durable)


def _ls(logs: LocalApp, options: argparse.Namespace) -> int:
    from holdfast_cli.local.state_tables import show_tables  # noqa: PLC0415

    show_tables(_stores(logs, options), options.task, options.output, options.color)
    return 0


def _get(logs: LocalApp, options: argparse.Namespace) -> int:
    from holdfast_cli.local.state_tables import RowSelection, show_rows  # noqa: PLC0415

    wanted = RowSelection(options.table, options.task, options.key, options.max)
    show_rows(_stores(logs, options), wanted, options.output, options.color)
    return 0


def _export(logs: LocalApp, options: argparse.Namespace) -> int:
    from holdfast_cli.local.state_tables import export  # noqa: PLC0415

    export(_stores(logs, options), options.table, options.task, options.to)
    return 0


def _sql(logs: LocalApp, options: argparse.Namespace) -> int:
    try:
        from holdfast_cli.local.state_sql import show_query  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "duckdb":
            raise
        message = "`holdfast state sql` needs DuckDB: pip install 'holdfast[sql]'"
        raise UserActionError(message, code="UsageError") from error
    show_query(_stores(logs, options), options.query, options.max, options.output, options.color)
    return 0
