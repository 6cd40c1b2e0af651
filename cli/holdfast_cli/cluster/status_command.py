"""The command `holdfast status`: whether the apps on a cluster are healthy, and what to do about those that aren't.

Must not import the Kubernetes client before it is needed: it takes half a second to load.
"""

import argparse

from holdfast_cli.cluster.target import add_cluster_options, add_namespace_option, need_client
from holdfast_cli.output.failures import UsageError

_INTERRUPTED = 130
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
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("app", nargs="?", metavar="APP", help="name of a StreamApp (default: a line for each)")
    where = parser.add_mutually_exclusive_group()
    add_namespace_option(where)
    where.add_argument("-A", "--all-namespaces", action="store_true", help="apps of all namespaces")
    add_cluster_options(parser)
    parser.add_argument("--tasks", action="store_true", help="show every processor and every task")
    parser.add_argument("--watch", action="store_true", help="go on showing what changes, until Ctrl-C")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: on a terminal")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read and print; return the exit code, which says whether the app is ready."""
    if options.app is not None and options.all_namespaces:
        message = f"-A shows the apps of all namespaces; to see {options.app}, give its namespace with -n"
        raise UsageError(message)
    need_client("status")
    from holdfast_cli.cluster.status import show_status  # noqa: PLC0415 - needs the extra `cluster`

    try:
        return show_status(options)
    except KeyboardInterrupt:
        return 0 if options.watch else _INTERRUPTED
