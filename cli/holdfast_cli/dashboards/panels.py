"""Panels and dashboards as Grafana reads them: single figures, graphs, tables, from top to bottom in sections.

Every panel has a description (what is bad, where to look next), a unit, and what it shows where nothing is found, so
that an empty one is not taken for a broken one. Must not know a metric.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

ROWS_PER_SECOND = "count:rows/s"
_WIDTH = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_SAME_SOURCE = "${datasource:queryparam}"
_TITLES = {"fleet": "All apps", "app": "One app", "operator": "Operator"}
_JSON = Mapping[str, Any]

Levels = tuple[tuple[str, float], ...]
"""Colours from so much on, upwards; what is below has none."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The value of now, with its course behind it; or the names of series, red below all levels."""

    title: str
    description: str
    unit: str
    no_value: str
    query: str
    levels: Levels = ()
    label: str = ""
    """The label that is shown in place of the value."""
    quiet: tuple[str, ...] = ()
    """Its values that are never bad."""

    def tree(self, columns: int) -> _JSON:
        """Return the panel, as one of so many side by side."""
        base = "red" if self.label else "transparent" if self.levels else "text"
        defaults = _defaults(self) | {"thresholds": _thresholds([(base, None), *self.levels])}
        options: dict[str, Any] = {
            "colorMode": "background" if self.levels else "value",
            "graphMode": "none" if self.label else "area",
            "textMode": "name" if self.label else "value",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        }
        target, overrides = _target("A", self.query, ""), list[_JSON]()
        if self.label:
            # Where names are shown, an empty panel shows nothing: not even what it has for that.
            unnamed = f'label_replace(vector(0), "{self.label}", "{self.no_value}", "", "")'
            query = f"{self.query} or on () {unnamed}"
            target = _target("A", query, f"{{{{{self.label}}}}}") | {"instant": True, "range": False}
            quiet = "|".join((*self.quiet, self.no_value))
            overrides.append(_override("byRegexp", f"/^({quiet})$/", [_fixed("blue")]))
        else:
            options["text"] = {"valueSize": 28}
        return _panel(self, "stat", _WIDTH // columns, 4) | {
            "fieldConfig": {"defaults": defaults, "overrides": overrides},
            "options": options,
            "targets": [target],
        }


