"""Where a driver serves its metrics, and that a port which is not free stops no app."""

import logging
from contextlib import ExitStack
from urllib.request import urlopen

import pytest

from holdfast_runtime.driver.__main__ import serve_metrics
from tests.kafka.broker import free_ports
from tests.metrics.served import driver_metrics
from tests.waiting import patience


def test_metrics_are_served_where_the_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setenv("HOLDFAST_METRICS_PORT", str(port))
    monkeypatch.setenv("HOLDFAST_POD_IP", "127.0.0.1")
    with ExitStack() as stack:
        serve_metrics(driver_metrics(), stack)
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=patience(10)) as answer:
            assert 'holdfast_attempt{app="ad-clicks",run="1"} 3.0' in answer.read().decode()


@pytest.mark.parametrize("port", ["", "taken", "99999", "-1"])
def test_an_app_runs_without_metrics_where_they_can_not_be(
    port: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOLDFAST_METRICS_PORT", port)
    with ExitStack() as stack, caplog.at_level(logging.WARNING):
        serve_metrics(driver_metrics(), stack)
    assert ("metrics can't be served" in caplog.text) is (port != "")
