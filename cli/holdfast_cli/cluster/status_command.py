"""The command `holdfast status`: whether the apps on a cluster are healthy, and what to do about those that aren't.

Reads apps once or repeatedly, with the user's rights, and writes nothing.
"""

import argparse
import time
from contextlib import closing, suppress
from functools import partial
from typing import Any

from rich.console import Console

from holdfast.errors import UserActionError
from holdfast_cli.cluster.app import AppDetail, AppList, read_app, read_apps
from holdfast_cli.cluster.status_view import app_json, list_json, print_app, print_apps
from holdfast_cli.cluster.target import add_cluster_options, add_namespace_option, add_output_options, namespace_target
from holdfast_cli.output.help_text import HelpFormatter
from holdfast_cli.output.live import print_json, watch, watch_view
from holdfast_cli.output.screen import screen

_NOT_READY = 1
_EVERY = 2.0
"""Seconds between two looks with --watch."""
_EPILOG = """\
The cluster, the user and the namespace are those of kubectl: --kubeconfig, or the files of KUBECONFIG, or
~/.kube/config; in a pod without one, the pod's own. It takes the rights to get and list streamapps.holdfast.dev
and configmaps, and to list events.events.k8s.io; what may not be seen of an app is said to be missing.

Exit codes: 0 the app is ready (a list was shown, --watch was ended by Ctrl-C), 1 it is not ready, 2 it can't be asked
for: no cluster, no rights, no such app, wrong command line.

examples:
  holdfast status                       every app of the namespace
  holdfast status ad-clicks             conditions, attempt, last batch, lag, tasks and their places, events
  holdfast status ad-clicks --watch
  holdfast status -A -o json | jq -r '.apps[] | select(.ready | not) | .app'
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "status",
        help="show how apps do on a cluster",
        description="Show how apps do on a cluster: what is wrong first and what to do, how far they are, where tasks "
        "run.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("app", nargs="?", metavar="APP", help="name of a StreamApp (default: a line for each)")
    group = parser.add_mutually_exclusive_group()
    add_namespace_option(group)
    group.add_argument("-A", "--all-namespaces", action="store_true", help="apps of all namespaces")
    add_cluster_options(parser)
    parser.add_argument("--tasks", action="store_true", help="show every processor and every task")
    parser.add_argument("--watch", action="store_true", help="go on showing what changes, until Ctrl-C")
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read and print; return the exit code, which says whether the app is ready."""
    if options.app is not None and options.all_namespaces:
        message = f"-A shows the apps of all namespaces; to see {options.app}, give its namespace with -n"
        raise UserActionError(message, code="UsageError")
    target = namespace_target("status", options)
    namespace = None if options.all_namespaces else target.namespace

    def draw(console: Console, app_or_list: AppDetail | AppList) -> None:
        now = time.time_ns() // 1_000_000
        if isinstance(app_or_list, AppList):
            print_apps(console, app_or_list, now, namespace=namespace)
        else:
            print_app(console, app_or_list, now, all_tasks=options.tasks)

    with closing(target.connect()) as client:

        def look() -> AppDetail | AppList:
            return (
                read_apps(client, namespace) if options.app is None else read_app(client, target.namespace, options.app)
            )

        if options.watch:
            with watch_view(options.output, options.color, draw, _tree) as view, suppress(KeyboardInterrupt):
                for _ in watch(look, view, partial(time.sleep, _EVERY)):
                    pass
            return 0
        app_or_list = look()
    if options.output == "json":
        print_json(_tree(app_or_list), indent=1)
    else:
        draw(screen(options.color), app_or_list)
    return 0 if isinstance(app_or_list, AppList) or app_or_list.app.verdict.ready else _NOT_READY


def _tree(app_or_list: AppDetail | AppList) -> dict[str, Any]:
    return list_json(app_or_list) if isinstance(app_or_list, AppList) else app_json(app_or_list)
