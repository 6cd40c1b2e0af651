"""The command `holdfast state`: show and export an app's state, running or not, on this host or on a cluster.

Must not change the stores or the durable copy, nor disturb a running app.
"""

import argparse
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.api_answers import NotAllowedError
from holdfast.errors import UserActionError
from holdfast.spec.defaults import with_defaults
from holdfast.spec.parse import SpecInvalidError, parse_app
from holdfast.spec.runtime import AppDefaults
from holdfast.trees import Tree
from holdfast_cli.cluster.app import APPS, ClusterApp, find_app
from holdfast_cli.cluster.pod_command import (
    STDOUT,
    PodCommand,
    PodRunner,
    add_place_options,
    driver_that_runs,
    is_on_cluster,
    output_color,
    print_output,
    run_in_pod,
)
from holdfast_cli.cluster.target import namespace_target
from holdfast_cli.local.local_app import add_app_options, at_least_one, need_runtime, on_app
from holdfast_cli.output.help_text import HelpFormatter
from holdfast_cli.output.new_files import new_file
from holdfast_cli.output.screen import add_output_options, print_message
from holdfast_runtime.inspection.local_app import LocalApp

if TYPE_CHECKING:
    from holdfast_runtime.inspection.run_stores import RunStores

_MOST = 100
_RAW = "rows of aggregate, join and deduplicate steps as they are kept: in pieces, with Holdfast's own columns"
_EPILOG = """\
Reads the local store of each task; where there is none that can be trusted, or with --durable, the durable copy, which
is restored to a temporary directory first. A running app neither waits nor is waited for.

With --cluster, or -n, --context or --kubeconfig, the app is the name of a StreamApp, and its durable copies are read,
each as after the last batch that its task has written there, which is told. They are read in the pod of the app's
driver, which reaches them, by your rights to get streamapps.holdfast.dev and pods and to get and create pods/exec.
Where no driver runs, with --checkpoint and by `sql`, they are read from here: at the checkpoint location of its spec,
or where --checkpoint says, with your credentials for the bucket.

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
Rows of `process` steps show key, state, timers and, with a ttl, the last touch (rounded up); those of a table what a
look-up would find. Other steps have their own columns:
  aggregate    a row per key and window (or open session), with the results that it would give if it ended now
  join         the rows that wait: their side, the columns that come out, their event time (time) and until when they
               wait (waits_until); where rows without a partner come out, whether they had one (matched)
  deduplicate  the keys that have passed, their event time (time), and with `within` up to which event time others are
               dropped (remembered_until); a key may have several
A column of Holdfast gets a _ behind its name if the app has that name, too. Results that can't be computed are null. A
step that the app no longer has is shown as it is kept, as with --raw. Of other tables keys and values are texts, or
base64:... where they are not. With -o json each row is a line.

examples:
  holdfast state get app.yaml --table changed --key sku-1
  holdfast state get app.yaml --table counted --key spring             aggregate: {by: [campaign], window: 10s}
  holdfast state get app.yaml --table matched.left                     one side of a join; both: matched
  holdfast state get app.yaml --table campaign-info --key spring       tables: [{name: campaign-info}]
  holdfast state get app.yaml --table visits --key '["shop-1",7]'     by: [shop, user]

"""
    + _EPILOG
)
_EXPORT_EPILOG = (
    """\
Columns: task, the key's own columns, state and timers as JSON, and touched for `process` steps; task, key, kind and
time for their timers; task and the columns of `state get` for `aggregate`, `join`, `deduplicate` and tables (in a join,
a column that has another type on each side has the side in front: left_price); task, key and value as bytes for others.

"""
    + _EPILOG
)


