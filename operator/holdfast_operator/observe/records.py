"""The reader of apps' placement records, which uses the core's own code.

That code is synchronous. It runs over the ConfigMaps fetched so far; if one is missing, it is fetched and the code runs
again. So no thread waits for the event loop, and many apps can be read at once. Must not write: the driver does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.placement.config_map_store import ConfigMapStore
from holdfast.placement.metadata_store import ContentUnreadableError
from holdfast.placement.record_store import RecordStore
from holdfast.tasks.record import PlacementRecord
from holdfast_operator.cluster.client import CONFIG_MAP, Cluster
from holdfast_operator.decide.facts import AppKey
from holdfast_operator.observe.cache import RecentValues

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlacementRecords:
    """Reads the records of all apps and caches recent ones."""

    cluster: Cluster
    _last: RecentValues[tuple[AppKey, str], tuple[PlacementRecord | None]] = field(default_factory=RecentValues)
    """Values are tuples, so that a missing record is cached too."""

    async def read(self, key: AppKey, run: str, *, since: object, live: bool) -> PlacementRecord | None:
        """Return the record of this run; None: there is none yet.

        Unless `live`, return the cached record if the driver's news (`since`) is the same as when it was read.
        """
        known = None if live else self._last.get((key, run), since)
        if known is None:
            known = self._last.put((key, run), since, (await self._fresh(key, run),))
        return known[0]

    async def _fresh(self, key: AppKey, run: str) -> PlacementRecord | None:
        try:
            return await _read(self.cluster, key, run)
        except ContentUnreadableError:
            # The driver may have replaced it between two reads.
            return await _read(self.cluster, key, run)


async def _read(cluster: Cluster, key: AppKey, run: str) -> PlacementRecord | None:
    fetched = _FetchedConfigMaps()
    store = RecordStore(ConfigMapStore(fetched, key.name, {}), key.name)
    while True:
        try:
            return store.load(run)
        except _NotFetchedError as missing:
            fetched.trees[missing.name] = await cluster.get(CONFIG_MAP, key.namespace, missing.name)


class _NotFetchedError(HoldfastError):
    """A ConfigMap that has not been fetched yet."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


@dataclass(frozen=True, slots=True)
class _FetchedConfigMaps:
    """The fetched ConfigMaps, read-only."""

    trees: dict[str, Tree | None] = field(default_factory=dict)

    def get(self, name: str) -> Tree | None:
        if name not in self.trees:
            raise _NotFetchedError(name)
        return self.trees[name]

    def find(self, labels: Mapping[str, str]) -> list[Tree]:
        raise NotImplementedError

    def create(self, tree: Tree) -> Tree:
        raise NotImplementedError

    def replace(self, tree: Tree) -> Tree | None:
        raise NotImplementedError

    def delete(self, name: str, preconditions: Mapping[str, str]) -> None:
        raise NotImplementedError
