"""Histories of an API server, as data: calls and watches, and what their answers show.

The simulated server and the real one are held to the same. `$name` is a value that an earlier step kept. Must not
know which server answers.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.simulation.objects import Tree

MAPS_PATH = "/api/v1/namespaces/{}/configmaps"
PODS_PATH = "/api/v1/namespaces/{}/pods"
APPS_PATH = "/apis/holdfast.dev/v1alpha1/namespaces/{}/streamapps"
ABSENT = object()
"""What a field shows that is not there."""
PRESENT = object()
"""What a field shows that has any value."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call, and what its answer shows."""

    method: str
    path: str
    body: Any = None
    status: int = 200
    """Also for 201 and 202."""
    shows: Tree = field(default_factory=dict)
    """Path of a field, by dots -> its value."""
    keeps: dict[str, str] = field(default_factory=dict)
    """Name -> path of the field whose value is kept."""


@dataclass(frozen=True, slots=True)
class WatchFrom:
    """A watch that ends, and its events: type and name; bookmarks are left out."""

    path: str
    events: tuple[tuple[str, str], ...]


class HistoryServer(Protocol):
    """What answers."""

    def call(self, method: str, path: str, body: Any) -> tuple[int, Tree]: ...

    async def watch(self, path: str) -> list[Tree]:
        """All events of a watch until it ends."""
        ...


async def replay(history: tuple[Call | WatchFrom, ...], server: HistoryServer, namespace: str) -> None:
    """Do what the history says; fail where an answer is another."""
    variables: dict[str, Any] = {}
    for number, step in enumerate(history):
        where = f"step {number}: {step}"
        path = _filled(step.path.format(namespace), variables)
        if isinstance(step, WatchFrom):
            events = [event for event in await server.watch(path) if event["type"] != "BOOKMARK"]
            watched = [
                (event["type"], _field(event, "object.metadata.name", str(event["object"].get("code"))))
                for event in events
            ]
            assert watched == list(step.events), where
            continue
        status, answer = server.call(step.method, path, _filled(step.body, variables))
        assert status == step.status, f"{where}: {status} {answer}"
        for name, expected in step.shows.items():
            value = _field(answer, name, ABSENT)
            right = value is not ABSENT if expected is PRESENT else value == _filled(expected, variables)
            assert right, f"{where}: {name} is {value}"
        variables |= {name: _field(answer, of, ABSENT) for name, of in step.keeps.items()}


def _filled(tree: Any, variables: dict[str, Any]) -> Any:
    if isinstance(tree, dict):
        return {key: _filled(value, variables) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_filled(value, variables) for value in tree]
    if isinstance(tree, str):
        for name, value in variables.items():
            tree = tree.replace(f"${name}", str(value))
    return tree


def _field(tree: Any, path: str, default: Any) -> Any:
    for part in path.split("."):
        if isinstance(tree, list) and part.isdigit() and int(part) < len(tree):
            tree = tree[int(part)]
        elif isinstance(tree, dict) and part in tree:
            tree = tree[part]
        else:
            return default
    return tree


def _map(name: str, **metadata: Any) -> Tree:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"a": "1"}}


