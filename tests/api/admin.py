"""The cluster's admin, as tests need one: what they do and ask, in plain trees. Must not be used by the operator."""

import json
from pathlib import Path
from typing import Any, cast

import requests
from kubernetes import client, config
from ruamel.yaml import YAML

from tests.api.plane import ADMIN, Plane
from tests.waiting import patience, wait_until

Tree = dict[str, Any]
APPS = "/apis/holdfast.dev/v1alpha1/namespaces/{}/streamapps"
PODS = "/api/v1/namespaces/{}/pods"
CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps"
SETS = "/apis/apps/v1/namespaces/{}/statefulsets"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
_WAIT = patience(75)
"""Longer than the API server gives itself for an answer: what it says then is what happened."""
_CRD = Path(__file__).parents[2] / "crds" / "streamapps.holdfast.dev.yaml"
_STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Admin:
    """All rights; or those of another user."""

    def __init__(self, plane: Plane, user: str = ADMIN) -> None:
        plane.kubeconfig(user)
        self._plane = plane
        self._url = plane.url
        self._session = requests.Session()
        self._session.trust_env = False  # REQUESTS_CA_BUNDLE would count over `verify`
        self._session.verify = str(plane.directory / "ca.crt")
        self._session.cert = (str(plane.directory / f"{user}.crt"), str(plane.directory / f"{user}.key"))

    def client(self) -> client.ApiClient:
        """The same rights, for code that takes a client of Kubernetes' own library."""
        return cast("client.ApiClient", config.new_client_from_config(str(self._plane.kubeconfig())))  # type: ignore[no-untyped-call]

    def call(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Tree:
        """The answer; `{}` for what is not there."""
        answer = self._session.request(
            method, f"{self._url}{path}", json=body, headers={"Content-Type": content}, timeout=_WAIT
        )
        if answer.status_code == 404:
            return {}
        if answer.status_code >= 300:
            raise RefusedError(answer.status_code, answer.text)
        tree: Tree = answer.json()
        return tree

    def send(self, method: str, path: str, text: str) -> None:
        """A body that nobody here can parse, whose answer nobody here could parse either."""
        answer = self._session.request(
            method,
            f"{self._url}{path}",
            data=text.encode(),
            headers={"Content-Type": "application/json"},
            timeout=_WAIT,
        )
        if answer.status_code >= 300:
            raise RefusedError(answer.status_code, answer.text)

    def table(self, path: str) -> list[dict[str, Any]]:
        """What `kubectl get` shows of a list: without the objects, which may be such that nobody can parse them."""
        accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        answer = self._session.get(f"{self._url}{path}?includeObject=None", headers=accept, timeout=_WAIT)
        if answer.status_code >= 300:
            raise RefusedError(answer.status_code, answer.text)
        tree = answer.json()
        names = [one["name"] for one in tree["columnDefinitions"]]
        return [dict(zip(names, row["cells"], strict=True)) for row in tree.get("rows") or []]

    def events_of_watch(self, path: str) -> list[Tree]:
        """What a watch tells until the server ends it, a second later."""
        answer = self._session.get(f"{self._url}{path}&timeoutSeconds=1", timeout=_WAIT)
        return [json.loads(line) for line in answer.text.splitlines()]

    def get(self, path: str) -> Tree:
        """The object, or the list."""
        return self.call("GET", path)

    def items(self, path: str) -> list[Tree]:
        """The objects of a list."""
        return list(self.get(path).get("items") or [])

    def create(self, path: str, tree: Tree) -> Tree:
        """Make it."""
        return self.call("POST", path, tree)

    def patch(self, path: str, patch: Tree) -> Tree:
        """Merge this into it."""
        return self.call("PATCH", path, patch, "application/merge-patch+json")

    def replace_spec(self, path: str, spec: Tree) -> None:
        """Give it this spec, whoever else writes to it meanwhile: a PUT of what was read could be outdated by then."""
        self.call("PATCH", path, [{"op": "replace", "path": "/spec", "value": spec}], "application/json-patch+json")

    def delete(self, path: str, grace: int | None = None, uid: str | None = None) -> None:
        """Let it go; with `uid`, refused if another object has its name by now."""
        body: Tree = {} if grace is None else {"gracePeriodSeconds": grace}
        self.call("DELETE", path, body if uid is None else body | {"preconditions": {"uid": uid}})


class RefusedError(Exception):
    """The API server said no."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        self._text = text
        super().__init__(f"{status}: {text[:2000]}")

    @property
    def answer(self) -> Tree:
        """What it said, as an object."""
        tree: Tree = json.loads(self._text)
        return tree


def default_storage(admin: Admin) -> None:
    """A default StorageClass, as most clusters have one; there may be one already."""
    metadata = {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    tree = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata, "provisioner": "none"}
    if not admin.get(f"{_STORAGE}/standard"):
        admin.create(_STORAGE, tree)


def install_crd(admin: Admin) -> None:
    """Make the CRD, and wait until it is established and its objects are served: its storage takes a moment more."""
    crd = admin.create(_CRDS, YAML(typ="safe").load(_CRD.read_text()))
    path = f"{_CRDS}/{crd['metadata']['name']}"
    wait_until(lambda: _established(admin.get(path)), 30, "the CRD is established")
    wait_until(lambda: _served(admin), 30, "the CRD is served")


def _established(crd: Tree) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def _served(admin: Admin) -> bool:
    try:
        return bool(admin.get("/apis/holdfast.dev/v1alpha1/streamapps"))
    except RefusedError as error:
        if error.status != 429:
            raise
        return False  # its storage is being made
