"""The dashboard of all apps: who needs somebody, then all of them, then the course of the worst.

Series of an app come from several drivers in the course of time, so that each query is summed up by namespace and app.
"""

from holdfast_cli.dashboards.panels import (
    ROWS_PER_SECOND,
    AppTable,
    Dashboard,
    DashboardVariable,
    Figure,
    FigureColumn,
    Section,
    TimeGraph,
)
from holdfast_cli.dashboards.queries import worst

_APP = "namespace, app"
_BY = f"by ({_APP})"
_SOME = '{namespace=~"$namespace"}'
_NAMED = "{{namespace}}/{{app}}"
_CALM = "Suspended|Completed|Deleting"
"""Reasons for which an app that is not Ready needs nobody."""

_READY = f'max {_BY} (holdfast_app_ready{{namespace=~"$namespace", reason!~"{_CALM}"}})'
_BEHIND = f"max {_BY} (holdfast_lag_seconds{_SOME})"
_PROMISED = f"max {_BY} (holdfast_app_max_lag_seconds{_SOME})"
_OF_PROMISE = f"{_BEHIND} / on ({_APP}) {_PROMISED}"
_ROWS = f"sum {_BY} (rate(holdfast_rows_in_total{_SOME}[5m]))"
_LETTERS = f"sum {_BY} (increase(holdfast_dead_letters_total{_SOME}[1h]))"
_FAILURES = f"max {_BY} (increase(holdfast_app_restarts_total{_SOME}[1h]))"
_STATE = f"max {_BY} (holdfast_state_bytes{_SOME})"
_OF_DISK = f"{_STATE} / on ({_APP}) max {_BY} (holdfast_state_limit_bytes{_SOME})"


_SUMMARY = Section(
    "Does anything need you?",
    6,
    (
        Figure(
            "Apps Ready",
            "Without those that are suspended, completed or being deleted.",
            "none",
            "no apps",
            f"sum({_READY})",
        ),
        Figure(
            "Apps not Ready",
            "Bad: any. The table below says which and why; `kubectl describe streamapp` says more.",
            "none",
            "no apps",
            f"sum({_READY} == bool 0)",
            (("red", 1),),
        ),
        Figure(
            "Behind promise",
            "Bad: any. How many are further behind than `alerts.maxLag` of their spec.",
            "none",
            "no promise",
            f"sum({_BEHIND} > bool on ({_APP}) {_PROMISED})",
            (("red", 1),),
        ),
        Figure(
            "Failures in 1 h",
            "Bad: any that nobody expects. Attempts that failed and were followed by another; the table says whose.",
            "none",
            "no apps",
            f"round(sum({_FAILURES}))",
            (("orange", 1),),
        ),
        Figure(
            "Dead letters in 1 h",
            "Bad: any that no app promises. `holdfast letters` groups those of an app by cause. No stream: no app has"
            " one for them.",
            "short",
            "no stream",
            f"round(sum({_LETTERS}))",
            (("orange", 1),),
        ),
        Figure(
            "Rows in",
            "Bad: a fall without a reason. Of all apps together.",
            ROWS_PER_SECOND,
            "no driver",
            f"sum({_ROWS})",
        ),
    ),
)
_APPS = Section(
    "Apps",
    1,
    (
        AppTable(
            "Apps that are not Ready",
            "Reasons are explained by `holdfast explain REASON`. Suspended, completed and deleted apps are left out.",
            "No app seen that is not Ready",
            {"reason": "Reason"},
            (
                FigureColumn(
                    "",
                    "none",
                    "max by (namespace, app, reason)"
                    f' (holdfast_app_ready{{namespace=~"$namespace", reason!~"{_CALM}"}}) == 0',
                ),
            ),
            6,
        ),
        AppTable(
            "All apps, those furthest behind on top",
            "A click on an app opens its dashboard. Dead letters and failed attempts are those of the last hour. An app"
            " without a driver has no figures of one.",
            "No driver is scraped",
            {},
            (
                FigureColumn("Behind", "s", _BEHIND),
                FigureColumn("Of promise", "percentunit", _OF_PROMISE, (("orange", 0.8), ("red", 1))),
                FigureColumn("Unread", "short", f"max {_BY} (holdfast_lag_records{_SOME})"),
                FigureColumn("Rows in", ROWS_PER_SECOND, _ROWS),
                FigureColumn("Dead letters", "short", f"round({_LETTERS})", (("orange", 1),), whole=True),
                FigureColumn("Failures", "short", f"round({_FAILURES})", (("orange", 1),), whole=True),
                FigureColumn("Disks used", "percentunit", _OF_DISK, (("orange", 0.7), ("red", 0.8))),
            ),
            12,
        ),
    ),
)
_COURSE = Section(
    "How it came to be",
    2,
    (
        TimeGraph(
            "Furthest behind",
            "Bad: rising. The ten apps that were furthest behind in this time. A saw tooth is a batch that runs long.",
            "s",
            "No driver is scraped",
            {_NAMED: worst(_BEHIND, f"max {_BY} (max_over_time(holdfast_lag_seconds{_SOME}[$__range] @ end()))", _APP)},
            to_app=True,
        ),
        TimeGraph(
            "Apps by why they are Ready or not",
            "Bad: fewer that are Running.",
            "none",
            "The operator is not scraped",
            {"{{reason}}": f"count by (reason) (holdfast_app_ready{_SOME})"},
            "stacked",
            colors={"^Running$": "green", f"^({_CALM})$": "blue", f"^(?!(Running|{_CALM})$)": "red"},
            whole=True,
        ),
        TimeGraph(
            "Dead letters in 1 h",
            "Bad: rising. The ten apps that had most.",
            "short",
            "No dead letters seen in this time",
            {
                _NAMED: worst(
                    _LETTERS, f"sum {_BY} (increase(holdfast_dead_letters_total{_SOME}[$__range] @ end())) > 0", _APP
                )
            },
            whole=True,
            to_app=True,
        ),
        TimeGraph(
            "Failed attempts in 1 h",
            "Bad: any that nobody expects. The ten apps that had most. An app waits longer after each failure.",
            "none",
            "No failed attempt seen in this time",
            {
                _NAMED: worst(
                    _FAILURES, f"max {_BY} (increase(holdfast_app_restarts_total{_SOME}[$__range] @ end())) > 0", _APP
                )
            },
            whole=True,
            to_app=True,
        ),
        TimeGraph(
            "Most rows in",
            "Bad: a fall without a reason. The ten apps that read most.",
            ROWS_PER_SECOND,
            "No driver is scraped",
            {_NAMED: worst(_ROWS, f"sum {_BY} (rate(holdfast_rows_in_total{_SOME}[$__range] @ end()))", _APP)},
            to_app=True,
        ),
        TimeGraph(
            "Fullest disks",
            "Bad: near 100 %. The ten apps whose local stores take most of `state.size` times their executors.",
            "percentunit",
            "No app has a limit",
            {_NAMED: worst(_OF_DISK, _OF_DISK.replace(_SOME, f"{_SOME} @ end()"), _APP)},
            to_app=True,
        ),
    ),
)
FLEET = Dashboard(
    "fleet",
    "Holdfast: all apps",
    (DashboardVariable("namespace", "Namespace", "holdfast_app_ready", several=True),),
    (_SUMMARY, _APPS, _COURSE),
)
