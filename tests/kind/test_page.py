"""The page in the cluster, reached as people reach it, over an app with nodes and variables of its own choice."""

import hashlib
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests

from tests.cluster.cluster import Cluster
from tests.cluster.programs import KUBECTL
from tests.cluster.steps import ClusterError
from tests.go_programs import built
from tests.kind.apps import App, small_runtime
from tests.kind.installed import RELEASE, SYSTEM, Installed, Team
from tests.waiting import patience, wait_until

_PAGE, _ACCOUNT = f"deployment/{RELEASE}-ui", f"system:serviceaccount:{SYSTEM}:{RELEASE}-ui"
_PORT = 8080
_ANSWER = 30.0
_KEY = "only the app may read this"
_DIGEST = hashlib.sha256(_KEY.encode()).hexdigest()
_CODE = """\
import hashlib
import os

import pyarrow as pa


def numbers(partition, offset, count):
    return pa.RecordBatch.from_pydict({"n": [k % 7 for k in range(offset, offset + count)]})


def note(n, rows, state):
    if not state:
        digest = hashlib.sha256(os.environ["API_KEY"].encode()).hexdigest()
        print(f"mode {os.environ['MODE']}, key {digest}", flush=True)
    state["rows"] = state.get("rows", 0) + len(rows)
    yield {"n": n, "rows": state["rows"]}
"""


@pytest.fixture
def reserved(cluster: Cluster) -> Iterator[dict[str, str]]:
    """One worker takes drivers only, the other one executors only: pool -> node."""
    pools = dict(zip(("drivers", "executors"), cluster.workers, strict=True))
    for pool, node in pools.items():
        cluster.kubectl("label", "node", node, f"pool={pool}")
        cluster.kubectl("taint", "node", node, f"reserved={pool}:NoSchedule")
    yield pools
    for node in pools.values():
        cluster.kubectl("label", "node", node, "pool-")
        cluster.kubectl("taint", "node", node, "reserved-")


@pytest.fixture(scope="module")
def page(installed: Installed) -> Iterator[Installed]:
    """The release with its page."""
    installed.upgrade(**{"ui.enabled": True})
    yield installed
    installed.upgrade()


@pytest.mark.usefixtures("page")
def test_an_app_with_its_own_nodes_and_variables_is_shown(
    cluster: Cluster, team: Team, reserved: dict[str, str]
) -> None:
    app = App(cluster, team.namespace, placed_app(team))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "api"}, "stringData": {"key": _KEY}}
    cluster.apply(secret, namespace=team.namespace)
    app.apply()
    app.ready()
    driver, (executor,) = app.driver(), app.executors().values()
    assert driver["spec"]["nodeName"] == reserved["drivers"]
    assert executor["spec"]["nodeName"] == reserved["executors"]
    option = f"--namespace={team.namespace}"
    variables = cluster.kubectl("exec", driver["metadata"]["name"], option, "--", "printenv", "MODE", "API_KEY")
    assert variables.splitlines() == ["driving", _KEY]
    with forwarded(cluster) as origin:
        secret_path = printed_secret(cluster)
        for path in ("", "api/apps", f"{secret_path[:-1]}/api/apps"):
            answer = fetched(f"{origin}/{path}")
            assert (answer.status_code, answer.text) == (404, "open the address that holdfast ui has printed\n")
        assert fetched(f"{origin}/{secret_path}/", host=f"{RELEASE}-ui.{SYSTEM}.svc").status_code == 403
        assert "<title>Holdfast</title>" in fetched(f"{origin}/{secret_path}/").text
        rows = tree_at(f"{origin}/{secret_path}/api/apps")["apps"]
        assert [(row["standing"], row["app"]) for row in rows if row["namespace"] == team.namespace] == [
            ("ready", app.name)
        ]
        logs = f"{origin}/{secret_path}/api/logs/{team.namespace}/{app.name}"

        def noted() -> bool:
            return f"mode computing, key {_DIGEST}" in lines_of(f"{logs}/{executor['metadata']['name']}")

        wait_until(noted, _ANSWER, "the function's variables are in the log that the page shows")
        assert "attempt 1" in lines_of(f"{logs}/{driver['metadata']['name']}")
        detail = tree_at(f"{origin}/{secret_path}/api/apps/{team.namespace}/{app.name}")
        assert (detail["missing"], detail["status"]["placed"]) == ({}, "2/2")
    assert _KEY not in cluster.kubectl("get", "streamapps,configmaps,events,pods", option, "--output=yaml")


@pytest.mark.usefixtures("page")
def test_the_pages_account_looks_and_does_nothing_else(cluster: Cluster, team: Team) -> None:
    looks = {"get streamapps", "list streamapps", "get configmaps", "list configmaps", "list pods", "get pods/log"}
    resources = (
        "streamapps",
        "configmaps",
        "pods",
        "pods/log",
        "pods/exec",
        "secrets",
        "events.events.k8s.io",
        "nodes",
    )
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete")
    allowed = {
        f"{verb} {resource}"
        for resource in resources
        for verb in verbs
        if may(cluster, _ACCOUNT, verb, resource, team.namespace)
    }
    assert allowed == looks | {"list events.events.k8s.io"}


