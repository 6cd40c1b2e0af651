"""Dashboards of Grafana over the metrics: all apps, one app, the operator; what the chart ships (`make generate`)."""

from holdfast_cli.dashboards.fleet import FLEET
from holdfast_cli.dashboards.one_app import ONE_APP
from holdfast_cli.dashboards.operators import OPERATOR


def dashboards() -> dict[str, str]:
    """Return the dashboards: name -> JSON as Grafana reads it."""
    return {dashboard.name: dashboard.text() for dashboard in (FLEET, ONE_APP, OPERATOR)}
