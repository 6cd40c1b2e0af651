"""Alerts and dashboards name metrics of the list, and each alert has its section of what to do."""

import re

import pytest

from holdfast.protocol.metrics import METRICS
from holdfast_cli.dashboards import dashboards
from tests.chart.monitored import panels
from tests.docs.pages import ROOT

RULES = (ROOT / "charts/holdfast/files/rules.yaml").read_text(encoding="utf-8")
PAGE = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
LABELS = {series: metric.labels for metric in METRICS.values() for series in metric.series}


def test_each_alert_has_a_section_and_each_section_an_alert() -> None:
    alerts = re.findall(r"- alert: (\w+)", RULES)
    assert alerts
    assert re.findall(r"^### (Holdfast\w+)$", PAGE, re.MULTILINE) == alerts


def test_a_section_says_where_to_look_and_what_to_do() -> None:
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        assert "**Look:**" in section
        assert "**Do:**" in section


@pytest.mark.parametrize("text", [RULES, *dashboards().values()], ids=["rules", *dashboards()])
def test_all_metrics_that_are_asked_for_are_served(text: str) -> None:
    names = re.findall(r"\bholdfast_\w+", text)
    assert names
    assert set(names) <= LABELS.keys()


@pytest.mark.parametrize("name", dashboards())
def test_legends_use_labels_that_series_have(name: str) -> None:
    of_targets = {"namespace", "pod"}
    for panel in panels(dashboards()[name]):
        for target in panel["targets"]:
            labels = {label for series in re.findall(r"\bholdfast_\w+", target["expr"]) for label in LABELS[series]}
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels | of_targets
