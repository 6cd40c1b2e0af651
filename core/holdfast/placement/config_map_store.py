"""The metadata store in ConfigMaps, one per key with compare-and-set: for what must outlive drivers and the operator.

The driver writes the placement record and the operator reads it with the same code; each brings its own API client.
Content that Holdfast did not write is refused, never overwritten. A version is the object's `resourceVersion`. Must not
know what the values mean, nor call a cluster itself.
"""

import base64
import binascii
from typing import Protocol

from holdfast.api_answers import ApiConflictError
from holdfast.errors import UserActionError
from holdfast.placement.metadata_store import Version, VersionConflictError, Versioned, check_size, object_name
from holdfast.protocol.names import APP_LABEL
from holdfast.trees import Tree

_VALUE, _KEY = "value", "holdfast.dev/key"


class ConfigMaps(Protocol):
    """The ConfigMaps of one namespace, as JSON trees; a failed request raises, it never returns `None`."""

    def get(self, name: str) -> Tree | None:
        """Return the ConfigMap as it is now; None if it does not exist."""

    def create(self, tree: Tree) -> Tree:
        """Create a ConfigMap; raise `ApiConflictError` if one of its name exists."""

    def replace(self, tree: Tree) -> Tree | None:
        """Replace the version named in the tree; None if it is gone; raise `ApiConflictError` if it changed."""

    def delete(self, name: str, version: str) -> None:
        """Delete this version; nothing if it is gone; raise `ApiConflictError` if it changed."""


class ConfigMapStore:
    """The keys of one app, each in its own ConfigMap with the given owner."""

    def __init__(self, maps: ConfigMaps, app: str, owner: Tree) -> None:
        """`owner`: the owner reference with which Kubernetes deletes the ConfigMaps together with the app."""
        self._maps, self._app, self._owner = maps, app, owner

    def get(self, key: str) -> Versioned | None:
        """Return the value of this key; None if there is none."""
        tree = self._maps.get(object_name(key))
        return None if tree is None else stored_in(tree, key)

    def put(self, key: str, value: bytes, expected: Version | None) -> Version:
        """Replace the expected version with this value."""
        tree = self._tree(key, value)
        check_size(key, value)
        try:
            if expected is None:
                return version_of(self._maps.create(tree))
            # The version guards what others wrote too: `get` gives none for content that Holdfast did not write.
            tree["metadata"]["resourceVersion"] = expected
            written = self._maps.replace(tree)
        except ApiConflictError as error:
            raise VersionConflictError(key, expected) from error
        if written is None:
            raise VersionConflictError(key, expected)
        return version_of(written)

    def remove(self, key: str, expected: Version) -> None:
        """Remove this version of the key."""
        try:
            self._maps.delete(object_name(key), expected)
        except ApiConflictError as error:
            raise VersionConflictError(key, expected) from error

    def _tree(self, key: str, value: bytes) -> Tree:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": object_name(key),
                "labels": {APP_LABEL: self._app},
                "annotations": {_KEY: key},
                "ownerReferences": [self._owner],
            },
            "binaryData": {_VALUE: base64.b64encode(value).decode()},
        }


def version_of(tree: Tree) -> Version:
    """The version of a ConfigMap."""
    return Version(str(tree["metadata"]["resourceVersion"]))


def stored_in(tree: Tree, key: str) -> Versioned:
    """Return the value of this key in its ConfigMap; raise `ContentUnreadableError` if it holds anything else."""
    annotations, data = tree["metadata"].get("annotations") or {}, tree.get("binaryData") or {}
    try:
        if annotations.get(_KEY) == key and set(data) == {_VALUE} and not tree.get("data"):
            return Versioned(base64.b64decode(data[_VALUE], validate=True), version_of(tree))
    except (binascii.Error, TypeError, ValueError):
        pass
    message = (
        f"ConfigMap {tree['metadata']['name']} holds something else than Holdfast wrote; it is left as it is. Put back "
        f"what was there, or set a new spec.runId to start with empty state"
    )
    raise UserActionError(message, code="ContentUnreadableError")
