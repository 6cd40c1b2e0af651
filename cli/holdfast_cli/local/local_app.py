"""The command line options for an app on this host and its data directory, and the paths that hints to a user name.

Shared by all commands on local data and by `holdfast run`. Must not import what needs the extra `runtime`: `holdfast
plan` works without.
"""

import argparse
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from holdfast.errors import UserActionError
from holdfast.planning.plan import plan
from holdfast.protocol.attempt import ORDERS_KEY
from holdfast_cli.cluster.app import is_name
from holdfast_cli.cluster.pod_command import PodCommand, is_on_cluster, run_beside_driver
from holdfast_cli.plan.app_file import AppFile, FileUnreadableError, load_app
from holdfast_cli.plan.plan_text import report_invalid
from holdfast_runtime.inspection.local_app import LocalApp

_NEEDED = ("lmdb", "numpy", "pyarrow")


def add_app_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that all local commands take."""
    parser.add_argument("app", metavar="APP.yaml", help="the StreamApp")
    parser.add_argument(
        "--data", metavar="DIR", help="where logs, state and checkpoints are (default: .holdfast/<app>)"
    )


def data_of(options: argparse.Namespace, app: str) -> Path:
    """Return the data directory that the command line names."""
    return Path(options.data) if options.data else Path(".holdfast") / app


def at_least_one(text: str) -> int:
    """Parse a number that must be at least 1."""
    number = int(text)
    if number < 1:
        message = "must be at least 1"
        raise argparse.ArgumentTypeError(message)
    return number


def on_app(
    work: Callable[[LocalApp, argparse.Namespace], int], in_pod: PodCommand | None = None
) -> Callable[[argparse.Namespace], int]:
    """Return a command that does this work on its app, or prints the errors of the app's file.

    `in_pod`: the command for an app on a cluster; None: it is for files alone.
    """

    def run(options: argparse.Namespace) -> int:
        if in_pod is not None and is_on_cluster(options):
            return run_beside_driver(in_pod, options)
        need_runtime("the embedded log", _NEEDED)
        if options.data is None and (Path(options.app) / ORDERS_KEY).is_file():
            from holdfast_runtime.driver.pod import inspected_app  # noqa: PLC0415 - needs the extra `runtime`

            return work(inspected_app(Path(options.app)), options)
        file = _loaded(options.app, may_be_on_cluster=in_pod is not None)
        if file.app is None:
            return report_invalid([file], getattr(options, "output", "text"))
        return work(LocalApp(file.app, plan(file.app), data_of(options, file.app.name), file.folder), options)

    return run


def _loaded(path: str, *, may_be_on_cluster: bool) -> AppFile:
    try:
        return load_app(path)
    except FileUnreadableError as error:
        if not may_be_on_cluster or Path(path).exists() or not is_name(path):
            raise
        message = f"{error}; to name a StreamApp on a cluster, add --cluster, or -n NAMESPACE"
        raise FileUnreadableError(message) from error


def need_runtime(what: str, modules: Sequence[str]) -> None:
    """Raise `UsageError` if some of these modules of the extra `runtime` are not installed."""
    if missing := [name for name in modules if find_spec(name) is None]:
        message = f"{what} needs {', '.join(missing)}: in a checkout of Holdfast, pip install '.[runtime]'"
        raise UserActionError(message, code="UsageError")


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Paths of the app's files, as the user gave them, for hints."""

    app: str
    """Path of the app's file."""
    data: str
    data_given: bool
    """Whether hints must repeat `--data`."""
    prints: str
    """File with what Spark and the functions of steps print."""
    logs: frozenset[str]
    """Streams that `holdfast tail` can show."""

    def tail(self, stream: str) -> str:
        """Return the command that shows a stream."""
        return shlex.join(["holdfast", "tail", self.app, stream, "--from-beginning", *self._given()])

    def offsets(self, settings: Sequence[str]) -> str:
        """Return the command that sets positions."""
        arguments = [part for setting in settings for part in ("--set", setting)]
        return shlex.join(["holdfast", "offsets", self.app, *self._given(), *arguments])

    def _given(self) -> list[str]:
        return ["--data", self.data] if self.data_given else []
