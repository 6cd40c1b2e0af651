"""Who may do what: pods are restricted, accounts have the chart's rights and no others, and a login is seen nowhere."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.steps import ClusterError
from tests.kafka.broker import PASSWORD, USER
from tests.kafka.counted import Counted
from tests.kafka.load import kept
from tests.kind.apps import App, counted_app
from tests.kind.fed import Fed
from tests.kind.installed import RELEASE, SYSTEM, Installed, Team
from tests.kind.kafka import KindBroker
from tests.waiting import wait_until

_KINDS = "streamapps,pods,configmaps,statefulsets,persistentvolumeclaims,events"
_TENANT = "tenant"
_SOON = 120.0


def test_a_login_is_in_no_object_log_or_event(
    cluster: Cluster, installed: Installed, team: Team, broker: KindBroker, counted: Counted
) -> None:
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kafka-auth"}, "stringData": login}
    cluster.apply(secret, namespace=team.namespace)
    kafka = {"bootstrapServers": broker.login, "secretName": "kafka-auth"}
    app = counted_app(cluster, team, counted, systems=[{"name": "here", "kafka": kafka}])
    with Fed(counted) as fed:
        app.apply()
        app.ready()
        app.kill_driver()
        fed.flows()
        text = "".join(_everything_said(cluster, installed, app))
        fed.settles()
    assert f"name: {app.name}" in text
    assert "attempt 2" in text
    for hidden in (PASSWORD, base64.b64encode(PASSWORD.encode()).decode()):
        assert hidden not in text


def _everything_said(cluster: Cluster, installed: Installed, app: App) -> Iterator[str]:
    option = f"--namespace={app.namespace}"
    yield cluster.kubectl("get", _KINDS, option, "--output=yaml")
    yield cluster.kubectl("get", "all,configmaps,events", f"--namespace={SYSTEM}", "--output=yaml")
    yield cluster.kubectl("logs", installed.operator(), f"--namespace={SYSTEM}")
    for pod in app.pods():
        yield cluster.kubectl("logs", pod["metadata"]["name"], option)


def test_restricted_pod_security_is_enforced_where_apps_run(cluster: Cluster, team: Team) -> None:
    container = {"name": "c", "image": "any", "securityContext": {"privileged": True}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "open"}, "spec": {"containers": [container]}}
    with pytest.raises(ClusterError, match="violates PodSecurity"):
        cluster.apply(pod, namespace=team.namespace)


def test_accounts_may_do_exactly_what_the_chart_says(cluster: Cluster, team: Team) -> None:
    app, operator = f"{team.namespace}:holdfast-app", f"{SYSTEM}:{RELEASE}"
    for verb, what in (("create", "pods"), ("get", "secrets"), ("patch", "streamapps"), ("get", "nodes")):
        assert not _may(cluster, app, verb, what, team.namespace)
    assert _may(cluster, app, "create", "statefulsets", team.namespace)
    for verb, what in (("list", "secrets"), ("update", "pods"), ("update", "nodes"), ("create", "clusterroles")):
        assert not _may(cluster, operator, verb, what, team.namespace)
    assert _may(cluster, operator, "create", "pods", team.namespace)


def test_apps_of_two_tenants_do_not_see_each_other(
    cluster: Cluster, installed: Installed, team: Team, broker: KindBroker
) -> None:
    with installed.team() as other:
        apps = []
        for each_team in (team, other):
            cluster.apply(*_tenant(each_team.namespace), namespace=each_team.namespace)
            counted = Counted.new(broker)
            app = counted_app(cluster, each_team, counted)
            counted.feed(240)
            app.apply()
            apps.append((app, counted))
        for app, counted in apps:
            app.ready()
            wait_until(lambda: len(counted.written()) == kept(240), _SOON, "all rows are out")  # noqa: B023 - in this turn
            counted.check(240)
        for own_team, other_team in ((team, other), (other, team)):
            tenant = f"{own_team.namespace}:{_TENANT}"
            assert _may(cluster, tenant, "get", "streamapps", own_team.namespace)
            for what in ("streamapps", "pods", "configmaps"):
                assert not _may(cluster, tenant, "get", what, other_team.namespace)
            assert not _may(cluster, f"{own_team.namespace}:holdfast-app", "get", "configmaps", other_team.namespace)


def _may(cluster: Cluster, account: str, verb: str, what: str, namespace: str) -> bool:
    words = ("auth", "can-i", verb, what, f"--namespace={namespace}", f"--as=system:serviceaccount:{account}")
    try:
        return cluster.kubectl(*words).strip() == "yes"
    except ClusterError:
        return False  # kubectl ends with 1 for a no


def _tenant(namespace: str) -> list[dict[str, Any]]:
    """Somebody who may have apps here."""
    named = {"name": _TENANT, "namespace": namespace}
    rbac = "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["holdfast.dev"], "resources": ["streamapps"], "verbs": ["*"]}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": named, "rules": [rule]},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": named,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": _TENANT},
            "subjects": [{"kind": "ServiceAccount", **named}],
        },
    ]