def test_only_a_forwarded_port_leads_to_the_page(cluster: Cluster, page: Installed) -> None:
    (pod,) = cluster.tree("pods", f"--namespace={SYSTEM}", "--selector=app.kubernetes.io/component=ui")["items"]
    operator = cluster.tree("pod", page.operator(), f"--namespace={SYSTEM}")
    assert connects(cluster, operator["status"]["podIP"])
    assert not connects(cluster, pod["status"]["podIP"])
    with viewer(cluster) as user:
        denied = pytest.raises(ClusterError, match='cannot create resource "pods/portforward"')
        with denied, forwarded(cluster, f"--as={user}"):
            pass


def placed_app(team: Team) -> dict[str, Any]:
    """A driver and one executor, each of which wants a node that takes nobody else, and has variables."""
    runtime = small_runtime()
    for part, pool, mode in (("driver", "drivers", "driving"), ("executors", "executors", "computing")):
        runtime[part] |= {
            "nodeSelector": {"pool": pool},
            "tolerations": [{"key": "reserved", "operator": "Equal", "value": pool, "effect": "NoSchedule"}],
            "env": [
                {"name": "MODE", "value": mode},
                {"name": "API_KEY", "valueFrom": {"secretKeyRef": {"name": "api", "key": "key"}}},
            ],
        }
    runtime["executors"]["count"] = 1
    process = {"function": "site:note", "by": ["n"], "schema": "n BIGINT, rows BIGINT", "keeps": ["n"]}
    numbers = {"name": "numbers", "system": "made-up", "partitions": 2, "key": ["n"], "schema": "n BIGINT"}
    spec = {
        "systems": [{"name": "made-up", "generator": {"function": "site:numbers", "rowsPerSecond": 20}}],
        "streams": [numbers],
        "steps": [{"name": "noted", "from": ["numbers"], "process": process}],
        "runtime": {**runtime, "code": {"site": _CODE}},
        "state": {"storageClass": team.storage_class, "size": "512Mi"},
    }
    return {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "placed"}, "spec": spec}


@contextmanager
def forwarded(cluster: Cluster, *options: str) -> Iterator[str]:
    """Where the page is, as `kubectl port-forward` says it."""
    kubectl = [str(built(KUBECTL)), f"--kubeconfig={cluster.kubeconfig}", *options]
    command = [*kubectl, "port-forward", f"--namespace={SYSTEM}", _PAGE, f":{_PORT}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as forwarding:
        assert forwarding.stdout is not None
        assert forwarding.stderr is not None
        try:
            line = forwarding.stdout.readline()  # it ends, or says where it listens
            if not line:
                raise ClusterError(forwarding.stderr.read())
            yield f"http://{line.split()[2]}"
        finally:
            forwarding.terminate()


@contextmanager
def viewer(cluster: Cluster) -> Iterator[str]:
    """A user who may see the page's pod and read its log, with the secret, and no more."""
    user, group = "viewer", "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    ]
    metadata, api = {"name": user}, f"{group}/v1"
    subjects = [{"apiGroup": group, "kind": "User", "name": user}]
    ref = {"apiGroup": group, "kind": "Role", "name": user}
    cluster.apply(
        {"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": rules},
        {"apiVersion": api, "kind": "RoleBinding", "metadata": metadata, "roleRef": ref, "subjects": subjects},
        namespace=SYSTEM,
    )
    try:
        wait_until(lambda: may(cluster, user, "get", "pods/log", SYSTEM), _ANSWER, f"{user} may read logs")
        yield user
    finally:
        cluster.kubectl("delete", "role,rolebinding", user, f"--namespace={SYSTEM}")


def printed_secret(cluster: Cluster) -> str:
    """As the page's log has it."""
    log = cluster.kubectl("logs", f"--namespace={SYSTEM}", _PAGE)
    (secret,) = re.findall(rf"^http://127\.0\.0\.1:{_PORT}/([\w-]+)/$", log, re.MULTILINE)
    assert f"kubectl port-forward -n {SYSTEM} {RELEASE}-ui-" in log
    return str(secret)


def fetched(address: str, host: str | None = None) -> requests.Response:
    headers = {} if host is None else {"Host": host}
    return requests.get(address, headers=headers, timeout=patience(_ANSWER))


def tree_at(address: str) -> dict[str, Any]:
    answer = fetched(address)
    assert answer.status_code == 200, answer.text
    tree: dict[str, Any] = answer.json()
    return tree


def lines_of(address: str) -> str:
    return "\n".join(tree_at(address)["lines"])


def may(cluster: Cluster, user: str, verb: str, resource: str, namespace: str) -> bool:
    """Whether the API server lets this user do it."""
    kind, _, part = resource.partition("/")
    words = ("auth", "can-i", verb, kind, *([f"--subresource={part}"] if part else []))
    try:
        return cluster.kubectl(*words, f"--as={user}", f"--namespace={namespace}").strip() == "yes"
    except ClusterError:
        return False


def connects(cluster: Cluster, address: str) -> bool:
    """Whether something listens there, seen from a node."""
    try:
        cluster.on_node(cluster.workers[0], "timeout", "5", "bash", "-c", f"exec 3<>/dev/tcp/{address}/{_PORT}")
    except ClusterError:
        return False
    return True
