"""The placement records of apps, read by the core's own code. Writing them is the driver's business.

That code is synchronous. It runs over what has been fetched, and says what it misses until nothing is missing: no
thread waits for the event loop, so many apps can be read at once. Must not write.
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
    """The records of all apps, of which the last few are remembered."""

    cluster: Cluster
    _last: RecentValues[tuple[AppKey, str], tuple[PlacementRecord | None]] = field(default_factory=RecentValues)
    """In a tuple, as that there is none is remembered too."""

    async def read(self, key: AppKey, run: str, *, since: object, live: bool) -> PlacementRecord | None:
        """The record of this run; None: there is none yet.

        As it was read last, if that was after the same news of its driver, unless `live`.
        """
        known = None if live else self._last.get((key, run), since)
        if known is None:
            known = self._last.put((key, run), since, (await self._fresh(key, run),))
        return known[0]

    async def _fresh(self, key: AppKey, run: str) -> PlacementRecord | None:
        try:
            return await _read(self.cluster, key, run)
        except ContentUnreadableError:
            # Its driver may have replaced it between two of the reads.
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
    """An object that has not been asked for."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


@dataclass(frozen=True, slots=True)
class _FetchedConfigMaps:
    """ConfigMaps as they were when they were fetched; for reading only."""

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
