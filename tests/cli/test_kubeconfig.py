"""Which cluster a command means, and what is said where it can't be asked."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast_cli.cluster.target import ClusterTarget, find_target
from tests.cli.conftest import Holdfast
from tests.error_codes import has_code
from tests.kafka.broker import free_ports


def config(path: Path, current: str = "", server: str = "https://127.0.0.1:1", user: Any = None, **spaces: str) -> Path:
    """A kubeconfig with a context for each of these names, each with its namespace."""
    contexts = [
        {"name": name, "context": {"cluster": "c", "user": "u", "namespace": space}} for name, space in spaces.items()
    ]
    path.write_text(json.dumps({
        "current-context": current, "contexts": contexts,
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
    }))  # fmt: skip
    return path


def environment(*paths: Path) -> dict[str, str]:
    return {"KUBECONFIG": os.pathsep.join(map(str, paths))}


def test_of_several_files_the_first_that_says_something_counts(tmp_path: Path) -> None:
    first = config(tmp_path / "first", "", near="one", both="of-first")
    second = config(tmp_path / "second", "both", both="of-second")
    third = config(tmp_path / "third", "far", far="three")
    empty, missing = tmp_path / "empty", tmp_path / "gone"
    empty.write_text("")
    variables = environment(missing, empty, first, second, third)
    assert find_target(None, None, variables) == ClusterTarget((first, second, third), "both", "of-first")
    assert find_target(None, "far", variables).namespace == "three"
    assert find_target(str(third), None, variables) == ClusterTarget((third,), "far", "three")


def test_a_context_without_a_namespace_means_default(tmp_path: Path) -> None:
    assert find_target(str(config(tmp_path / "c", "a", a="")), None, {}).namespace == "default"


def test_a_pod_without_a_kubeconfig_means_its_own_cluster(tmp_path: Path) -> None:
    within = {"KUBECONFIG": str(tmp_path / "none"), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert find_target(None, None, within) == ClusterTarget((), None, "default")
    with pytest.raises(UserActionError, match="no kubeconfig", check=has_code("NoClusterError")):
        find_target(None, "a", within)


@pytest.mark.parametrize(
    ("text", "context", "code", "message"),
    [
        (None, None, "NoClusterError", "there is no kubeconfig at"),
        ("{}", None, "NoClusterError", "there is no kubeconfig at"),
        ("[1]", None, "FileUnreadableError", "it holds no object"),
        ("{", None, "FileUnreadableError", "is no kubeconfig"),
        ("contexts: [{name: prod, context: {}}]", None, "NoClusterError", "--context (there are: prod)"),
        ("contexts: [{name: prod, context: {}}]", "prd", "NoClusterError", "no context prd in .*; did you mean prod"),
        ("contexts: 7", "prd", "NoClusterError", "no context prd in .*; there are none"),
    ],
)
def test_what_names_no_cluster_says_what_to_do(
    tmp_path: Path, text: str | None, context: str | None, code: str, message: str
) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserActionError, match=message.replace("(", r"\(").replace(")", r"\)"), check=has_code(code)):
        find_target(None, context, environment(path))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"server": f"http://127.0.0.1:{free_ports(1)[0]}"}, "context a does not answer at http://127.0.0.1:"),
        ({"user": {}}, "context a gives no credentials"),
        ({"user": {"exec": {"apiVersion": "v1", "command": "/bin/false"}}}, "context a gives no credentials"),
        ({"user": {"client-certificate": "gone.crt", "client-key": "gone.key"}}, "context a can't be used"),
        ({"user": {"client-certificate-data": "abc"}}, "context a can't be used"),
        ({"server": "https://in valid"}, "context a does not answer at https://in valid"),
    ],
)
def test_an_unreachable_cluster_is_an_error_of_one_line(
    holdfast: Holdfast, tmp_path: Path, tree: dict[str, Any], message: str
) -> None:
    path = config(tmp_path / "config", "a", a="apps", **tree)
    ran = holdfast("status", "ads", "--kubeconfig", str(path))
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err.splitlines()[-1]
