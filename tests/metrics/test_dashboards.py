"""Dashboards can be read by somebody who has never seen them: units, what empty panels say, bounded legends, links."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast_cli.dashboards import dashboards
from holdfast_cli.dashboards.panels import Dashboard, Figure, Section
from tests.chart.monitored import panels

UNITS = {"s", "bytes", "percentunit", "short", "none", "reqps"}
"""Ids of Grafana that mean what is shown; `rps` is reads a second."""
MANY = {"app", "partition", "pod"}
"""Labels with so many values that a legend would not end."""
SHORT = 22
"""Characters of a title that a sixth of a narrow screen shows."""
SELECTED = {"fleet": {"namespace"}, "app": {"namespace", "app"}, "operator": set[str]()}


PANELS = [
    pytest.param(name, panel, id=f"{name}: {panel['title']}")
    for name, text in dashboards().items()
    for panel in panels(text)
]


def units(panel: Any) -> Iterator[str]:
    yield panel["fieldConfig"]["defaults"]["unit"]
    for override in panel["fieldConfig"]["overrides"]:
        yield from (prop["value"] for prop in override["properties"] if prop["id"] == "unit")


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_a_panel_says_what_it_means_even_empty(name: str, panel: Any) -> None:
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["noValue"]
    assert panel["type"] == "table" or re.search(r"\bBad: |^Red: |^Without |^Phases ", panel["description"])
    assert len(panel["title"]) <= SHORT or panel["type"] != "stat"
    assert name in SELECTED


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_a_unit_is_one_that_grafana_shows_as_meant(name: str, panel: Any) -> None:
    for unit in units(panel):
        assert unit in UNITS or re.fullmatch(r"count:\w+/s", unit), name
    rates = all(
        re.search(r"\brate\(", target["expr"])
        and "histogram_quantile" not in target["expr"]
        and "/" not in target["expr"]
        for target in panel["targets"]
    )
    assert not rates or any(unit.endswith(("/s", "qps")) for unit in units(panel))


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_a_legend_over_many_series_has_ten_entries(name: str, panel: Any) -> None:
    for target in panel["targets"]:
        if panel["type"] != "timeseries" or "holdfast_operator_leading" in target["expr"]:
            continue
        labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert not labels & MANY or re.search(r" and on \([\w, ]+\) topk\(10, .* @ end\(\)", target["expr"]), name
        assert "topk" not in target["expr"].split(" and on ")[0]


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_each_series_is_summed_up_and_selected(name: str, panel: Any) -> None:
    for target in panel["targets"]:
        assert re.match(r"(round\()?(sum|max|count|histogram_quantile)\b", target["expr"])
        for selector in re.findall(r"\bholdfast_\w+({[^}]*})?", target["expr"]):
            assert set(re.findall(r'(\w+)=~?"\$\w+"', selector)) == SELECTED[name]


@pytest.mark.parametrize("name", dashboards())
def test_variables_are_those_that_queries_use(name: str) -> None:
    tree = json.loads(dashboards()[name])
    assert {variable["name"] for variable in tree["templating"]["list"]} == {"datasource", *SELECTED[name]}
    used = {label for panel in panels(dashboards()[name]) for label in re.findall(r'="\$(\w+)"', str(panel["targets"]))}
    assert used <= SELECTED[name]


@pytest.mark.parametrize("name", dashboards())
def test_panels_fill_the_width_and_cover_no_other(name: str) -> None:
    places = [panel["gridPos"] for panel in json.loads(dashboards()[name])["panels"]]
    cells = [(place["x"] + x, place["y"] + y) for place in places for x in range(place["w"]) for y in range(place["h"])]
    assert len(cells) == len(set(cells)) == 24 * max(place["y"] + place["h"] for place in places)


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_levels_rise_and_begin_without_a_number(name: str, panel: Any) -> None:
    steps = panel["fieldConfig"]["defaults"].get("thresholds", {"steps": [{"value": None}]})["steps"]
    values = [step["value"] for step in steps]
    assert values[0] is None, name
    assert all(lower < higher for lower, higher in itertools.pairwise(values[1:]))


def test_what_is_shown_by_name_is_red_and_never_empty() -> None:
    figure = Figure("Ready", "Red.", "none", "no data", "max by (reason) (up)", (("green", 1),), "reason", ("Off",))
    text = Dashboard("app", "An app", (), (Section("How", 1, (figure,)),)).text()
    (panel,) = panels(text)
    assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0] == {"color": "red", "value": None}
    assert panel["options"]["textMode"] == "name"
    (target,), (quiet,) = panel["targets"], panel["fieldConfig"]["overrides"]
    assert target["expr"] == 'max by (reason) (up) or on () label_replace(vector(0), "reason", "no data", "", "")'
    assert quiet["matcher"] == {"id": "byRegexp", "options": "/^(Off|no data)$/"}


def test_panels_of_many_apps_lead_to_the_one() -> None:
    trees = {name: json.loads(text) for name, text in dashboards().items()}
    leading = [
        panel
        for panel in panels(dashboards()["fleet"])
        if panel["type"] == "table" or any("{{app}}" in target["legendFormat"] for target in panel["targets"])
    ]
    assert len(leading) == 7
    for panel in leading:
        (link,) = re.findall(r"/d/(\S+?)\?var-namespace=(\S+?)&var-app=(\S+?)&(\S+?)&(\S+?)'", str(panel))
        labels = "__data.fields.{}" if panel["type"] == "table" else "__field.labels.{}"
        names = ("Namespace", "App") if panel["type"] == "table" else ("namespace", "app")
        chosen = [f"${{{labels.format(label)}}}" for label in names]
        assert link == (trees["app"]["uid"], *chosen, "${datasource:queryparam}", "${__url_time_range}")


def test_each_dashboard_leads_to_the_others() -> None:
    trees = [json.loads(text) for text in dashboards().values()]
    for tree in trees:
        paths = {link["url"].partition("?")[0] for link in tree["links"]}
        assert paths == {f"/d/{other['uid']}" for other in trees if other is not tree}
        assert all(link["url"].endswith("${datasource:queryparam}") and link["keepTime"] for link in tree["links"])
