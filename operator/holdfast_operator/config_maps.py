"""Why: what must outlive drivers and the operator itself is kept in ConfigMaps: one per key, with compare-and-set.

A `MetadataStore`, so that the placement record has one code on a laptop and on a cluster. Its calls are synchronous, as
the core's are: they run in a worker thread and hand each call to the event loop. Content that is not ours is refused,
never overwritten. Must not know what the values mean.
"""

import asyncio
import base64
import binascii
import secrets
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from holdfast.placement.metadata_store import (
    DEFAULT_BUDGET,
    ContentUnreadableError,
    Version,
    VersionConflictError,
    Versioned,
    check_key,
    check_size,
    object_name,
)
from holdfast_operator.cluster import CONFIG_MAP, Cluster, ConflictError
from holdfast_operator.driver_pod import Owner
from holdfast_operator.pods import APP_LABEL

Tree = dict[str, Any]
KEY_LABEL = "holdfast.dev/store"
_VALUE, _KEY, _WRITTEN = "value", "holdfast.dev/key", "holdfast.dev/written"
_DEADLINE = 60.0
T = TypeVar("T")


class ConfigMapStore:
    """Keys of one app, each in a ConfigMap that the app owns."""

    def __init__(
        self, cluster: Cluster, owner: Owner, loop: asyncio.AbstractEventLoop, budget: int = DEFAULT_BUDGET
    ) -> None:
        self._cluster, self._owner, self._loop = cluster, owner, loop
        self._budget = budget

    @property
    def budget(self) -> int:
        """How many bytes a value may have."""
        return self._budget

    def get(self, key: str) -> Versioned | None:
        """The value of this key; None where there is none."""
        tree = self._wait(self._cluster.get(CONFIG_MAP, self._owner.namespace, object_name(key)))
        return None if tree is None else Versioned(_value(tree, key), _version(tree))

    def put(self, key: str, value: bytes, expected: Version | None) -> Version:
        """Write this value over the expected version."""
        check_size(check_key(key), value, self._budget)
        tree = self._tree(key, value)
        try:
            if expected is None:
                return _version(self._wait(self._cluster.create(CONFIG_MAP, self._owner.namespace, tree)))
            self._same_content(key, expected)
            tree["metadata"]["resourceVersion"] = expected
            written = self._wait(self._cluster.replace(CONFIG_MAP, self._owner.namespace, tree))
        except ConflictError as error:
            raise VersionConflictError(key, expected, self._found(key)) from error
        if written is None:
            raise VersionConflictError(key, expected, None)
        return _version(written)

    def delete(self, key: str, expected: Version) -> None:
        """Remove this key, which has the expected version."""
        tree = self._wait(self._cluster.get(CONFIG_MAP, self._owner.namespace, object_name(key)))
        found = None if tree is None else _version(tree)
        if tree is None or found != expected:
            raise VersionConflictError(key, expected, found)
        preconditions = {"uid": tree["metadata"]["uid"], "resourceVersion": expected}
        try:
            self._wait(self._cluster.delete_as(CONFIG_MAP, self._owner.namespace, object_name(key), preconditions))
        except ConflictError as error:
            raise VersionConflictError(key, expected, self._found(key)) from error

    def list(self, prefix: str) -> Mapping[str, Version]:
        """All keys that start with this text, in order, with their versions."""
        trees = self._wait(self._cluster.find(CONFIG_MAP, self._owner.namespace, {KEY_LABEL: self._owner.name}))
        keys = {str((tree["metadata"].get("annotations") or {}).get(_KEY)): _version(tree) for tree in trees}
        return {key: keys[key] for key in sorted(keys) if key.startswith(prefix)}

    def _same_content(self, key: str, expected: Version) -> None:
        """A replace must not wipe out what is not ours; the version in it keeps this look true."""
        tree = self._wait(self._cluster.get(CONFIG_MAP, self._owner.namespace, object_name(key)))
        if tree is not None and _version(tree) == expected:
            _value(tree, key)

    def _found(self, key: str) -> Version | None:
        tree = self._wait(self._cluster.get(CONFIG_MAP, self._owner.namespace, object_name(key)))
        return None if tree is None else _version(tree)

    def _tree(self, key: str, value: bytes) -> Tree:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": object_name(key),
                "labels": {KEY_LABEL: self._owner.name, APP_LABEL: self._owner.name},
                # An equal value must get a new version too; the API server gives none unless something changes.
                "annotations": {_KEY: key, _WRITTEN: secrets.token_hex(8)},
                "ownerReferences": [self._owner.reference()],
            },
            "binaryData": {_VALUE: base64.b64encode(value).decode()},
        }

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(_DEADLINE)


def _version(tree: Tree) -> Version:
    return Version(str(tree["metadata"]["resourceVersion"]))


def _value(tree: Tree, key: str) -> bytes:
    annotations, data = tree["metadata"].get("annotations") or {}, tree.get("binaryData") or {}
    try:
        if annotations.get(_KEY) == key and set(data) == {_VALUE} and not tree.get("data"):
            return base64.b64decode(data[_VALUE], validate=True)
    except (binascii.Error, TypeError, ValueError):
        pass
    message = (
        f"ConfigMap {tree['metadata']['name']} holds something else than Holdfast wrote; it is left as it is. Put back "
        f"what was there, or delete it: then {key} starts anew"
    )
    raise ContentUnreadableError(message)
