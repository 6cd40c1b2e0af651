"""Why: objects of a cluster as trees, for `holdfast status` and all who look before they do something.

Needs the extra `cluster`. Must not write, and must not know an app.
"""

from collections.abc import Mapping
from typing import Any

from holdfast_cli.cluster.client import ApiRequest, ClusterClient
from holdfast_cli.cluster.requests import ObjectKind

ObjectTree = dict[str, Any]
_PAGE = 500


class ClusterReader:
    """What is read through a client."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    def get(self, kind: ObjectKind, namespace: str, name: str) -> ObjectTree | None:
        """One object; None: it is not there."""
        return self._client.ask(ApiRequest("get", kind, namespace, name))

    def find(self, kind: ObjectKind, namespace: str | None, query: Mapping[str, str]) -> list[ObjectTree]:
        """All objects of a namespace, or of all, that fit."""
        found: list[ObjectTree] = []
        after = ""
        while True:
            more = {"continue": after} if after else {}
            page = (
                self._client.ask(ApiRequest("list", kind, namespace, query={"limit": str(_PAGE), **query, **more}))
                or {}
            )
            found += page.get("items") or []
            after = (page.get("metadata") or {}).get("continue") or ""
            if not after:
                return found
