"""Dashboards of Grafana over the metrics: all apps, one app, the operator; from a table of panels.

The chart ships what this makes (`make generate`). Series of one app come from several drivers in the course of time, so
that each query is summed up by namespace and app. Must not know a metric that the list has not: a test compares them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_WIDTH, _HEIGHT, _PER_ROW = 12, 8, 2
_ONE = '{namespace="$namespace", app="$app"}'


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph: queries by the text of their legend."""

    title: str
    unit: str
    """As Grafana calls it."""
    queries: Mapping[str, str]


def _of_app(title: str, unit: str, query: str, legend: str) -> Panel:
    return Panel(title, unit, {legend: query.replace("{}", _ONE)})


_APP_NAME = "{{namespace}}/{{app}}"
_FLEET = (
    Panel("Apps by condition Ready", "short", {"{{ready}} {{reason}}": "sum by (ready, reason) (holdfast_apps)"}),
    Panel(
        "Apps that are not Ready",
        "short",
        {f"{_APP_NAME} {{{{reason}}}}": "max by (namespace, app, reason) (holdfast_app_ready) == 0"},
    ),
    Panel("Most behind", "s", {_APP_NAME: "topk(10, max by (namespace, app) (holdfast_lag_seconds))"}),
    Panel(
        "Behind, as a part of what they promise",
        "percentunit",
        {
            _APP_NAME: "max by (namespace, app) (holdfast_lag_seconds)"
            " / on (namespace, app) max by (namespace, app) (holdfast_app_max_lag_seconds)"
        },
    ),
    Panel("Rows in", "rps", {_APP_NAME: "topk(10, sum by (namespace, app) (rate(holdfast_rows_in_total[5m])))"}),
    Panel(
        "Dead letters in an hour",
        "short",
        {_APP_NAME: "sum by (namespace, app) (increase(holdfast_dead_letters_total[1h])) > 0"},
    ),
    Panel(
        "Restarts in an hour",
        "short",
        {_APP_NAME: "max by (namespace, app) (increase(holdfast_app_restarts_total[1h])) > 0"},
    ),
    Panel("State", "bytes", {_APP_NAME: "topk(10, max by (namespace, app) (holdfast_state_bytes))"}),
)
_APP = (
    Panel(
        "Behind",
        "s",
        {
            "app": f"max(holdfast_lag_seconds{_ONE})",
            "promise": f"max(holdfast_app_max_lag_seconds{_ONE})",
            "{{stream}}": f"max by (stream) (holdfast_stream_lag_seconds{_ONE})",
        },
    ),
    _of_app("Unread records", "short", "max by (stream) (holdfast_stream_lag_records{})", "{{stream}}"),
    _of_app(
        "Most unread partitions",
        "short",
        "topk(10, max by (stream, partition) (holdfast_partition_lag_records{}))",
        "{{stream}}/{{partition}}",
    ),
    _of_app("Watermarks behind", "s", "max by (stream) (holdfast_stream_watermark_lag_seconds{})", "{{stream}}"),
    Panel(
        "Rows",
        "rps",
        {
            "in {{stream}}": f"sum by (stream) (rate(holdfast_rows_in_total{_ONE}[5m]))",
            "out {{stream}}": f"sum by (stream) (rate(holdfast_rows_out_total{_ONE}[5m]))",
        },
    ),
    Panel(
        "Time of a batch",
        "s",
        {
            "median": f"histogram_quantile(0.5, sum by (le) (rate(holdfast_batch_seconds_bucket{_ONE}[5m])))",
            "99 of 100": f"histogram_quantile(0.99, sum by (le) (rate(holdfast_batch_seconds_bucket{_ONE}[5m])))",
            "the current one": f"max(holdfast_batch_running_seconds{_ONE})",
        },
    ),
    _of_app(
        "Phases of a batch, on average",
        "s",
        "sum by (phase) (rate(holdfast_batch_phase_seconds_sum{}[5m]))"
        " / sum by (phase) (rate(holdfast_batch_phase_seconds_count{}[5m]))",
        "{{phase}}",
    ),
    Panel(
        "Rows that went wrong",
        "rps",
        {
            "dead letters {{stream}}": f"sum by (stream) (rate(holdfast_dead_letters_total{_ONE}[5m]))",
            "late {{step}}": f"sum by (step) (rate(holdfast_late_rows_total{_ONE}[5m]))",
            "failed {{step}}": f"sum by (step) (rate(holdfast_failed_rows_total{_ONE}[5m]))",
            "undecoded": f"sum(rate(holdfast_undecoded_records_total{_ONE}[5m]))",
            "misplaced {{stream}}": f"sum by (stream) (rate(holdfast_misplaced_records_total{_ONE}[5m]))",
        },
    ),
    Panel(
        "State",
        "bytes",
        {"local stores": f"max(holdfast_state_bytes{_ONE})", "disks": f"max(holdfast_state_limit_bytes{_ONE})"},
    ),
    _of_app("Rows that wait in joins", "short", "max by (side) (holdfast_buffered_rows{})", "{{side}}"),
    Panel(
        "Attempts, restored tasks",
        "short",
        {
            "attempt": f"max(holdfast_attempt{_ONE})",
            "restored in 5 minutes": f"sum(increase(holdfast_restored_tasks_total{_ONE}[5m]))",
        },
    ),
    _of_app("Records of tables to load", "short", "max by (table) (holdfast_table_left_records{})", "{{table}}"),
)
_OPERATOR = (
    Panel("Leads", "short", {"{{pod}}": "holdfast_operator_leading"}),
    Panel("Looks", "ops", {"looks": "sum(rate(holdfast_operator_look_seconds_count[5m]))"}),
    Panel(
        "From a change to the end of its look",
        "s",
        {"99 of 100": "histogram_quantile(0.99, sum by (le) (rate(holdfast_operator_lag_seconds_bucket[5m])))"},
    ),
    Panel("Failed looks", "ops", {"{{error}}": "sum by (error) (rate(holdfast_operator_failed_looks_total[5m]))"}),
    Panel("Refusals", "ops", {"{{reason}}": "sum by (reason) (rate(holdfast_operator_refusals_total[5m]))"}),
    Panel("Drivers made", "ops", {"drivers": "sum(rate(holdfast_operator_launches_total[5m]))"}),
    Panel(
        "Calls of the API server",
        "ops",
        {"{{verb}} {{code}}": "sum by (verb, code) (rate(holdfast_operator_api_calls_total[5m]))"},
    ),
    Panel(
        "Tasks where their state is",
        "percentunit",
        {"placed": "sum(holdfast_tasks_placed) / sum(holdfast_tasks)"},
    ),
)


