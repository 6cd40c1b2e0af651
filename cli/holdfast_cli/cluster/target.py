"""The cluster and namespace of a command: those that `kubectl` would use, from kubeconfigs and the command line.

Of several kubeconfigs, the client library uses the current context of the last, kubectl that of the first; so the
context is found here and passed to the library by name. All commands share these options, and hints repeat them: a
hint without the `-n` of its command would lead to another namespace. Must not talk to a cluster, nor import the
Kubernetes client before a command needs it: it takes half a second to load.
"""

import argparse
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from holdfast.errors import UserActionError
from holdfast.spec.values import is_duration, millis
from holdfast.suggest import did_you_mean
from holdfast_cli.cluster.app import is_name
from holdfast_cli.plan.app_file import FileUnreadableError, read_text

if TYPE_CHECKING:
    from holdfast_cli.cluster.client import ClusterClient

_FILE = "~/.kube/config"
_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """A cluster, a user and a default namespace."""

    files: tuple[Path, ...]
    """Kubeconfigs, the first takes precedence; empty: the cluster this process runs in."""
    context: str | None
    namespace: str

    def connect(self) -> "ClusterClient":
        """Return a client, which the caller closes."""
        from holdfast_cli.cluster.client import ClusterClient  # noqa: PLC0415 - needs the extra `cluster`

        return ClusterClient(self.files, self.context)


def find_target(kubeconfig: str | None, context: str | None, environment: Mapping[str, str]) -> ClusterTarget:
    """Return the target that `--kubeconfig`, `--context` and the environment name."""
    trees = dict(_trees(kubeconfig, environment))
    if not trees and context is None and kubeconfig is None and environment.get("KUBERNETES_SERVICE_HOST"):
        return ClusterTarget((), None, _own_namespace())
    if not trees:
        message = (
            f"there is no kubeconfig at {_asked(kubeconfig, environment)}; name one with --kubeconfig or KUBECONFIG"
        )
        raise UserActionError(message, code="NoClusterError")
    contexts = _contexts(trees.values())
    name = context or next(
        (str(tree["current-context"]) for tree in trees.values() if tree.get("current-context")), None
    )
    if name is None:
        message = f"no current context is set in {_named(trees)}; choose one with --context{did_you_mean('', contexts)}"
        raise UserActionError(message, code="NoClusterError")
    if name not in contexts:
        message = f"there is no context {name} in {_named(trees)}{did_you_mean(name, contexts)}"
        raise UserActionError(message, code="NoClusterError")
    return ClusterTarget(tuple(trees), name, str(contexts[name].get("namespace") or _DEFAULT))


def _asked(kubeconfig: str | None, environment: Mapping[str, str]) -> str:
    return kubeconfig or environment.get("KUBECONFIG") or _FILE


def _trees(kubeconfig: str | None, environment: Mapping[str, str]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield all kubeconfigs that exist and are not empty."""
    names = [kubeconfig] if kubeconfig else _asked(None, environment).split(os.pathsep)
    for path in (Path(name).expanduser() for name in names if name):
        if not path.exists():
            continue
        try:
            tree = YAML(typ="safe", pure=True).load(read_text(path))
        except (YAMLError, RecursionError) as error:
            message = f"{path} is no kubeconfig: {error}"
            raise FileUnreadableError(message) from error
        if tree is not None and not isinstance(tree, dict):
            message = f"{path} is no kubeconfig: it holds no object"
            raise FileUnreadableError(message)
        if tree:
            yield path, tree


def _contexts(trees: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return contexts by name; of two with the same name, the first counts."""
    contexts: dict[str, dict[str, Any]] = {}
    for tree in trees:
        entries = tree.get("contexts")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("context"), dict):
                contexts.setdefault(str(entry.get("name")), entry["context"])
    return contexts


def _named(files: Mapping[Path, object]) -> str:
    return ", ".join(map(str, files))


def _own_namespace() -> str:
    try:
        return _OWN_NAMESPACE.read_text(encoding="utf-8").strip() or _DEFAULT
    except OSError:
        return _DEFAULT


@dataclass(frozen=True, slots=True)
class NamespaceTarget:
    """The cluster and namespace that the command line names."""

    target: ClusterTarget
    namespace: str
    given: tuple[str, ...]
    """The options that name it; kubectl takes the same ones."""

    def command(self, *words: str) -> str:
        """Return a command line for the same cluster and namespace."""
        return shlex.join((*words, *self.given))

    def connect(self) -> "ClusterClient":
        """Return a client, which the caller closes."""
        return self.target.connect()


def cluster_target(command: str, options: argparse.Namespace) -> ClusterTarget:
    """Return the cluster that the command line names."""
    if find_spec("kubernetes") is None:
        message = f"holdfast {command} needs kubernetes: in a checkout of Holdfast, pip install '.[cluster]'"
        raise UserActionError(message, code="UsageError")
    return find_target(options.kubeconfig, options.context, os.environ)


def namespace_target(command: str, options: argparse.Namespace) -> NamespaceTarget:
    """Return the cluster and namespace that the command line names."""
    target = cluster_target(command, options)
    namespace = checked_namespace(options.namespace or target.namespace)
    names = {"-n": options.namespace, "--context": options.context, "--kubeconfig": options.kubeconfig}
    flags = tuple(word for flag, value in names.items() if value for word in (flag, value))
    return NamespaceTarget(target, namespace, flags)


def checked_namespace(name: str) -> str:
    """Return the name; any text but a name could change the path of a request."""
    if not is_name(name):
        message = f"{name} is no namespace: names are of small letters, digits, - and ."
        raise UserActionError(message, code="UsageError")
    return name


def add_namespace_option(parser: argparse._ActionsContainer) -> None:
    """Add `-n`."""
    parser.add_argument("-n", "--namespace", help="default: the context's")


def add_cluster_options(parser: argparse._ActionsContainer) -> None:
    """Add `--context` and `--kubeconfig`."""
    parser.add_argument("--context", help="a context of the kubeconfig (default: the current one)")
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: what KUBECONFIG says, or ~/.kube/config")


def add_output_options(parser: argparse._ActionsContainer) -> None:
    """Add `-o` and `--color`."""
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: on a terminal")


def duration_seconds(text: str) -> int:
    """Parse a duration option into seconds, at least 1: the API takes no less."""
    if not is_duration(text) or millis(text) == 0:
        message = f"{text} is no duration; write 30s, 10m, 2h or 1h30m"
        raise argparse.ArgumentTypeError(message)
    return max(1, millis(text) // 1000)
