"""The command `holdfast logs`: logs of an app's driver or executors, selected by app and attempt, not by pod.

Must not import the Kubernetes client before it is needed: it takes half a second to load.
"""

import argparse

from holdfast_cli.cluster.target import add_cluster_options, add_namespace_option, duration_seconds, need_client
from holdfast_cli.output.failures import UsageError

_INTERRUPTED = 130
_MOST = 999_999_999
_EPILOG = """\
Without options: the log of the driver of the newest attempt. Its lines go to stdout; what is about the log goes to
stderr.

-f reads on, and goes over to the next attempt's driver when one ends, until the app is completed or deleted, or until
Ctrl-C. With --attempt it ends with that attempt. A log that breaks off is read on from its last line.

Logs of several pods are mixed as their lines arrive; each line begins with whose it is: [driver], or [3] for executor
3. --previous: of a driver the attempt before the newest; of executors what ran in the pod before its container was
restarted. A pod that is gone has taken its log with it: what collects the logs of the cluster may still have it.

The cluster, the user and the namespace are those of kubectl. It takes the rights to get streamapps.holdfast.dev, to
list pods and to get pods/log.

Exit codes: 0 shown (-f: the app is over, or Ctrl-C), 1 there is no such app, attempt, pod or log, or it can't be read,
2 wrong command line or no cluster, 130 Ctrl-C.

examples:
  holdfast logs ad-clicks
  holdfast logs ad-clicks -f --tail 100
  holdfast logs ad-clicks --attempt 2 --since 10m
  holdfast logs ad-clicks --executor 3 --timestamps
  holdfast logs ad-clicks -n shop --all -f
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "logs",
        help="show the log of an app's driver or executors",
        description="Show the log of an app's driver or of its executors, and follow it over attempts.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("app", metavar="APP", help="name of a StreamApp")
    add_namespace_option(parser)
    add_cluster_options(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="read on, over attempts")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--executor", type=_number, action="append", metavar="N", help="executor N, counted from 0; may be repeated"
    )
    which.add_argument("--executors", action="store_true", help="all executors")
    which.add_argument("--all", action="store_true", help="the driver and all executors")
    parser.add_argument("--attempt", type=_counted, metavar="N", help="of this attempt (default: the newest)")
    parser.add_argument("--previous", action="store_true", help="what was there before; see below")
    parser.add_argument("--since", type=duration_seconds, metavar="10m", help="only lines of the last 10m, 2h, 30s")
    parser.add_argument("--tail", type=_number, metavar="N", help="only the last N lines of each log")
    parser.add_argument("--timestamps", action="store_true", help="begin each line with its moment")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Find the logs and print them."""
    only_driver = not (options.executor or options.executors or options.all)
    if options.previous and options.follow:
        message = "--previous is over and can't be followed; leave out -f, or --previous"
        raise UsageError(message)
    if options.previous and options.all:
        message = "--previous means another attempt of a driver, and the same pod of executors; leave out --all"
        raise UsageError(message)
    if options.previous and only_driver and options.attempt is not None:
        message = f"--previous is the attempt before the newest; to see attempt {options.attempt}, leave it out"
        raise UsageError(message)
    need_client("logs")
    from holdfast_cli.cluster.logs import show_logs  # noqa: PLC0415 - needs the extra `cluster`

    try:
        return show_logs(options)
    except KeyboardInterrupt:
        return 0 if options.follow else _INTERRUPTED


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MOST))):
        message = f"{text} is no number from 0 to {_MOST}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _counted(text: str) -> int:
    number = _number(text)
    if number < 1:
        message = "attempts are counted from 1"
        raise argparse.ArgumentTypeError(message)
    return number
