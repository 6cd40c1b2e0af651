"""Drivers of apps for tests that play the operator: what they are told, and what they have written on the cluster.

A driver has the rights it needs and no other: a call that is not among them fails its test.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

from kubernetes import config

from holdfast.placement.config_map_store import ConfigMapStore
from holdfast.placement.record_store import RecordStore
from holdfast.protocol.assignment import ASSIGNMENT_KEY, VersionedAssignment
from holdfast.protocol.attempt import AttemptOrders
from holdfast.protocol.report import DriverReport, report_in
from holdfast.tasks.record import PlacementRecord
from holdfast_runtime.coordination.api_config_maps import ApiConfigMaps
from tests.api.admin import CONFIG_MAPS, Admin, RefusedError
from tests.api.plane import ADMIN, Plane
from tests.waiting import wait_until

USER = "driver"
_RIGHTS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "update", "delete"]}
_RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}"


@dataclass(frozen=True)
class Theatre:
    """A namespace in which a test plays the operator of one app."""

    plane: Plane
    admin: Admin
    orders: AttemptOrders

    @classmethod
    def opened(cls, plane: Plane, app: str, namespace: str) -> "Theatre":
        admin = Admin(plane)
        admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        orders = AttemptOrders(app, namespace, "uid-of-app", "1", 1, f"{app}-assignment", f"{app}-report")
        made = cls(plane, admin, orders)
        made._grant()
        return made

    def maps(self, user: str = USER) -> ApiConfigMaps:
        """The driver's way to the API server, or the admin's."""
        path = str(self.plane.kubeconfig(user))
        return ApiConfigMaps(config.new_client_from_config(path), self.orders.namespace)  # type: ignore[no-untyped-call]

    def attempt(self, number: int) -> AttemptOrders:
        return replace(self.orders, attempt=number)

    def hand(self, handed: VersionedAssignment) -> None:
        """Write an assignment, as the operator does."""
        name, path = self.orders.assignment, CONFIG_MAPS.format(self.orders.namespace)
        data = {ASSIGNMENT_KEY: handed.text()}
        if self.admin.get(f"{path}/{name}"):
            self.admin.patch(f"{path}/{name}", {"data": data})
        else:
            self.admin.create(path, {"metadata": {"name": name}, "data": data})

    def config_map(self, name: str) -> dict[str, Any]:
        return self.admin.get(f"{CONFIG_MAPS.format(self.orders.namespace)}/{name}")

    def report(self) -> DriverReport | None:
        """What the driver says."""
        return report_in(self.config_map(self.orders.report))

    def reported(self, **fields: Any) -> bool:
        """Whether the driver says this."""
        report = self.report()
        return report is not None and all(getattr(report, name) == value for name, value in fields.items())

    def record(self) -> PlacementRecord | None:
        """The placement record, by the core's own code."""
        return RecordStore(ConfigMapStore(self.maps(ADMIN), self.orders.app, {}), self.orders.app).load(self.orders.run)

    def files(self, app: dict[str, Any], spark: dict[str, str]) -> dict[str, str]:
        """What is in the driver's folder."""
        return {"app.json": json.dumps(app), "attempt.json": self.orders.text(), "spark.json": json.dumps(spark)}

    def _grant(self) -> None:
        path = _RBAC.format(self.orders.namespace)
        self.admin.create(f"{path}/roles", {"metadata": {"name": USER}, "rules": [_RIGHTS]})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": USER}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}
        self.admin.create(
            f"{path}/rolebindings", {"metadata": {"name": USER}, "roleRef": reference, "subjects": [subject]}
        )
        wait_until(self._allowed, 20, f"{USER} may read ConfigMaps")

    def _allowed(self) -> bool:
        attributes = {"verb": "get", "resource": "configmaps", "namespace": self.orders.namespace}
        review = {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
        spec = {"user": USER, "resourceAttributes": attributes}
        try:
            answer = self.admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {**review, "spec": spec})
        except RefusedError:
            return False
        return bool(answer["status"]["allowed"])
