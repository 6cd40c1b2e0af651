"""The figures that the operator serves of each app: they outlive drivers."""

import pytest

from holdfast_operator.observe.app_figures import AppFigures, app_figures
from tests.metrics.served import app_object, operator_text


def test_readiness_restarts_and_promises_have_series_by_app() -> None:
    text = operator_text()
    of_ads = 'app="ads",namespace="apps"'
    assert f'holdfast_app_ready{{{of_ads},reason="DriverSilent"}} 0.0' in text
    assert f"holdfast_app_restarts_total{{{of_ads}}} 3.0" in text
    assert f"holdfast_app_max_lag_seconds{{{of_ads}}} 300.0" in text
    assert f"holdfast_app_max_dead_letters{{{of_ads}}} 0.0" in text


@pytest.mark.parametrize("alerts", [None, "5m", {}, {"maxLag": 5, "deadLetters": "none"}, {"maxLag": "soon"}])
def test_what_is_no_promise_is_none(alerts: object) -> None:
    assert app_figures(app_object(alerts)) == AppFigures("False", "DriverSilent", 3)


def test_an_object_without_a_status_is_not_ready() -> None:
    assert app_figures({"metadata": {}}) == AppFigures()
