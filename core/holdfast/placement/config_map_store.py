"""The metadata store in ConfigMaps, one per key with compare-and-set: for what must outlive drivers and the operator.

The driver writes the placement record and the operator reads it with the same code, on a laptop and on a cluster; each
passes its own API client as `ConfigMaps`. Content that Holdfast did not write is refused, never overwritten. Must not
know what the values mean, nor call a cluster itself.
"""

import base64
import binascii
import secrets
from collections.abc import Mapping
from typing import Any, Protocol

from holdfast.errors import RetrySoonError
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
from holdfast.protocol.names import APP_LABEL, STORE_LABEL

Tree = dict[str, Any]
_VALUE, _KEY, _WRITTEN = "value", "holdfast.dev/key", "holdfast.dev/written"


class ConfigMapConflictError(RetrySoonError):
    """Another writer was first, or a ConfigMap of that name already exists."""


class ConfigMaps(Protocol):
    """The ConfigMaps of one namespace, as JSON trees; a failed request raises, it never returns `None`."""

    def get(self, name: str) -> Tree | None:
        """Return the ConfigMap as it is now; None if it does not exist."""

    def find(self, labels: Mapping[str, str]) -> list[Tree]:
        """Return all ConfigMaps with these labels."""

    def create(self, tree: Tree) -> Tree:
        """Create a ConfigMap; raise `ConfigMapConflictError` if one of its name exists."""

    def replace(self, tree: Tree) -> Tree | None:
        """Replace the version named in the tree; None if it is gone; raise `ConfigMapConflictError` if it changed."""

    def delete(self, name: str, preconditions: Mapping[str, str]) -> None:
        """Delete the ConfigMap if it meets the preconditions; raise `ConfigMapConflictError` if not."""


class ConfigMapStore:
    """The keys of one app, each in its own ConfigMap with the given owner."""

    def __init__(self, maps: ConfigMaps, app: str, owner: Tree, budget: int = DEFAULT_BUDGET) -> None:
        """`owner`: the owner reference with which Kubernetes deletes the ConfigMaps together with the app."""
        self._maps, self._app, self._owner = maps, app, owner
        self._budget = budget

    @property
    def budget(self) -> int:
        """The most bytes a value may have."""
        return self._budget

    def get(self, key: str) -> Versioned | None:
        """Return the value of this key; None if there is none."""
        tree = self._maps.get(object_name(key))
        return None if tree is None else Versioned(_value(tree, key), version_of(tree))

    def put(self, key: str, value: bytes, expected: Version | None) -> Version:
        """Replace the expected version with this value."""
        check_size(check_key(key), value, self._budget)
        tree = self._tree(key, value)
        try:
            if expected is None:
                return version_of(self._maps.create(tree))
            self._same_content(key, expected)
            tree["metadata"]["resourceVersion"] = expected
            written = self._maps.replace(tree)
        except ConfigMapConflictError as error:
            raise VersionConflictError(key, expected, self._found(key)) from error
        if written is None:
            raise VersionConflictError(key, expected, None)
        return version_of(written)

    def delete(self, key: str, expected: Version) -> None:
        """Remove this key if it has the expected version."""
        tree = self._maps.get(object_name(key))
        found = None if tree is None else version_of(tree)
        if tree is None or found != expected:
            raise VersionConflictError(key, expected, found)
        try:
            self._maps.delete(object_name(key), {"uid": tree["metadata"]["uid"], "resourceVersion": expected})
        except ConfigMapConflictError as error:
            raise VersionConflictError(key, expected, self._found(key)) from error

    def list(self, prefix: str) -> Mapping[str, Version]:
        """Return all keys with this prefix, sorted, with their versions."""
        trees = self._maps.find({STORE_LABEL: self._app})
        keys = {str((tree["metadata"].get("annotations") or {}).get(_KEY)): version_of(tree) for tree in trees}
        return {key: keys[key] for key in sorted(keys) if key.startswith(prefix)}

    def _same_content(self, key: str, expected: Version) -> None:
        """Refuse to replace content that Holdfast did not write; the expected version guards against later changes."""
        tree = self._maps.get(object_name(key))
        if tree is not None and version_of(tree) == expected:
            _value(tree, key)

    def _found(self, key: str) -> Version | None:
        tree = self._maps.get(object_name(key))
        return None if tree is None else version_of(tree)

    def _tree(self, key: str, value: bytes) -> Tree:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": object_name(key),
                "labels": {STORE_LABEL: self._app, APP_LABEL: self._app},
                # An equal value must get a new version too; the API server makes one only if something changes.
                "annotations": {_KEY: key, _WRITTEN: secrets.token_hex(8)},
                "ownerReferences": [self._owner],
            },
            "binaryData": {_VALUE: base64.b64encode(value).decode()},
        }


def version_of(tree: Tree) -> Version:
    """The version of a ConfigMap."""
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
