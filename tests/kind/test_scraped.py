"""What a Prometheus has of a real app: through the restart of its driver, and of a fault that breaks a promise."""

import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast_cli.dashboards import dashboards
from tests.chart.monitored import queries
from tests.chart.promrules import judged
from tests.cluster.cluster import Cluster
from tests.kafka.counted import Counted
from tests.kafka.load import kept
from tests.kind.apps import App
from tests.kind.fed import Fed
from tests.kind.installed import SYSTEM, Installed
from tests.kind.scrapes import Scrapes

MAX_LAG = 10
_FOR = 2
"""Minutes that the alert waits, by the chart's defaults; a scrape counts as one."""
_BEHIND = 180.0
_QUOTA: Any = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "none-more"},
    "spec": {"hard": {"pods": "0"}},
}
_OF_TROUBLE = {
    "holdfast_ahead_rows_total",
    "holdfast_app_ready",  # of apps that are not
    "holdfast_dead_letters_total",
    "holdfast_expired_rows_total",
    "holdfast_failed_rows_total",
    "holdfast_late_rows_total",
    "holdfast_misplaced_records_total",
    "holdfast_operator_api_calls_total",  # of calls that failed
    "holdfast_operator_failed_looks_total",
    "holdfast_operator_refusals_total",
    "holdfast_restored_tasks_total",
    "holdfast_undecoded_records_total",
    "holdfast_unwritable_rows_total",
    "holdfast_waits_total",
}
_OF_OTHERS = {"holdfast_buffered_rows", "holdfast_table_left_records", "holdfast_unkeyed_records_total"}
"""Of apps with joins, or tables."""


def operators_kind(kind: str) -> Any:
    """A kind of the Prometheus operator, whose objects may hold anything."""
    plural = f"{kind.lower()}s"
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {"group": "monitoring.coreos.com", "names": names, "scope": "Namespaced", "versions": [version]},
    }


@pytest.fixture
def monitored(cluster: Cluster, installed: Installed) -> Iterator[Installed]:
    """The release with all that it has for Prometheus and Grafana."""
    kinds = [operators_kind(kind) for kind in ("PodMonitor", "PrometheusRule")]
    cluster.apply(*kinds, namespace="default")
    for kind in kinds:
        name = kind["metadata"]["name"]
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=60s")
    installed.upgrade(**{f"metrics.{part}.enabled": True for part in ("podMonitor", "rules", "dashboards")})
    yield installed
    installed.upgrade()
    for kind in kinds:
        cluster.kubectl("delete", "crd", kind["metadata"]["name"])


@pytest.mark.usefixtures("monitored")
def test_scrapes_follow_an_app_through_restart_and_fault(cluster: Cluster, app: App, counted: Counted) -> None:
    app.tree["spec"]["alerts"] = {"maxLag": f"{MAX_LAG}s", "deadLetters": 0}
    queried = [query for text in dashboards().values() for query in queries(told_of(app, text))]
    with Fed(counted) as fed, Scrapes(cluster, (app.namespace, SYSTEM)) as scrapes:
        (rule,) = cluster.tree("prometheusrules", f"--namespace={SYSTEM}")["items"]
        app.apply()
        app.ready()
        fed.flows()
        well = scrapes.later(4)
        app.kill_driver()
        fed.flows()
        app.ready()
        again = scrapes.later(4)

        cluster.apply(_QUOTA, namespace=app.namespace)
        for executor in app.executors():
            app.kill(executor)
        behind = scrapes.until(
            lambda: scrapes.above(MAX_LAG, "holdfast_lag_seconds", _FOR + 1), _BEHIND, "the app is behind its promise"
        )
        cluster.kubectl("delete", "resourcequota", _QUOTA["metadata"]["name"], f"--namespace={app.namespace}")
        fed.flows()
        app.ready()
        end = scrapes.later(_FOR + 3)
        rows = fed.settles()
        scrapes.later(2)
    looks = [scrape - 1 for scrape in (well, again, behind, end)]
    verdict = judged(json.dumps(rule["spec"]), queries=queried, series=scrapes.told(), minutes=looks)
    assert verdict.errors == []
    assert verdict.alerts(well - 1) == set()
    assert ("HoldfastAppBehind", app.name) in verdict.alerts(behind - 1)
    assert ("HoldfastAppBehind", app.name) not in verdict.alerts(end - 1)
    unanswered = {query for query in queried if not verdict.values(query, again - 1)}
    assert {name for query in unanswered for name in verdict.metrics[query]} <= _OF_TROUBLE | _OF_OTHERS

    # Each driver counts from 0, and what a killed one has counted since its last scrape is not known.
    by_driver = counted_by_pod(scrapes, "holdfast_rows_in_total")
    assert len(by_driver) >= 2
    assert all(before <= after for counts in by_driver for before, after in itertools.pairwise(counts))
    read = rows + kept(rows)  # by id, and again by name
    assert 0.8 * read <= sum(counts[-1] for counts in by_driver) <= 1.1 * read
    assert max(map(max, counted_by_pod(scrapes, "holdfast_attempt"))) >= 2


def counted_by_pod(scrapes: Scrapes, name: str) -> list[list[float]]:
    """What each pod served, as long as it did."""
    return [[value for value in values if not math.isnan(value)] for values in scrapes.values(name)]


def told_of(app: App, dashboard: str) -> str:
    return dashboard.replace("$namespace", app.namespace).replace("$app", app.name)
