"""Why: kopf watches, and tells of every change; here is what is watched, and who is looked at when something changes.

Only kopf's plain events are used. Its handlers with progress, finalizers and annotations would be a second state
machine in the same objects. Must not look at apps, only ask for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import kopf

from holdfast.spec.app import API_VERSION
from holdfast_operator.cache import Cache, Key
from holdfast_operator.cluster import APP
from holdfast_operator.looks import Looks
from holdfast_operator.pods import APP_LABEL
from holdfast_operator.reports import REPORT_LABEL, read_report

_SERVER_ENDS, _CLIENT_ENDS = 300, 330
"""Seconds: a watch that says nothing for longer than the server lets it live is dead, whatever its connection says."""


def registry(cache: Cache, looks: Looks, *, nodes: bool) -> kopf.OperatorRegistry:
    """The watches of an operator; `nodes`: whether it may see nodes."""
    made, watches, (group, version) = kopf.OperatorRegistry(), _Watches(cache, looks), API_VERSION.split("/")
    kopf.on.login(registry=made)(_login)
    kopf.on.startup(registry=made)(_settle)
    kopf.on.event(group, version, APP.plural, registry=made)(watches.app)
    kopf.on.event("pods", labels={APP_LABEL: kopf.PRESENT}, registry=made)(watches.pod)
    kopf.on.event("configmaps", labels={REPORT_LABEL: kopf.PRESENT}, registry=made)(watches.report)
    if nodes:
        kopf.on.event("nodes", registry=made)(watches.node)
    return made


def _login(**given: Any) -> kopf.ConnectionInfo | None:
    return kopf.login_with_service_account(**given) or kopf.login_with_kubeconfig(**given)


def _settle(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False
    settings.watching.server_timeout = _SERVER_ENDS
    settings.watching.client_timeout = _CLIENT_ENDS


@dataclass(frozen=True, slots=True)
class _Watches:
    """What is done with what kopf tells; `type` is None for what was there when a watch began.

    Coroutines, as kopf runs plain functions in threads.
    """

    cache: Cache
    looks: Looks

    async def app(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002 - kopf's name
        """An app changed."""
        key = Key(_metadata(body, "namespace"), _metadata(body, "name"))
        if type == "DELETED":
            self.looks.forget(key)
        else:
            self.looks.soon(key)

    async def pod(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002
        """A pod of an app changed."""
        key = self.cache.saw_pod(dict(body), gone=type == "DELETED")
        if key is not None:
            self.looks.soon(key)

    async def report(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002
        """A driver reported."""
        namespace = _metadata(body, "namespace")
        place = namespace, _metadata(body, "name")
        report = None if type == "DELETED" else read_report(dict(body))
        if report is None:
            self.cache.reports.pop(place, None)
        else:
            self.cache.reports[place] = report
        self.looks.soon(Key(namespace, str(body["metadata"]["labels"][REPORT_LABEL])))

    async def node(self, body: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002
        """A node changed: who has pods there is looked at if it answers differently."""
        if self.cache.saw_node(dict(body), gone=type == "DELETED"):
            for key in self.cache.on_node(_metadata(body, "name")):
                self.looks.soon(key)


def _metadata(body: Mapping[str, Any], name: str) -> str:
    return str(body["metadata"][name])
