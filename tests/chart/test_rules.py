"""The chart's alerts and dashboards, judged by Prometheus's own parser and engine."""

import pytest

from holdfast.protocol.metrics import METRICS
from holdfast_cli.dashboards import dashboards
from tests.chart.monitored import panels, queries, rules
from tests.chart.promrules import judged

SERIES = {name for metric in METRICS.values() for name in metric.series}
TEAM = 'namespace="team"'
LEADS = 'holdfast_operator_leading{namespace="hold-system"} 1x60\n'
READY = f'holdfast_app_ready{{{TEAM},app="ads",reason="Running"}} 1x60\n'


def test_rules_are_valid_and_ask_for_metrics_that_are_served() -> None:
    verdict = judged(rules())
    assert verdict.errors == []
    assert all(metrics and set(metrics) <= SERIES for metrics in verdict.metrics.values())


@pytest.mark.parametrize("name", dashboards())
def test_each_query_of_a_dashboard_is_valid(name: str) -> None:
    verdict = judged("groups: []", queries=queries(dashboards()[name]))
    assert verdict.errors == []
    assert all(metrics and set(metrics) <= SERIES for metrics in verdict.metrics.values())


def query_of(dashboard: str, title: str) -> str:
    (panel,) = [panel for panel in panels(dashboards()[dashboard]) if panel["title"] == title]
    (target,) = panel["targets"]
    query: str = target["expr"]
    namespace = {"fleet": ".*", "app": "team"}[dashboard]
    return query.replace("$__range", "1h").replace("$namespace", namespace).replace("$app", "ads")


def test_a_graph_keeps_the_apps_that_were_worst() -> None:
    apps = [f"app-{number}" for number in range(12)]
    values = {app: f"{10 + number}x60" for number, app in enumerate(apps)} | {"app-0": "0x9 900 0x50"}
    query = query_of("fleet", "Furthest behind")
    series = "load 1m\n" + "".join(f"  {lag(app, values[app])}" for app in apps)
    answers = judged("groups: []", queries=[query], series=series, minutes=[60]).answers[query]
    assert {answer["labels"]["app"] for answer in answers["60"]} == {*apps} - {"app-1", "app-2"}


@pytest.mark.parametrize(
    ("series", "counts"),
    [
        (READY, [0]),
        (READY + f'holdfast_app_ready{{{TEAM},app="other",reason="DriverSilent"}} 0x60\n', [1]),
        (READY + f'holdfast_app_ready{{{TEAM},app="off",reason="Suspended"}} 0x60\n', [0]),
        (LEADS, []),
    ],
    ids=["all", "one is not", "suspended", "not scraped"],
)
def test_apps_that_are_not_ready_are_counted(series: str, counts: list[float]) -> None:
    query = query_of("fleet", "Apps not Ready")
    lines = "".join(f"  {line}\n" for line in series.splitlines())
    assert judged("groups: []", queries=[query], series=f"load 1m\n{lines}", minutes=[5]).values(query, 5) == counts


@pytest.mark.parametrize(("series", "reason"), [(READY, "Running"), (LEADS, "no data")])
def test_an_app_has_one_reason_or_no_data(series: str, reason: str) -> None:
    query = query_of("app", "Condition Ready")
    answers = judged("groups: []", queries=[query], series=f"load 1m\n  {series}", minutes=[5]).answers[query]
    assert [answer["labels"]["reason"] for answer in answers["5"]] == [reason]


def lag(app: str, values: str) -> str:
    return f'holdfast_lag_seconds{{{TEAM},app="{app}",run="1",pod="p"}} {values}\n'


