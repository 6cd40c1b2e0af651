"""Why: what a driver keeps on the cluster goes with its app, and with nothing else: attempts come and go.

Must not make the driver a controller: that is the operator.
"""

from holdfast.placement.config_map_store import Tree
from holdfast.protocol.attempt import AttemptOrders
from holdfast.spec.app_part import API_VERSION, KIND


def owner_reference(told: AttemptOrders) -> Tree:
    """The app, as Kubernetes writes it. To block its deletion would take a right that drivers don't need."""
    return {"apiVersion": API_VERSION, "kind": KIND, "name": told.app, "uid": told.uid, "blockOwnerDeletion": False}
