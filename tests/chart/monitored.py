"""What the chart ships for Prometheus and Grafana, as they read it."""

import functools
import io
import json
from typing import Any

from ruamel.yaml import YAML

from tests.chart.rendered import one, rendered


@functools.cache
def rules(*settings: str) -> str:
    """The alerts, as a file of Prometheus."""
    tree = one(
        rendered("metrics.rules.enabled=true", *settings, only="templates/prometheusrule.yaml"), "PrometheusRule"
    )
    text = io.StringIO()
    YAML(typ="safe").dump(tree["spec"], text)
    return text.getvalue()


def queries(dashboard: str) -> list[str]:
    """Those of all panels of a dashboard, as Grafana asks for three hours."""
    return [target["expr"].replace("$__range", "3h") for panel in panels(dashboard) for target in panel["targets"]]


def panels(dashboard: str) -> list[dict[str, Any]]:
    """Those of a dashboard, without headings."""
    return [panel for panel in json.loads(dashboard)["panels"] if panel["type"] != "row"]
