"""The rights that the chart gives, as a set that can be compared, and given to a user of a real API server.

Must not know who needs which.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.api.admin import Admin
from tests.waiting import wait_until

Tree = dict[str, Any]
OPERATOR = "operator"
"""The user that has the operator's rights."""
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True, order=True, slots=True)
class Right:
    """One verb on one resource."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{self.group and '.'}{self.group}"


def bound(trees: list[Tree], account: str) -> Iterator[tuple[Tree, Tree]]:
    """Each binding of this account, with its role."""
    roles = {_place(tree): tree for tree in trees if tree["kind"] in ("Role", "ClusterRole")}
    for tree in trees:
        if tree["kind"] in ("RoleBinding", "ClusterRoleBinding") and tree["subjects"][0]["name"] == account:
            ref = tree["roleRef"]
            yield tree, roles[ref["kind"], tree["metadata"].get("namespace"), ref["name"]]


def granted(trees: list[Tree], account: str) -> set[Right]:
    """What this account may do somewhere."""
    return {right for _, role in bound(trees, account) for rule in role["rules"] for right in rights(rule)}


def aggregated(trees: list[Tree]) -> list[Tree]:
    """The roles that the cluster's own `view`, `edit` and `admin` take in."""
    words = "rbac.authorization.k8s.io/aggregate-to-"
    return [tree for tree in trees if any(word.startswith(words) for word in tree["metadata"].get("labels") or ())]


def rights(rule: Tree) -> Iterator[Right]:
    """What a rule allows."""
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            yield from (Right(group, resource, verb) for verb in rule["verbs"])


def grant(admin: Admin, trees: list[Tree], account: str, user: str) -> None:
    """Give a user what the account has, and wait until it holds."""
    for binding, role in bound(trees, account):
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
        for tree in (role, {**binding, "subjects": [subject]}):
            namespace = tree["metadata"].get("namespace")
            within = f"/namespaces/{namespace}" if namespace else ""
            admin.create(f"{_RBAC}{within}/{tree['kind'].lower()}s", tree)
    for binding, role in bound(trees, account):
        for rule in role["rules"]:
            _wait(admin, user, rule, binding["metadata"].get("namespace"))


def _wait(admin: Admin, user: str, rule: Tree, namespace: str | None) -> None:
    resource, _, part = rule["resources"][0].partition("/")
    attributes = {"verb": rule["verbs"][0], "group": rule["apiGroups"][0], "resource": resource, "subresource": part}
    attributes |= {"namespace": namespace} if namespace else {}
    attributes |= {"name": rule["resourceNames"][0]} if "resourceNames" in rule else {}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    wait_until(lambda: admin.create(_REVIEWS, review)["status"]["allowed"], 20, f"{user} may {attributes}")


def _place(tree: Tree) -> tuple[str, str | None, str]:
    return tree["kind"], tree["metadata"].get("namespace"), tree["metadata"]["name"]
