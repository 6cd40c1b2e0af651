"""ConfigMaps of one namespace in memory, with the rules of an API server that matter to who writes them."""

import copy
import itertools
from typing import Any

from holdfast.api_answers import ApiConflictError
from holdfast.placement.config_map_store import ConfigMapStore

Tree = dict[str, Any]


class ConfigMapsHere:
    """A version is given once, to one write; an equal object keeps the version it has."""

    def __init__(self) -> None:
        self.trees: dict[str, Tree] = {}
        self._numbers = itertools.count(1)

    def get(self, name: str) -> Tree | None:
        return copy.deepcopy(self.trees.get(name))

    def create(self, tree: Tree) -> Tree:
        name = tree["metadata"]["name"]
        if name in self.trees:
            message = f"{name} is there"
            raise ApiConflictError(message)
        metadata = {"uid": f"uid-{next(self._numbers)}", "resourceVersion": str(next(self._numbers))}
        self.trees[name] = copy.deepcopy(tree) | {"metadata": tree["metadata"] | metadata}
        return copy.deepcopy(self.trees[name])

    def replace(self, tree: Tree) -> Tree | None:
        name = tree["metadata"]["name"]
        before = self.trees.get(name)
        if before is None:
            return None
        if before["metadata"]["resourceVersion"] != tree["metadata"]["resourceVersion"]:
            message = f"{name} is another one"
            raise ApiConflictError(message)
        after = copy.deepcopy(tree) | {"metadata": tree["metadata"] | {"uid": before["metadata"]["uid"]}}
        if after != before:
            after["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.trees[name] = after
        return copy.deepcopy(after)

    def delete(self, name: str, version: str) -> None:
        tree = self.trees.get(name)
        if tree is not None and tree["metadata"]["resourceVersion"] != version:
            message = f"{name} is another one"
            raise ApiConflictError(message)
        self.trees.pop(name, None)

    def edit(self, name: str, **fields: object) -> None:
        """What somebody else does to one by hand."""
        self.trees[name] |= copy.deepcopy(fields)
        self.trees[name]["metadata"]["resourceVersion"] = str(next(self._numbers))


def store_here() -> ConfigMapStore:
    """A store in memory."""
    return ConfigMapStore(ConfigMapsHere(), "app", {})