CASES = {
    "all is well": (LEADS + READY + lag("ads", "0x60"), 60, set()),
    "behind what it promises": (
        f'holdfast_app_max_lag_seconds{{{TEAM},app="ads"}} 300x60\n' + lag("ads", "0+60x60") + lag("free", "9000x60"),
        10,
        {("HoldfastAppBehind", "ads")},
    ),
    "behind for a moment": (
        f'holdfast_app_max_lag_seconds{{{TEAM},app="ads"}} 300x60\n' + lag("ads", "0x9 400 0x50"),
        10,
        set(),
    ),
    "of one name in another namespace": (
        'holdfast_app_max_lag_seconds{namespace="others",app="ads"} 300x60\n' + lag("ads", "900x60"),
        10,
        set(),
    ),
    "a dead letter where none is promised": (
        (
            f'holdfast_app_max_dead_letters{{{TEAM},app="ads"}} 0x60\n'
            f'holdfast_dead_letters_total{{{TEAM},app="ads",run="1",stream="bad",pod="p"}} 0x20 1x40\n'
        ),
        30,
        {("HoldfastDeadLetters", "ads")},
    ),
    "fewer dead letters than promised": (
        (
            f'holdfast_app_max_dead_letters{{{TEAM},app="ads"}} 10x60\n'
            f'holdfast_dead_letters_total{{{TEAM},app="ads",run="1",stream="bad",pod="p"}} 0x20 5x40\n'
        ),
        30,
        set(),
    ),
    "not Ready, whatever its reason": (
        (
            f'holdfast_app_ready{{{TEAM},app="ads",reason="Starting"}} 0x8 stale\n'
            f'holdfast_app_ready{{{TEAM},app="ads",reason="DriverSilent"}} _x8 0x50\n'
            f'holdfast_app_ready{{{TEAM},app="off",reason="Suspended"}} 0x60\n'
        ),
        15,
        {("HoldfastAppNotReady", "ads")},
    ),
    "a batch that does not end": (
        f'holdfast_batch_running_seconds{{{TEAM},app="ads",pod="p"}} 0+60x60\n',
        12,
        {("HoldfastNoBatch", "ads")},
    ),
    "records that nobody reads, and an idle app": (
        (
            f'holdfast_last_batch_timestamp_seconds{{{TEAM},app="ads",pod="p"}} 0x60\n'
            f'holdfast_last_batch_timestamp_seconds{{{TEAM},app="idle",pod="p"}} 0x60\n'
            f'holdfast_lag_records{{{TEAM},app="ads",pod="p"}} 5x60\n'
            f'holdfast_lag_records{{{TEAM},app="idle",pod="p"}} 0x60\n'
        ),
        12,
        {("HoldfastNoBatch", "ads")},
    ),
    "attempts that fail": (
        (
            f'holdfast_app_restarts_total{{{TEAM},app="ads"}} 0x10 1 2 3x50\n'
            f'holdfast_app_restarts_total{{{TEAM},app="once"}} 7x10 8x50\n'
        ),
        20,
        {("HoldfastAppRestarts", "ads")},
    ),
    "state that fills its disks": (
        (
            f'holdfast_state_bytes{{{TEAM},app="ads",pod="p"}} 85x60\n'
            f'holdfast_state_limit_bytes{{{TEAM},app="ads",pod="p"}} 100x60\n'
            f'holdfast_state_bytes{{{TEAM},app="unlimited",pod="p"}} 85x60\n'
        ),
        20,
        {("HoldfastStateNearLimit", "ads")},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_alert_fires_for_its_app_and_no_other(case: str) -> None:
    series, minute, alerts = CASES[case]
    lines = "".join(f"  {line}\n" for line in {**dict.fromkeys((LEADS + series).splitlines())})
    assert judged(rules(), series=f"load 1m\n{lines}", minutes=[minute]).alerts(minute) == alerts


def test_an_operator_that_leads_nothing_is_noticed() -> None:
    other_release = 'holdfast_operator_leading{namespace="other-system"} 1x60'
    for series in (other_release, f'{other_release}\n  holdfast_operator_leading{{namespace="hold-system"}} 0x60'):
        verdict = judged(rules(), series=f"load 1m\n  {series}\n", minutes=[3, 10])
        assert verdict.alerts(3) == set()
        assert verdict.alerts(10) == {("HoldfastOperatorNotLeading", "")}


def test_limits_are_those_of_the_values() -> None:
    series = f'load 1m\n  {LEADS}  holdfast_batch_running_seconds{{{TEAM},app="ads"}} 0+60x60\n'
    assert judged(rules("metrics.rules.defaults.noBatchSeconds=60"), series=series, minutes=[2]).alerts(2)
    assert "${" not in rules()
