"""What programs see of a run: lines of JSON, and metrics that Prometheus scrapes."""

import json
import socket
from dataclasses import replace
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.errors import UserActionError
from holdfast_cli.run.metrics import MetricsAddress, parse_address, serve_metrics
from holdfast_cli.run.totals import RunTotals
from holdfast_cli.run.views import JsonView, event_json
from holdfast_runtime.driver.metrics import MeasuredApp, MetricsServer, RunMetrics
from holdfast_runtime.progress import RunDraining
from tests.cli.run_events import AT, ENDED, FIRST, STARTED, batches
from tests.error_codes import has_code
from tests.waiting import patience


def test_names_and_values_of_events_in_json() -> None:
    assert event_json(STARTED) == {
        "event": "started",
        "app": "ad-clicks",
        "run": "1",
        "attempt": 3,
        "tasks": 16,
        "slots": 2,
        "data": ".holdfast/ad-clicks",
        "sparkUi": "http://127.0.0.1:4040",
        "segments": ["python", "sql", "python"],
        "stateful": ["first", "counts"],
        "givenUp": [],
        "sparkSql": ['step valid, filter: "initcap(user) <> user"'],
    }
    assert event_json(FIRST) == {
        "event": "progress",
        "batch": 41,
        "at": AT,
        "attempt": 3,
        "tasks": 16,
        "rowsIn": 12_000,
        "rowsOut": 900,
        "bytesOut": 123_456,
        "lag": 4_321,
        "lags": {"clicks": [21, 0, 0, 4_000], "views": [300]},
        "unreadFrom": {"clicks": {0: AT - 12_000, 3: AT - 40_000}},
        "seconds": 0.182,
        "phases": dict(FIRST.phases),
        "watermark": AT - 12_000,
        "watermarks": {"clicks": AT - 40_000, "views": AT - 12_000},
        "heldBack": FIRST.held_back,
        "heldBy": None,
        "stateBytes": 12_345_678,
        "buffered": {},
        "loading": {},
        "incomplete": [],
        "unkeyed": {},
        "late": {},
        "ahead": 0,
        "firstAhead": None,
        "undecoded": 0,
        "unwritable": 0,
        "expired": {},
        "failed": {},
        "tombstones": 0,
        "misplaced": {},
        "freed": {"stores": 0, "bytes": 0},
        "restored": ["partition-3: no local store"],
        "read": {"clicks": 8_000, "views": 4_000},
        "streams": {"attributed": 900},
    }
    assert event_json(RunDraining()) == {"event": "draining"}
    assert event_json(ENDED) == {
        "event": "ended",
        "ending": "idle",
        "batches": 10,
        "rowsIn": 120_000,
        "rowsOut": 9_000,
        "seconds": 12.0,
    }


def test_every_event_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    view, totals = JsonView(), RunTotals()
    for event in (STARTED, FIRST, RunDraining(), ENDED):
        view.show(event, totals)
    view.show(None, totals)
    view.over(totals, None)
    view.over(totals, ValueError("no\nway"))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["started", "progress", "draining", "ended", "failed"]
    assert lines[-1] == {"event": "failed", "error": "ValueError", "message": "no\nway"}


def scraped(metrics: RunMetrics) -> dict[str, float]:
    server = MetricsServer(metrics, "127.0.0.1", 0)
    try:
        with urlopen(server.url, timeout=patience(10)) as answer:  # noqa: S310 - our own address
            text = answer.read().decode()
    finally:
        server.close()
    return {
        " ".join([sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_of_a_run() -> None:
    metrics = RunMetrics()
    metrics.note(STARTED)
    for progress in batches(3):
        metrics.note(progress)
    samples = scraped(metrics)
    app = "app=ad-clicks"
    shown = {
        f"holdfast_batches_total {app} run=1": 3,
        f"holdfast_rows_in_total {app} run=1 stream=clicks": 24_000,
        f"holdfast_rows_out_total {app} run=1 stream=attributed": 2_700,
        f"holdfast_late_rows_total {app} run=1 step=first": 7,
        f"holdfast_late_rows_total {app} run=1 step=counts": 0,
        f"holdfast_undecoded_records_total {app} run=1": 1,
        f"holdfast_failed_rows_total {app} run=1 step=paid": 4,
        f"holdfast_tombstones_total {app} run=1": 3,
        f"holdfast_misplaced_records_total {app} run=1 stream=clicks": 2,
        f"holdfast_restored_tasks_total {app} run=1": 1,
        f"holdfast_lag_records {app} run=1": 4_321,
        f"holdfast_stream_lag_records {app} run=1 stream=clicks": 4_021,
        f"holdfast_partition_lag_records {app} partition=3 run=1 stream=clicks": 4_000,
        f"holdfast_partition_lag_records {app} partition=1 run=1 stream=clicks": 0,
        f"holdfast_partition_lag_records {app} partition=0 run=1 stream=views": 300,
        f"holdfast_watermark_lag_seconds {app} run=1": 14,
        f"holdfast_state_bytes {app} run=1": 12_345_678,
        f"holdfast_attempt {app} run=1": 3,
        f"holdfast_app_tasks {app} run=1": 16,
        f"holdfast_last_batch_timestamp_seconds {app} run=1": AT / 1000 + 2,
        f"holdfast_batch_seconds_count {app} run=1": 3,
        f"holdfast_batch_seconds_bucket {app} le=0.1 run=1": 0,
        f"holdfast_batch_seconds_bucket {app} le=0.25 run=1": 3,
        f"holdfast_batch_phase_seconds_count {app} phase=fetch run=1": 3,
        f"holdfast_batch_phase_seconds_bucket {app} le=0.1 phase=steps run=1": 3,
    }
    assert {name: samples.get(name) for name in shown} == shown


def test_of_very_many_partitions_only_streams_have_a_lag() -> None:
    metrics = RunMetrics()
    metrics.note(STARTED)
    metrics.note(FIRST)
    metrics.note(replace(FIRST, lags={"clicks": (2,) * 1_000, "views": (1,)}))
    samples = scraped(metrics)
    assert samples["holdfast_stream_lag_records app=ad-clicks run=1 stream=clicks"] == 2_000
    assert [name for name in samples if name.startswith("holdfast_partition_lag")] == []


def test_before_the_first_batch_counters_are_zero_and_gauges_absent() -> None:
    metrics = RunMetrics(MeasuredApp(read=frozenset({"rare"})))
    metrics.note(STARTED)
    metrics.note(replace(FIRST, watermark=None))
    samples = scraped(metrics)
    assert samples["holdfast_rows_in_total app=ad-clicks run=1 stream=rare"] == 0
    assert samples["holdfast_late_rows_total app=ad-clicks run=1 step=first"] == 0
    assert not [name for name in samples if name.startswith("holdfast_watermark") or "_created" in name]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9100", MetricsAddress("127.0.0.1", 9100)),
        (":9100", MetricsAddress("127.0.0.1", 9100)),
        ("0.0.0.0:9100", MetricsAddress("0.0.0.0", 9100)),  # noqa: S104 - as a user writes it
        ("[::1]:0", MetricsAddress("::1", 0)),
    ],
)
def test_where_metrics_are_served(text: str, address: MetricsAddress) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "x", "65536", "-1", "host:", "99999999999999999999", "9100:host"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UserActionError, match="write PORT or HOST:PORT", check=has_code("UsageError")):
        parse_address(text)


def test_a_port_in_use_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UserActionError, match=f"can't listen on 127.0.0.1:{port}", check=has_code("UsageError")):
            serve_metrics(RunMetrics(), MetricsAddress("127.0.0.1", port))
