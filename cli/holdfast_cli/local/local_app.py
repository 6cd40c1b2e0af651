"""An app on this host: its plan, its data directory, and the options by which commands name them.

Shared by all commands on local data, and by `holdfast run`. Must not import the runtime: the command line without
its extra still plans.
"""

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.planning.plan import Plan, PlannedStream, plan
from holdfast.spec.app import StreamApp
from holdfast.spec.streams import Stream
from holdfast.suggest import did_you_mean
from holdfast_cli.output.failures import UsageError
from holdfast_cli.plan.app_file import load_app
from holdfast_cli.plan.plan_text import print_invalid_json, print_spec_errors


@dataclass(frozen=True, slots=True)
class LocalApp:
    """An app and the directory of its logs."""

    app: StreamApp
    plan: Plan
    data: Path

    @property
    def directory(self) -> Path:
        """Where its streams are."""
        return self.data / "log"

    def stream(self, name: str) -> PlannedStream:
        """A stream of the app that the embedded log holds."""
        names = [stream.name for stream in self.plan.streams]
        if name not in names:
            message = f"{self.app.name} has no stream {name}{did_you_mean(name, names)}"
            raise UsageError(message)
        if (kind := self.kind(name)) != "log":
            message = f"stream {name} is in a {kind} system; only streams of a log system can be fed and tailed"
            raise UsageError(message)
        return self.plan.stream(name)

    def declared(self, name: str) -> Stream | None:
        """What the spec says of a stream; None for one that a step makes."""
        return next((stream for stream in self.app.spec.streams if stream.name == name), None)

    def kind(self, name: str) -> str:
        """The kind of system a stream is in. One that a step makes is in the log if the app has one."""
        stream, systems = self.declared(name), self.app.spec.systems
        if stream is not None:
            return next((system.kind for system in systems if system.name == stream.system), "unknown")
        kinds = [system.kind for system in systems]
        return "log" if "log" in kinds else kinds[0] if kinds else "unknown"

    def has_type_bytes(self, name: str) -> bool:
        """Whether records of a stream carry control messages among them."""
        stream = self.declared(name)
        return stream is None or stream.control or self.plan.stream(name).role == "intermediate"


def add_app_options(parser: argparse.ArgumentParser) -> None:
    """The arguments all of them take."""
    parser.add_argument("app", metavar="APP.yaml", help="the StreamApp")
    parser.add_argument(
        "--data", metavar="DIR", help="where logs, state and checkpoints are (default: .holdfast/<app>)"
    )


def data_of(options: argparse.Namespace, app: str) -> Path:
    """The data directory of a command line."""
    return Path(options.data) if options.data else Path(".holdfast") / app


def at_least_one(text: str) -> int:
    """An argument that is a number, at least 1."""
    number = int(text)
    if number < 1:
        message = "must be at least 1"
        raise argparse.ArgumentTypeError(message)
    return number


def local_app(options: argparse.Namespace) -> LocalApp | None:
    """The app of a command line; None when its file is wrong, which has been printed."""
    _need_runtime()
    file = load_app(options.app)
    if file.app is None:
        print_spec_errors(file, color="auto", to_stderr=True)
        print_invalid_json(getattr(options, "output", "text"), [file])
        return None
    return LocalApp(file.app, plan(file.app), data_of(options, file.app.name))


def _need_runtime() -> None:
    try:
        import lmdb  # noqa: F401, PLC0415 - is it there?
        import numpy as np  # noqa: F401, PLC0415
        import pyarrow as pa  # noqa: F401, PLC0415
    except ModuleNotFoundError as error:
        message = f"the embedded log needs {error.name}: pip install 'holdfast[runtime]'"
        raise UsageError(message) from error


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The app's files, as the user names them."""

    app: str
    """Path of the app's file."""
    data: str
    data_given: bool
    """Whether `--data` is needed to find it again."""
    spark_log: str
    """What Spark and the functions of steps print."""
    logs: frozenset[str]
    """Streams that `holdfast tail` can show."""

    def tail(self, stream: str) -> str:
        """The command that shows a stream."""
        return shlex.join(["holdfast", "tail", self.app, stream, "--from-beginning", *self._given()])

    def offsets(self, settings: Sequence[str]) -> str:
        """The command that sets positions."""
        asked = [part for setting in settings for part in ("--set", setting)]
        return shlex.join(["holdfast", "offsets", self.app, *self._given(), *asked])

    def _given(self) -> list[str]:
        return ["--data", self.data] if self.data_given else []
