"""The chart's alerts and dashboards, judged by Prometheus's own parser and engine."""

import pytest

from holdfast.protocol.metrics import METRICS
from holdfast_cli.dashboards import dashboards
from tests.chart.monitored import queries, rules
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
