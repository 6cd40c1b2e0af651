"""The command `holdfast logs`: logs of an app's driver or executors, selected by app and attempt, not by pod.

Reads with the user's rights and writes nothing.
"""

import argparse
from collections.abc import Mapping
from contextlib import closing, suppress
from functools import partial

from holdfast.errors import HoldfastError, UserActionError, WorldChangeError
from holdfast.protocol.names import APP_LABEL
from holdfast_cli.cluster.app import PODS, ObjectReader, find_app
from holdfast_cli.cluster.pod_logs import (
    DRIVER,
    AppPods,
    LogFollower,
    LogOpener,
    LogSelection,
    OpenLog,
    PodLog,
    attempts_in,
    no_pods_message,
    print_line,
    say,
    selected_logs,
)
from holdfast_cli.cluster.target import add_cluster_options, add_namespace_option, duration_seconds, namespace_target
from holdfast_cli.output.help_text import HelpFormatter

_FAILED = 1
_EVERY = 2.0
"""Seconds between two looks with -f."""
_MOST = 999_999_999
_EPILOG = """\
Without options: the log of the driver of the newest attempt. Its lines go to stdout; what is about the log goes to
stderr.

-f reads on, and goes over to the next attempt's driver when one ends, until the app is completed or deleted, or until
Ctrl-C. With --attempt it ends with that attempt. A log that breaks off is read on from its last line.

Of several pods each line begins with whose it is: [driver], or [3] for executor 3. Logs come one after the other; with
-f lines are mixed as they arrive. --previous: of a driver the attempt before the newest; of executors what ran in the
pod before its container was restarted. A pod that is gone has taken its log with it: what collects the logs of the
cluster may still have it.

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
        formatter_class=HelpFormatter,
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
    selection = LogSelection(
        driver=options.all or not (options.executors or options.executor),
        executors=None if options.executors or options.all else frozenset(options.executor or ()),
        attempt=options.attempt,
        previous=options.previous,
    )
    if options.previous and options.follow:
        message = "--previous is over and can't be followed; leave out -f, or --previous"
        raise UserActionError(message, code="UsageError")
    if options.previous and options.all:
        message = "--previous means another attempt of a driver, and the same pod of executors; leave out --all"
        raise UserActionError(message, code="UsageError")
    if options.previous and selection.driver and options.attempt is not None:
        message = f"--previous is the attempt before the newest; to see attempt {options.attempt}, leave it out"
        raise UserActionError(message, code="UsageError")
    target = namespace_target("logs", options)
    hint = target.command("holdfast", "status", options.app)
    parameters = {"sinceSeconds": options.since, "tailLines": options.tail, "timestamps": options.timestamps or None}
    query = {name: str(value).lower() for name, value in parameters.items() if value is not None}
    with closing(target.connect()) as client:

        def opens(log: PodLog, query: Mapping[str, str]) -> OpenLog | None:
            return client.log(target.namespace, log.pod.name, {"container": log.container, **query})

        look = partial(_look, client, target.namespace, options.app)
        try:
            if not options.follow:
                return show_once(look(), opens, selection, query, hint)
            with closing(LogFollower(opens, selection, query)) as follower, suppress(KeyboardInterrupt):
                follower.follow(look, _EVERY, hint)
        except HoldfastError as error:
            say(str(error))
            return _FAILED
    return 0


def _look(reader: ObjectReader, namespace: str, name: str) -> AppPods:
    app = find_app(reader, namespace, name)
    return AppPods(app, attempts_in(reader.find(PODS, namespace, {"labelSelector": f"{APP_LABEL}={name}"})))


def show_once(look: AppPods, opens: LogOpener, selection: LogSelection, query: Mapping[str, str], hint: str) -> int:
    """Print the existing lines of the selected logs, one after the other; return the exit code."""
    logs = selected_logs(look.attempts, selection)
    if not logs:
        raise WorldChangeError(no_pods_message(look, selection, hint), code="NoLogError")
    code = 0
    attempt, newest, verdict = logs[0].attempt, look.app.status.attempt, look.app.verdict
    if missing := sorted(
        (selection.executors or frozenset()) - {int(log.label) for log in logs if log.label != DRIVER}
    ):
        say(f"attempt {attempt} of {look.app.name} has no executor {', '.join(map(str, missing))}")
        code = _FAILED
    if selection.attempt is None and not selection.previous and look.app.driver is not None and attempt < (newest or 0):
        # The log of an older attempt is easily mistaken for the newest.
        say(f"attempt {newest} has no pod ({verdict.reason}: {verdict.message}); this is attempt {attempt}")
    for log in logs:
        if not log.begun:
            say(log.not_yet)
            code = _FAILED
            continue
        before = {"previous": "true"} if selection.previous and log.label != DRIVER else {}
        try:
            stream = opens(log, {**query, **before})
            if stream is not None:
                with closing(stream):
                    for line in stream:
                        print_line(log, line, selection)
        except HoldfastError as error:
            say(f"{log.pod.name}: {error}")
            code = _FAILED
    return code


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