def _pod(name: str, **spec: Any) -> Tree:
    containers = [{"name": "main", "image": "image"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def _app(name: str) -> Tree:
    runtime = {"checkpoint": {"location": "s3a://bucket/ads"}}
    spec = {
        "systems": [{"name": "events", "kafka": {"bootstrapServers": "kafka:9092"}}],
        "streams": [
            {"name": "clicks", "system": "events", "key": ["k"], "schema": "k STRING"},
            {"name": "out", "system": "events", "key": ["k"]},
        ],
        "steps": [{"name": "written", "from": ["clicks"], "to": "out"}],
        "runtime": runtime,
    }
    return {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": name}, "spec": spec}


_VERSION = {"v": "metadata.resourceVersion"}
_LABELLED = MAPS_PATH + "?labelSelector=of%3Dlist"
HISTORIES: dict[str, tuple[Call | WatchFrom, ...]] = {
    "a write over another version conflicts": (
        Call("POST", MAPS_PATH, _map("m"), keeps=_VERSION),
        Call("POST", MAPS_PATH, _map("m"), 409, {"reason": "AlreadyExists"}),
        Call(
            "PATCH",
            MAPS_PATH + "/m",
            {"metadata": {"resourceVersion": "$v"}, "data": {"a": "2"}},
            keeps={"w": "metadata.resourceVersion"},
        ),
        Call(
            "PATCH",
            MAPS_PATH + "/m",
            {"metadata": {"resourceVersion": "$v"}, "data": {"a": "3"}},
            409,
            {"reason": "Conflict"},
        ),
        Call("PUT", MAPS_PATH + "/m", _map("m", resourceVersion="$v"), 409, {"reason": "Conflict"}),
        Call("PUT", MAPS_PATH + "/m", _map("m", resourceVersion="$w"), shows={"data.a": "1"}),
        Call("PUT", MAPS_PATH + "/m", _map("m"), shows={"data.a": "1"}),
    ),
    "what is not there is not found": (
        Call("GET", MAPS_PATH + "/none", status=404),
        Call("PATCH", MAPS_PATH + "/none", {"data": {}}, 404),
        Call("PUT", MAPS_PATH + "/none", _map("none", resourceVersion="1"), 404),
        Call("DELETE", MAPS_PATH + "/none", {}, 404),
    ),
    "a write that changes nothing keeps the version": (
        Call("POST", MAPS_PATH, _map("m"), keeps=_VERSION),
        Call("PATCH", MAPS_PATH + "/m", {"data": {"a": "1"}}, shows={"metadata.resourceVersion": "$v"}),
    ),
    "a merge patch takes away what is null": (
        Call("POST", MAPS_PATH, _map("m", labels={"x": "1", "y": "2"})),
        Call(
            "PATCH",
            MAPS_PATH + "/m",
            {"metadata": {"labels": {"x": None}}, "data": {"a": None, "b": "2"}},
            shows={"metadata.labels.x": ABSENT, "metadata.labels.y": "2", "data.a": ABSENT, "data.b": "2"},
        ),
    ),
    "only the object with the uid is deleted": (
        Call("POST", MAPS_PATH, _map("m"), keeps={"u": "metadata.uid"}),
        Call("DELETE", MAPS_PATH + "/m", {"preconditions": {"uid": "another"}}, 409, {"reason": "Conflict"}),
        Call("DELETE", MAPS_PATH + "/m", {"preconditions": {"uid": "$u"}}),
        Call("GET", MAPS_PATH + "/m", status=404),
    ),
    "an object with a finalizer goes when that goes": (
        Call("POST", MAPS_PATH, _map("m", finalizers=["holdfast.dev/release"])),
        Call("DELETE", MAPS_PATH + "/m", {}),
        Call("GET", MAPS_PATH + "/m", shows={"metadata.deletionTimestamp": PRESENT}, keeps=_VERSION),
        Call("DELETE", MAPS_PATH + "/m", {}),
        Call("GET", MAPS_PATH + "/m", shows={"metadata.resourceVersion": "$v"}),
        Call("POST", MAPS_PATH, _map("m"), 409, {"reason": "AlreadyExists"}),
        Call("PATCH", MAPS_PATH + "/m", {"metadata": {"finalizers": ["holdfast.dev/release", "x.y/z"]}}, 422),
        Call("PATCH", MAPS_PATH + "/m", {"data": {"a": "2"}}, shows={"data.a": "2"}),
        Call("PATCH", MAPS_PATH + "/m", {"metadata": {"finalizers": None}}),
        Call("GET", MAPS_PATH + "/m", status=404),
    ),
    "a status is written on its own, and a generation counts specs": (
        Call(
            "POST",
            APPS_PATH,
            {**_app("ads"), "status": {"attempt": 7}},
            shows={"status": ABSENT, "metadata.generation": 1},
        ),
        Call(
            "PATCH",
            APPS_PATH + "/ads/status",
            {"status": {"attempt": 1}},
            shows={"status.attempt": 1, "metadata.generation": 1},
        ),
        Call("PATCH", APPS_PATH + "/ads", {"status": {"attempt": 5}}, shows={"status.attempt": 1}, keeps=_VERSION),
        Call(
            "PATCH",
            APPS_PATH + "/ads/status",
            {"spec": {"suspend": True}},
            shows={"spec.suspend": ABSENT, "metadata.resourceVersion": "$v"},
        ),
        Call(
            "PATCH",
            APPS_PATH + "/ads",
            {"spec": {"suspend": True}},
            shows={"metadata.generation": 2, "status.attempt": 1},
        ),
        Call("PATCH", APPS_PATH + "/ads", {"metadata": {"labels": {"a": "b"}}}, shows={"metadata.generation": 2}),
        Call("PATCH", APPS_PATH + "/ads/status", {"status": {"attempt": 2**63}}, 422),
        Call(
            "PATCH", APPS_PATH + "/ads/status", {"metadata": {"resourceVersion": "$v"}, "status": {"attempt": 2}}, 409
        ),
        Call("DELETE", APPS_PATH + "/ads", {}),
        Call("GET", APPS_PATH + "/ads", status=404),
    ),
    "a list is read page by page, as it was at its first": (
        *(Call("POST", MAPS_PATH, _map(name, labels={"of": "list"})) for name in ("a", "b", "c")),
        Call(
            "GET",
            _LABELLED + "&limit=2",
            shows={
                "items.0.metadata.name": "a",
                "items.1.metadata.name": "b",
                "items.2": ABSENT,
                "metadata.continue": PRESENT,
            },
            keeps={"v": "metadata.resourceVersion", "page": "metadata.continue"},
        ),
        Call("POST", MAPS_PATH, _map("d", labels={"of": "list"})),
        Call(
            "GET",
            _LABELLED + "&limit=2&continue=$page",
            shows={"items.0.metadata.name": "c", "items.1": ABSENT, "metadata.resourceVersion": "$v"},
        ),
    ),
    "a watch tells what has happened since, and what matches no more is gone": (
        Call("POST", MAPS_PATH, _map("a", labels={"of": "list"})),
        Call("GET", _LABELLED, keeps=_VERSION),
        Call("PATCH", MAPS_PATH + "/a", {"data": {"a": "2"}}),
        Call("POST", MAPS_PATH, _map("b")),
        Call("PATCH", MAPS_PATH + "/b", {"metadata": {"labels": {"of": "list"}}}),
        Call("PATCH", MAPS_PATH + "/a", {"metadata": {"labels": {"of": "none"}}}),
        Call("DELETE", MAPS_PATH + "/b", {}),
        WatchFrom(
            _LABELLED + "&watch=true&resourceVersion=$v",
            (("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a"), ("DELETED", "b")),
        ),
    ),
    "a watch from a version that the server does not know any more is told so": (
        WatchFrom(APPS_PATH + "?watch=true&resourceVersion=1", (("ERROR", "410"),)),
    ),
    "a pod goes in its time, at once if nothing runs": (
        Call("POST", PODS_PATH, _pod("new")),
        Call("DELETE", PODS_PATH + "/new", {}),
        Call("GET", PODS_PATH + "/new", status=404),
        Call(
            "POST",
            PODS_PATH,
            _pod("runs", nodeName="node", terminationGracePeriodSeconds=120),
            shows={"status.phase": "Pending"},
        ),
        Call("DELETE", PODS_PATH + "/runs", {}),
        Call(
            "GET",
            PODS_PATH + "/runs",
            shows={"metadata.deletionTimestamp": PRESENT, "metadata.deletionGracePeriodSeconds": 120},
        ),
        Call("DELETE", PODS_PATH + "/runs", {"gracePeriodSeconds": 0}),
        Call("GET", PODS_PATH + "/runs", status=404),
        Call("POST", PODS_PATH, _pod("over", nodeName="node")),
        Call(
            "PATCH", PODS_PATH + "/over/status", {"status": {"phase": "Succeeded"}}, shows={"status.phase": "Succeeded"}
        ),
        Call("DELETE", PODS_PATH + "/over", {}),
        Call("GET", PODS_PATH + "/over", status=404),
    ),
}
