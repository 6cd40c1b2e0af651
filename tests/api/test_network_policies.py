"""NetworkPolicies of apps on a real API server: there before the pod, renewed by each attempt, gone with nothing else.

It stores and checks them; nothing here enforces them (tests/operator/test_network_policy.py says who reaches whom).
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from kubernetes.aio import client, config

from holdfast.api_answers import ApiUnreachableError
from holdfast.protocol.names import api_policy_name, policy_name
from holdfast.reasons import Reason
from holdfast_operator.act.actions import ActionRunner
from holdfast_operator.cluster import POD, ApiKind, Cluster
from holdfast_operator.decide.decision import StartDriver
from holdfast_operator.decide.facts import AppFinding, read_spec
from holdfast_operator.manifests.driver_pod import Installation
from holdfast_operator.manifests.network_policy import AppNetwork
from holdfast_operator.observe.cache import WatchCache
from holdfast_operator.observe.nodes import Nodes
from holdfast_operator.observe.snapshot import app_object
from tests.api.admin import APPS, Admin
from tests.api.conftest import NAMESPACE, RESTRICTED, Site
from tests.api.plane import ADMIN, Plane
from tests.operator.apps import tree
from tests.operator.test_network_policy import ANYWHERE
from tests.waiting import wait_until

POLICIES = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"
NETWORK = AppNetwork(brokers=ANYWHERE, stores=ANYWHERE)


class Broken(Cluster):
    """An API server that answers no more when a pod is to be made."""

    async def create(self, kind: ApiKind, namespace: str | None, tree: dict[str, Any]) -> dict[str, Any]:
        if kind is POD:
            message = "it has just gone"
            raise ApiUnreachableError(message)
        return await super().create(kind, namespace, tree)


@dataclass(frozen=True)
class Place:
    """A namespace with the app `ads`, whose attempts tests start themselves."""

    plane: Plane
    admin: Admin
    namespace: str

    def start(
        self,
        attempt: int = 1,
        network: AppNetwork | None = NETWORK,
        user: str = ADMIN,
        reached: type[Cluster] = Cluster,
        **spec: Any,
    ) -> AppFinding | None:
        """What becomes of it."""
        app = app_object(self.app())
        parsed = read_spec({**self.app(), "spec": tree(**spec)["spec"]}).app
        assert parsed is not None

        async def act() -> AppFinding | None:
            configuration = client.Configuration()
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                str(self.plane.kubeconfig(user)), client_configuration=configuration
            )
            configuration.client_session_kwargs = {"trust_env": False}
            async with client.ApiClient(configuration) as api:
                hands = ActionRunner(reached(api), WatchCache(nodes=Nodes(0)), Installation("image"), network)
                return await hands.act(StartDriver(parsed, attempt), app)

        return asyncio.run(act())

    def app(self) -> dict[str, Any]:
        return self.admin.get(f"{APPS.format(self.namespace)}/ads")

    @property
    def name(self) -> str:
        """Of the policy of all its pods."""
        return policy_name("ads", self.app()["metadata"]["uid"])

    def policies(self) -> dict[str, dict[str, Any]]:
        """By name."""
        return {one["metadata"]["name"]: one for one in self.admin.items(POLICIES.format(self.namespace))}

    def things(self, what: str) -> list[str]:
        """Names of pods or of ConfigMaps."""
        return [one["metadata"]["name"] for one in self.admin.items(f"/api/v1/namespaces/{self.namespace}/{what}")]

    def ports(self) -> set[int]:
        """To which the app is let out."""
        rules = self.policies()[self.name]["spec"]["egress"]
        return {port["port"] for rule in rules for port in rule.get("ports", [])}


@pytest.fixture
def place(plane: Plane) -> Place:
    admin = Admin(plane)
    made = admin.create("/api/v1/namespaces", NAMESPACE | {"metadata": {"generateName": "net-", "labels": RESTRICTED}})
    namespace = made["metadata"]["name"]
    admin.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "holdfast-app"}})
    admin.create(APPS.format(namespace), tree())
    return Place(plane, admin, namespace)


def test_a_running_app_has_and_owns_them(site: Site) -> None:
    with site.operator():
        site.apply()
        site.until("Ready", "True", "Running")
    made = site.admin.items(POLICIES.format(site.namespace))
    uid = site.app()["metadata"]["uid"]
    assert [one["metadata"]["name"] for one in made] == [policy_name("ads", uid), api_policy_name("ads", uid)]
    for policy in made:
        (owner,) = policy["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("StreamApp", uid)


def test_they_precede_the_pod_and_outlast_a_second_start(place: Place) -> None:
    with pytest.raises(ApiUnreachableError):
        place.start(reached=Broken)
    before = place.policies()
    assert list(before) == [place.name, f"{place.name}.api"]
    assert place.things("pods") == []
    assert place.start() is None
    assert len(place.things("pods")) == 1
    assert place.policies() == before


def test_the_next_attempt_admits_what_the_app_is_then(place: Place) -> None:
    place.start()
    assert place.ports() == {53, 443, 9092}
    place.start(2, systems=[{"name": "events", "kafka": {"bootstrapServers": "kafka:19092"}}])
    assert place.ports() == {53, 443, 19092}
    place.start(3, AppNetwork(open=True))
    assert place.policies()[place.name]["spec"]["egress"] == [{}]


def test_remains_of_an_app_of_this_name_are_no_obstacle(site: Site) -> None:
    with site.operator():
        site.apply()
        site.until("Ready", "True", "Running")
        site.admin.delete(f"{APPS.format(site.namespace)}/ads")
        wait_until(lambda: not site.app(), 60, "the app is gone")
        left = len(site.admin.items(POLICIES.format(site.namespace)))
        site.apply()
        site.until("Ready", "True", "Running")
    uid = site.app()["metadata"]["uid"]
    made = {one["metadata"]["name"] for one in site.admin.items(POLICIES.format(site.namespace))}
    assert made >= {policy_name("ads", uid), api_policy_name("ads", uid)}
    assert left == 2, "nobody collects garbage here"


def test_a_foreign_policy_stays_and_no_pod_is_made(place: Place) -> None:
    spec = {"podSelector": {}, "policyTypes": ["Ingress"]}
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": spec}
    name = f"{place.name}.api"
    policy["metadata"] = {"name": name}
    place.admin.create(POLICIES.format(place.namespace), policy)
    refusal = place.start()
    assert refusal is not None
    assert refusal.reason is Reason.CREATE_REFUSED
    assert name in refusal.message
    assert place.policies()[name]["spec"] == spec
    assert place.things("pods") == []


def test_without_the_right_to_make_them_no_pod_is_made(place: Place) -> None:
    refusal = place.start(user="nobody")
    assert refusal is not None
    assert refusal.reason is Reason.CREATE_REFUSED
    assert "networkpolicies" in refusal.message


def test_rules_that_the_api_server_does_not_take_are_said(place: Place) -> None:
    refusal = place.start(network=AppNetwork(egress=({"ports": [{"port": 70000}]},)))
    assert refusal is not None
    assert refusal.reason is Reason.CREATE_REFUSED
    assert "70000" in refusal.message


def test_none_are_made_where_they_are_switched_off(place: Place) -> None:
    assert place.start(network=None) is None
    assert place.policies() == {}
    assert len(place.things("pods")) == 1