_SQL_EPILOG = (
    """\
The app's tables and steps with state are tables of DuckDB, under their names, with the columns that `export` gives
them; so are sides of joins (STEP_left, STEP_right). `-` and `.` in names are `_`. Only what the query names is read.
While the app runs, tasks may be a batch apart. Needs the extra `sql`.

examples:
  holdfast state sql app.yaml "select owner, count(*) from campaign_info group by owner"
  holdfast state sql app.yaml "select campaign, sum(clicks) from counted group by campaign" -o json

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
    get.add_argument("--raw", action="store_true", help=_RAW)
    add_output_options(get)
    export = _action(actions, "export", "write a table to a file", "Write a whole table to a file.", _EXPORT_EPILOG)
    export.add_argument("--table", metavar="NAME", required=True, help="a table, see `holdfast state ls`")
    export.add_argument(
        "--to",
        metavar="FILE",
        required=True,
        type=_file,
        help="FILE.parquet or FILE.arrow; with - as FILE: standard output",
    )
    export.add_argument("--raw", action="store_true", help=_RAW)
    sql = _action(actions, "sql", "query tables", "Query tables and state with SQL.", _SQL_EPILOG, task=False)
    sql.add_argument("query", metavar="QUERY", help="a SELECT")
    sql.add_argument("--max", type=at_least_one, default=_MOST, metavar="N", help=f"at most N rows (default: {_MOST})")
    add_output_options(sql)
    for action, run in ((ls, _ls), (get, _get), (export, _export), (sql, _sql)):
        action.set_defaults(run=_shown(run))
    for action, command in ((ls, LS_IN_POD), (get, GET_IN_POD), (export, EXPORT_IN_POD)):
        action.set_defaults(in_pod=command)


_READ = ("task", "run_id", "durable")
LS_IN_POD = PodCommand(("state", "ls"), (*_READ, "output"))
GET_IN_POD = PodCommand(("state", "get"), (*_READ, "table", "key", "max", "raw", "output"))
EXPORT_IN_POD = PodCommand(("state", "export"), (*_READ, "table", "to", "raw"))


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
        formatter_class=HelpFormatter,
    )
    add_app_options(parser)
    if task:
        parser.add_argument("--task", metavar="T", help="only this task, e.g. partition-0")
    parser.add_argument("--run", dest="run_id", metavar="ID", help="another run than spec.runId")
    parser.add_argument("--durable", action="store_true", help="read the durable copy, not the local stores")
    cluster = add_place_options(parser)
    cluster.add_argument("--checkpoint", metavar="LOCATION", help="its checkpoint location, as reached from here")
    return parser


def _file(text: str) -> str:
    if not text.endswith((".parquet", ".arrow")):
        message = f"{text} must end in .parquet or .arrow"
        raise argparse.ArgumentTypeError(message)
    return text


Show = Callable[["RunStores", argparse.Namespace], None]


def _shown(show: Show) -> Callable[[argparse.Namespace], int]:
    """Return a command that shows something of an app's stores."""

    def on_host(local_app: LocalApp, options: argparse.Namespace) -> int:
        from holdfast_runtime.inspection.run_stores import RunStores  # noqa: PLC0415 - needs the extra `runtime`

        stores = RunStores.of(local_app, options.run_id, durable=options.durable)
        show(stores, options)
        if local_app.cluster is not None:
            _report_batches(stores)
        return 0

    def run(options: argparse.Namespace) -> int:
        if not is_on_cluster(options):
            if options.checkpoint is not None:
                message = (
                    "--checkpoint is for an app on a cluster: add --cluster, and name the app in place of its file"
                )
                raise UserActionError(message, code="UsageError")
            return on_app(on_host, LS_IN_POD)(options)
        target = namespace_target("state --cluster", options)
        with closing(target.connect()) as client:
            cluster_app = find_app(client, target.namespace, options.app)
            command: PodCommand | None = getattr(options, "in_pod", None)
            pod = None if command is None or options.checkpoint else _driver_if_allowed(client, cluster_app)
            if command is not None and pod is not None:
                return _in_pod(client, (target.namespace, pod), command, options)
            tree = client.get(APPS, target.namespace, options.app)
        if command is not None and not options.checkpoint:
            why = "has no driver that runs, or you may not see it"
            print_message(f"holdfast: {options.app} {why}: its durable copies are read from here")
        stores = _from_here(cluster_app, tree, options)
        show(stores, options)
        _report_batches(stores)
        return 0

    return run


def _driver_if_allowed(client: PodRunner, cluster_app: ClusterApp) -> str | None:
    try:
        return driver_that_runs(client, cluster_app)
    except NotAllowedError:
        return None  # the copies may still be read from here


def _report_batches(stores: "RunStores") -> None:
    for name, batch in sorted(stores.batches.items()):
        print(f"{name}: as after its batch {batch}", file=sys.stderr)  # noqa: T201 - beside the rows


def _in_pod(client: PodRunner, where: tuple[str, str], command: PodCommand, options: argparse.Namespace) -> int:
    try:
        return _shown_in_pod(client, where, command, options)
    except NotAllowedError as error:
        message = f"{error}; or read the durable copies from here, with --checkpoint LOCATION"
        raise NotAllowedError(message, code=error.code) from error


def _shown_in_pod(client: PodRunner, where: tuple[str, str], command: PodCommand, options: argparse.Namespace) -> int:
    if command is not EXPORT_IN_POD:
        return run_in_pod(client, where, command.line(options, output_color()))
    line = command.line(options, output_color(), to=f"-{Path(options.to).suffix}")
    with new_file(options.to) as temporary, temporary.open("wb") as file:

        def write(stream: int, data: bytes) -> None:
            if stream == STDOUT:
                file.write(data)
            else:
                print_output(stream, data)

        code = run_in_pod(client, where, line, write)
        if code:
            temporary.unlink()
    return code


def _from_here(cluster_app: ClusterApp, tree: Tree | None, options: argparse.Namespace) -> "RunStores":
    """Return the durable copies of an app on a cluster, read from this host."""
    need_runtime("the durable copy", ("lmdb", "numpy", "pyarrow"))
    from holdfast_runtime.inspection.run_stores import RunStores  # noqa: PLC0415 - needs the extra `runtime`

    try:
        app = with_defaults(parse_app(tree), cluster_app.status.defaults or AppDefaults())
    except SpecInvalidError as error:
        message = f"{options.app} on the cluster is no StreamApp of this release: {error}"
        raise UserActionError(message, code="UsageError") from error
    run = options.run_id or cluster_app.status.run_id or app.spec.run_id
    return RunStores.on_cluster(app, run, cluster_app.namespace, options.checkpoint)


def _ls(stores: "RunStores", options: argparse.Namespace) -> None:
    from holdfast_cli.state.state_tables import show_tables  # noqa: PLC0415

    show_tables(stores, options.task, options.output, options.color)


def _get(stores: "RunStores", options: argparse.Namespace) -> None:
    from holdfast_cli.state.state_tables import show_rows  # noqa: PLC0415
    from holdfast_runtime.inspection.run_tables import RowSelection  # noqa: PLC0415

    selection = RowSelection(options.table, options.task, options.key, options.max, options.raw)
    show_rows(stores, selection, options.output, options.color)


def _export(stores: "RunStores", options: argparse.Namespace) -> None:
    from holdfast_cli.state.state_tables import export  # noqa: PLC0415

    export(stores, options.table, options.task, options.to, raw=options.raw)


def _sql(stores: "RunStores", options: argparse.Namespace) -> None:
    try:
        from holdfast_cli.state.state_sql import show_query  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "duckdb":
            raise
        message = "`holdfast state sql` needs DuckDB: in a checkout of Holdfast, pip install '.[sql]'"
        raise UserActionError(message, code="UsageError") from error
    show_query(stores, options.query, options.max, options.output, options.color)