@dataclass(frozen=True, slots=True)
class TimeGraph:
    """Lines over time: queries by the text of their legend; the largest come first."""

    title: str
    description: str
    unit: str
    no_value: str
    queries: Mapping[str, str]
    style: Literal["lines", "filled", "stacked"] = "lines"
    """Stacked: where the sum says something."""
    dashed: Mapping[str, str] = field(default_factory=dict)
    """Legends of what is no part of the whole, as limits and totals, with their colours."""
    colors: Mapping[str, str] = field(default_factory=dict)
    """Legends (expressions) with colours of their own, in shades."""
    whole: bool = False
    """Whether values are counts."""
    to_app: bool = False
    """Whether a series leads to its app."""

    def tree(self, columns: int) -> _JSON:
        """Return the panel, as one of so many side by side."""
        custom: dict[str, Any] = {
            "fillOpacity": {"lines": 0, "filled": 15, "stacked": 40}[self.style],
            "showPoints": "auto",
            "axisSoftMax": 1,
        }
        if self.style == "stacked":
            custom["stacking"] = {"mode": "normal", "group": "A"}
        defaults = _defaults(self) | {"min": 0, "color": {"mode": "palette-classic"}, "custom": custom}
        if self.whole:
            defaults["decimals"] = 0
        if self.to_app:
            defaults["links"] = [_to_app("${__field.labels.namespace}", "${__field.labels.app}")]
        dash = {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [4, 8]}}
        overrides = [
            *(
                _override("byRegexp", f"/{name}/", [{"id": "color", "value": {"mode": "shades", "fixedColor": color}}])
                for name, color in self.colors.items()
            ),
            *(_override("byName", name, [_fixed(color), dash]) for name, color in self.dashed.items()),
        ]
        legend = {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["lastNotNull", "max"]}
        return _panel(self, "timeseries", _WIDTH // columns, 9) | {
            "fieldConfig": {"defaults": defaults, "overrides": overrides},
            "options": {
                "legend": legend | {"sortBy": "Max", "sortDesc": True},
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
            "targets": [
                _target(chr(ord("A") + i), query, legend) for i, (legend, query) in enumerate(self.queries.items())
            ],
        }


@dataclass(frozen=True, slots=True)
class FigureColumn:
    """A column of figures in a table of apps."""

    title: str
    unit: str
    query: str
    levels: Levels = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class AppTable:
    """A row of now for each app, which leads to it: labels, then figures; the largest of the first figure on top."""

    title: str
    description: str
    no_value: str
    labels: Mapping[str, str]
    """Label -> title; beside namespace and app."""
    figures: Sequence[FigureColumn]
    """The first one alone, if its title is empty, only says which apps are there."""
    height: int

    def tree(self, columns: int) -> _JSON:
        """Return the panel, as one of so many side by side."""
        keys = [chr(ord("A") + i) for i, _ in enumerate(self.figures)]
        values = [f"Value #{key}" for key in keys] if len(keys) > 1 else ["Value"]
        named = {"namespace": "Namespace", "app": "App", **self.labels}
        renamed = named | {
            value: figure.title for value, figure in zip(values, self.figures, strict=True) if figure.title
        }
        organized = {
            "excludeByName": {name: True for name in ("Time", *values) if name not in renamed},
            "renameByName": renamed,
            "indexByName": {name: i for i, name in enumerate(renamed)},
        }
        link = [_to_app("${__data.fields.Namespace}", "${__data.fields.App}")]
        overrides = [
            _override("byName", "App", [{"id": "links", "value": link}, {"id": "custom.width", "value": 330}]),
            _override("byName", "Namespace", [{"id": "custom.width", "value": 190}]),
            *(_column(figure) for figure in self.figures if figure.title),
        ]
        sorted_by = [{"displayName": self.figures[0].title or "Namespace", "desc": bool(self.figures[0].title)}]
        return _panel(self, "table", _WIDTH // columns, self.height) | {
            "fieldConfig": {
                "defaults": {"unit": "none", "noValue": self.no_value, "custom": {"align": "auto", "minWidth": 90}},
                "overrides": overrides,
            },
            "options": {"showHeader": True, "cellHeight": "sm", "sortBy": sorted_by},
            "transformations": [{"id": "merge", "options": {}}, {"id": "organize", "options": organized}],
            "targets": [
                _target(key, figure.query, "") | {"instant": True, "range": False, "format": "table"}
                for key, figure in zip(keys, self.figures, strict=True)
            ],
        }


Panel = Figure | TimeGraph | AppTable


@dataclass(frozen=True, slots=True)
class Section:
    """Panels below a heading, so many side by side."""

    title: str
    columns: int
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class DashboardVariable:
    """What is chosen at the top, from the values of a label."""

    label: str
    title: str
    metric: str
    several: bool = False
    """Several or all, which is what it begins with."""

    def tree(self) -> _JSON:
        """Return it as Grafana reads it."""
        query = f"label_values({self.metric}, {self.label})"
        chosen = {
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        }
        return {
            "name": self.label,
            "label": self.title,
            "type": "query",
            "datasource": _SOURCE,
            "query": query,
            "definition": query,
            "refresh": 2,
            "sort": 1,
        } | (chosen if self.several else {})


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Sections from top to bottom."""

    name: str
    title: str
    variables: Sequence[DashboardVariable]
    sections: Sequence[Section]

    def text(self) -> str:
        """Return it as JSON."""
        source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
        tree = {
            "uid": f"holdfast-{self.name}",
            "title": self.title,
            "tags": ["holdfast"],
            "schemaVersion": 39,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "links": [_to_dashboard(name, title) for name, title in _TITLES.items() if name != self.name],
            "templating": {"list": [source, *(variable.tree() for variable in self.variables)]},
            "panels": [{"id": number + 1, **panel} for number, panel in enumerate(_placed(self.sections))],
        }
        return json.dumps(tree, indent=1) + "\n"


def _placed(sections: Sequence[Section]) -> list[_JSON]:
    """Return all panels with their places, each section below its heading."""
    panels, top = list[_JSON](), 0
    for section in sections:
        heading = {"type": "row", "title": section.title, "collapsed": False, "panels": []}
        panels.append(heading | {"gridPos": {"x": 0, "y": top, "w": _WIDTH, "h": 1}})
        top += 1
        for first in range(0, len(section.panels), section.columns):
            line = [panel.tree(section.columns) for panel in section.panels[first : first + section.columns]]
            left = 0
            for tree in line:
                panels.append({**tree, "gridPos": {"x": left, "y": top, **tree["gridPos"]}})
                left += tree["gridPos"]["w"]
            top += max(tree["gridPos"]["h"] for tree in line)
    return panels


def _panel(panel: Panel, kind: str, width: int, height: int) -> dict[str, Any]:
    return {
        "title": panel.title,
        "description": panel.description,
        "type": kind,
        "datasource": _SOURCE,
        "gridPos": {"w": width, "h": height},
    }


def _defaults(panel: Figure | TimeGraph) -> dict[str, Any]:
    return {"unit": panel.unit, "noValue": panel.no_value}


def _target(key: str, query: str, legend: str) -> dict[str, Any]:
    return {"refId": key, "expr": query, "legendFormat": legend, "datasource": _SOURCE}


def _thresholds(steps: Sequence[tuple[str, float | None]]) -> _JSON:
    return {"mode": "absolute", "steps": [{"color": color, "value": value} for color, value in steps]}


def _override(matcher: str, name: str, properties: Sequence[_JSON]) -> _JSON:
    return {"matcher": {"id": matcher, "options": name}, "properties": properties}


def _fixed(color: str) -> _JSON:
    return {"id": "color", "value": {"mode": "fixed", "fixedColor": color}}


def _column(figure: FigureColumn) -> _JSON:
    properties: list[_JSON] = [{"id": "unit", "value": figure.unit}, {"id": "noValue", "value": "-"}]
    if figure.whole:
        properties.append({"id": "decimals", "value": 0})
    if figure.levels:
        steps = [("text", None), *figure.levels]
        properties += [
            {"id": "thresholds", "value": _thresholds(steps)},
            {"id": "custom.cellOptions", "value": {"type": "color-text"}},
        ]
    return _override("byName", figure.title, properties)


def _to_app(namespace: str, app: str) -> _JSON:
    url = f"/d/holdfast-app?var-namespace={namespace}&var-app={app}&{_SAME_SOURCE}&${{__url_time_range}}"
    return {"title": "The app's dashboard", "url": url}


def _to_dashboard(name: str, title: str) -> _JSON:
    return {"title": title, "type": "link", "url": f"/d/holdfast-{name}?{_SAME_SOURCE}", "keepTime": True}
