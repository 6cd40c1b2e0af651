"""The tokens that kubelets give drivers, and the policy of an installation that holds drivers to their app.

Must not make the pods.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.api.admin import PODS, Admin
from tests.chart.rendered import rendered

ACCOUNTS = "/api/v1/namespaces/{}/serviceaccounts"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


@contextmanager
def drivers_limited(admin: Admin, namespace: str) -> Iterator[None]:
    """The chart's policy for drivers holds in this namespace."""
    policy = rendered(f"watchNamespaces={{{namespace}}}", only="templates/admission-drivers.yaml")
    paths = [f"{_ADMISSION}/{_PLURALS[one['kind']]}" for one in policy]
    for path, tree in zip(paths, policy, strict=True):
        admin.create(path, tree)
    try:
        yield
    finally:
        for path, tree in zip(paths, policy, strict=True):
            admin.delete(f"{path}/{tree['metadata']['name']}")


def token_of(admin: Admin, namespace: str, pod: str | None) -> str:
    """The token that the kubelet would mount into this pod; None: one of no pod."""
    spec: dict[str, Any] = {}
    if pod is not None:
        uid = admin.get(f"{PODS.format(namespace)}/{pod}")["metadata"]["uid"]
        spec = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    token: str = admin.create(f"{ACCOUNTS.format(namespace)}/holdfast-app/token", request)["status"]["token"]
    return token
