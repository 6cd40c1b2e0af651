"""ConfigMaps of one namespace in memory, with the rules of an API server that matter to who writes them."""

import copy
import itertools
from collections.abc import Mapping
from typing import Any

from holdfast.placement.config_map_store import ConfigMapConflictError

Tree = dict[str, Any]


class ConfigMapsHere:
    """A version is given once, to one write; an equal object keeps the version it has."""

    def __init__(self) -> None:
        self.trees: dict[str, Tree] = {}
        self._numbers = itertools.count(1)

    def get(self, name: str) -> Tree | None:
        return copy.deepcopy(self.trees.get(name))

    def find(self, labels: Mapping[str, str]) -> list[Tree]:
        return [
            copy.deepcopy(tree)
            for tree in self.trees.values()
            if labels.items() <= (tree["metadata"].get("labels") or {}).items()
        ]

    def create(self, tree: Tree) -> Tree:
        name = tree["metadata"]["name"]
        if name in self.trees:
            message = f"{name} is there"
            raise ConfigMapConflictError(message)
        metadata = {"uid": f"uid-{next(self._numbers)}", "resourceVersion": str(next(self._numbers))}
        self.trees[name] = copy.deepcopy(tree) | {"metadata": tree["metadata"] | metadata}
        return copy.deepcopy(self.trees[name])

    def replace(self, tree: Tree) -> Tree | None:
        name = tree["metadata"]["name"]
        before = self.trees.get(name)
        if before is None:
            return None
        self._check(before, {"resourceVersion": tree["metadata"]["resourceVersion"]})
        after = copy.deepcopy(tree) | {"metadata": tree["metadata"] | {"uid": before["metadata"]["uid"]}}
        if after != before:
            after["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.trees[name] = after
        return copy.deepcopy(after)

    def delete(self, name: str, preconditions: Mapping[str, str]) -> None:
        if name in self.trees:
            self._check(self.trees[name], preconditions)
            del self.trees[name]

    def _check(self, tree: Tree, preconditions: Mapping[str, str]) -> None:
        if not preconditions.items() <= tree["metadata"].items():
            message = f"{tree['metadata']['name']} is another one than {dict(preconditions)}"
            raise ConfigMapConflictError(message)
