"""The ConfigMaps of runs that are given up for good: placement record, paces, the last report and assignment.

They stay as long as the checkpoint of their run does. An app that went back to a run without its record would group
partitions as if they had never grown, and one without its report would count attempts from one. So only a run whose
checkpoint is marked as collected is forgotten (`checkpoint.run_owner`): its id is refused from then on. Must not decide
which run that is, nor touch what another app object owns.
"""

import logging

from holdfast.errors import UserActionError
from holdfast.placement.config_map_store import ConfigMaps, ConfigMapStore, version_of
from holdfast.placement.record_store import record_key
from holdfast.protocol.attempt import AttemptOrders
from holdfast.protocol.names import assignment_name, report_name
from holdfast.trees import Tree
from holdfast_runtime.coordination.coordinator import paces_key
from holdfast_runtime.coordination.reporter import owner_reference

_LOG = logging.getLogger("holdfast")


class GivenUpRuns:
    """Forgets runs of one app."""

    def __init__(self, maps: ConfigMaps, orders: AttemptOrders) -> None:
        self._maps, self._app, self._uid = maps, orders.app, orders.uid
        self._store = ConfigMapStore(maps, orders.app, owner_reference(orders))

    def forget(self, run: str) -> int:
        """Remove all that is kept of a run, and return how many ConfigMaps went. May be killed anywhere."""
        removed = sum(self._removed(key) for key in (record_key(self._app, run), paces_key(self._app, run)))
        for name in (assignment_name(self._app, run), report_name(self._app, run)):
            tree = self._maps.get(name)
            if tree is not None and self._owned(tree):
                self._maps.delete(name, version_of(tree))
                removed += 1
        return removed

    def _removed(self, key: str) -> bool:
        try:
            stored = self._store.get(key)
        except UserActionError as error:
            _LOG.warning("what somebody has changed of a run that is collected is left: %s", error)
            return False
        if stored is not None:
            self._store.remove(key, stored.version)
        return stored is not None

    def _owned(self, tree: Tree) -> bool:
        return any(owner.get("uid") == self._uid for owner in tree["metadata"].get("ownerReferences") or ())