def dashboards() -> dict[str, str]:
    """Return the dashboards: name -> JSON as Grafana reads it."""
    of_app = (
        _variable("namespace", "holdfast_app_ready"),
        _variable("app", 'holdfast_app_ready{namespace="$namespace"}'),
    )
    return {
        "fleet": _dashboard("fleet", "Holdfast: all apps", _FLEET),
        "app": _dashboard("app", "Holdfast: one app", _APP, of_app),
        "operator": _dashboard("operator", "Holdfast: operator", _OPERATOR),
    }


def _dashboard(name: str, title: str, panels: Sequence[Panel], variables: Sequence[Any] = ()) -> str:
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    tree = {
        "uid": f"holdfast-{name}",
        "title": title,
        "tags": ["holdfast"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [source, *variables]},
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }
    return json.dumps(tree, indent=1) + "\n"


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def _panel(number: int, panel: Panel) -> Mapping[str, Any]:
    place = {
        "x": number % _PER_ROW * _WIDTH,
        "y": number // _PER_ROW * _HEIGHT,
        "w": _WIDTH,
        "h": _HEIGHT,
    }
    return {
        "id": number + 1,
        "title": panel.title,
        "type": "timeseries",
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + i), "expr": query, "legendFormat": legend, "datasource": _SOURCE}
            for i, (legend, query) in enumerate(panel.queries.items())
        ],
    }


def _variable(label: str, metric: str) -> Mapping[str, Any]:
    query = f"label_values({metric}, {label})"
    return {"name": label, "type": "query", "datasource": _SOURCE, "query": query, "definition": query, "refresh": 2}
