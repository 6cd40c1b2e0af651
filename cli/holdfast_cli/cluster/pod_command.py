"""Commands on an app that run in its driver's pod: their options, their command line there, and their exit code.

Brokers, claims and credentials of an app are often reached from its pods alone. So the command runs beside the driver,
by the image's own `holdfast`, with the user's right to exec into pods, and its output comes back. Must not know what a
command shows, nor import the Kubernetes client.
"""

import argparse
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.protocol.pods import APP_DIRECTORY, MAIN, pod_state
from holdfast.reasons import Reason
from holdfast_cli.cluster.app import PODS, ClusterApp, ObjectReader, find_app
from holdfast_cli.cluster.target import NamespaceTarget, add_cluster_options, add_namespace_option, namespace_target

_FILE = re.compile(r".*(/.*|\.(ya?ml|json|py))")
STDOUT = 1
"""The number of the stream that is a command's output; 2 is for messages."""
_SIGNALS = 128
RIGHTS = (
    "With --cluster, or -n, --context or --kubeconfig, which only an app on a cluster has, the command runs in the pod "
    "of the app's driver, beside it: with the brokers, the mounts and the credentials of the app, which the pod has, "
    "and by your rights to get streamapps.holdfast.dev and pods and to get and create pods/exec."
)


def add_place_options(parser: argparse.ArgumentParser, *, short: bool = True) -> argparse._ArgumentGroup:
    """Add the options by which the app is one on a cluster; `short`: whether `-n` is among them."""
    group = parser.add_argument_group("an app on a cluster")
    group.add_argument("--cluster", action="store_true", help="APP.yaml is the name of a StreamApp instead")
    if short:
        add_namespace_option(group)
    else:
        group.add_argument("--namespace", help="default: the context's")
    add_cluster_options(group)
    return group


def is_on_cluster(options: argparse.Namespace) -> bool:
    """Return whether the command line means an app on a cluster; raise `UsageError` if it names a file as well."""
    values = vars(options)
    if not any(values.get(name) for name in ("cluster", "namespace", "context", "kubeconfig")):
        return False
    if _FILE.fullmatch(options.app) and Path(options.app).exists():
        message = f"{options.app} is a file, and on a cluster an app is meant by its name: name it, or leave out {{}}"
        flags = [f"--{name}" for name in ("cluster", "namespace", "context", "kubeconfig") if values.get(name)]
        raise UserActionError(message.format(", ".join(flags)), code="UsageError")
    if options.data is not None:
        message = "--data is for an app on this host: leave it out, or name the app's file"
        raise UserActionError(message, code="UsageError")
    return True


_FLAGS = {"settings": "--set", "run_id": "--run"}


@dataclass(frozen=True, slots=True)
class PodCommand:
    """A command as its command line is in a driver's pod."""

    words: tuple[str, ...]
    options: tuple[str, ...]
    """Names of parsed options that are passed on."""
    positionals: tuple[str, ...] = ()
    """Names of what stands behind the app."""

    def line(self, options: argparse.Namespace, color: str, **replaced: str) -> list[str]:
        """Return the arguments of `holdfast` there; `replaced`: options that have another value there."""
        words = list(self.words)
        for name in self.options:
            flag = _FLAGS.get(name, f"--{name.replace('_', '-')}")
            match replaced.get(name, getattr(options, name)):
                case None | False:
                    pass
                case True:
                    words.append(flag)
                case list() as values:
                    words += [f"{flag}={value}" for value in values]
                case value:
                    words.append(f"{flag}={value}")
        if hasattr(options, "color"):
            words.append(f"--color={color if options.color == 'auto' else options.color}")
        return [*words, "--", APP_DIRECTORY, *(getattr(options, name) for name in self.positionals)]


class RunningCommand(Protocol):
    """A command that runs in a pod."""

    def run(self, write: Callable[[int, bytes], None]) -> int:
        """Hand on what it prints, by stream 1 or 2, until it ends; return its exit code."""

    def close(self) -> None:
        """Release the connection, which ends the command."""


class PodRunner(ObjectReader, Protocol):
    """A cluster in whose pods commands can be run."""

    def exec(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> RunningCommand:
        """Start a command."""


def driver_that_runs(reader: ObjectReader, app: ClusterApp) -> str | None:
    """Return the name of the pod of the app's driver, if that works now."""
    tree = None if app.driver is None else reader.get(PODS, app.namespace, app.driver)
    pod = None if tree is None else pod_state(tree)
    return pod.name if pod is not None and pod.works and pod.started is not None else None


def run_beside_driver(command: PodCommand, options: argparse.Namespace) -> int:
    """Run the command in the pod of the app's driver; return its exit code."""
    target = namespace_target(command.words[0], options)
    with closing(target.connect()) as client:
        app = find_app(client, target.namespace, options.app)
        pod = driver_that_runs(client, app)
        if pod is None:
            raise WorldChangeError(no_driver_message(app, command, target), code="DriverMissingError")
        return run_in_pod(client, (target.namespace, pod), command.line(options, output_color()))


def no_driver_message(app: ClusterApp, command: PodCommand, target: NamespaceTarget) -> str:
    """Say that no driver runs, why, and what to do."""
    drained = app.suspend or app.verdict.reason == Reason.SUSPENDED
    cure = (
        f"begin it again with `{target.command('holdfast', 'resume', app.name)}`"
        if drained
        else f"see `{target.command('holdfast', 'status', app.name)}`"
    )
    return (
        f"{app.name} in namespace {app.namespace} has no driver that runs, in whose pod `holdfast "
        f"{' '.join(command.words)}` could be run; {app.name} is {app.verdict.text}; {cure}, or give the app's file to "
        "the command on a host that reaches what it needs"
    )


def run_in_pod(
    runner: PodRunner,
    where: tuple[str, str],
    line: Sequence[str],
    write: Callable[[int, bytes], None] | None = None,
) -> int:
    """Run `holdfast` with this command line; return its exit code. `where`: namespace and pod of a driver."""
    width = str(shutil.get_terminal_size().columns) if sys.stdout.isatty() else "0"
    command = ("python", "-m", "holdfast_cli.in_pod", width, *line)
    with closing(runner.exec(*where, MAIN["driver"], command)) as running:
        code = running.run(write or print_output)
    if code > _SIGNALS:
        sys.stderr.write(
            f"holdfast: the command ended in pod {where[1]} by signal {code - _SIGNALS}; of 9, its memory did not do\n"
        )
    return code


def print_output(stream: int, data: bytes) -> None:
    """Print what a command in a pod has printed."""
    output = sys.stdout if stream == STDOUT else sys.stderr
    output.flush()
    output.buffer.write(data)
    output.buffer.flush()


def output_color() -> str:
    """Return `--color` for a command elsewhere whose output is shown here."""
    colored = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", None)
    return "always" if colored else "never"
