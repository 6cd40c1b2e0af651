"""Why: which cluster and namespace is meant is said in one way by all commands that ask a cluster, and kept for hints.

A hint that lacks the `-n` of the command before it sends people to another namespace. Must not import the Kubernetes
client: it takes half a second to load.
"""

import argparse
import os
import shlex
from dataclasses import dataclass
from importlib.util import find_spec

from holdfast.spec.values import is_duration, millis
from holdfast_cli.cluster.app import is_name
from holdfast_cli.cluster.target import ClusterTarget, find_target
from holdfast_cli.plan.partition_counts import UsageError


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """A cluster and a namespace in it, as the command line named them."""

    target: ClusterTarget
    namespace: str
    given: tuple[str, ...]
    """The options that said so: they mean the same to kubectl."""

    def command(self, *words: str) -> str:
        """A command line that means the same place."""
        return shlex.join((*words, *self.given))


def add_namespace_option(parser: argparse._ActionsContainer) -> None:
    """`-n`."""
    parser.add_argument("-n", "--namespace", help="default: the context's")


def add_cluster_options(parser: argparse._ActionsContainer) -> None:
    """`--context` and `--kubeconfig`."""
    parser.add_argument("--context", help="a context of the kubeconfig (default: the current one)")
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: what KUBECONFIG says, or ~/.kube/config")


def duration_seconds(text: str) -> int:
    """Seconds of an option, at least one: the API takes no less."""
    if not is_duration(text) or millis(text) == 0:
        message = f"{text} is no duration; write 30s, 10m, 2h or 1h30m"
        raise argparse.ArgumentTypeError(message)
    return max(1, millis(text) // 1000)


def need_client(command: str) -> None:
    """Say what to install where it is missing."""
    if find_spec("kubernetes") is None:
        message = f"holdfast {command} needs kubernetes: pip install 'holdfast[cluster]'"
        raise UsageError(message)


def cluster_place(options: argparse.Namespace) -> ClusterPlace:
    """What the command line means."""
    target = find_target(options.kubeconfig, options.context, os.environ)
    namespace = valid_namespace(options.namespace or target.namespace)
    names = {"-n": options.namespace, "--context": options.context, "--kubeconfig": options.kubeconfig}
    return ClusterPlace(
        target, namespace, tuple(word for flag, value in names.items() if value for word in (flag, value))
    )


def valid_namespace(namespace: str) -> str:
    """The name, if it can be one: another would mean another place in a path."""
    if not is_name(namespace):
        message = f"{namespace} is no namespace: names are of small letters, digits, - and ."
        raise UsageError(message)
    return namespace
