"""A whole run that sends traces: one a batch, with the times of its metrics; and one whose receiver is away."""

from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from holdfast_runtime.driver import traces as traces_module
from tests.engine.otlp import receiver, sent_spans, values
from tests.engine.runs import APP, Run, check, feed
from tests.waiting import patience

ROWS = 1_500


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_on")
    path = tmp_path / "app.yaml"
    path.write_text(APP)
    feed(tmp_path / "data", ROWS)
    return path


def wait_for_all_spans() -> None:
    """Let the end of this process wait as long for spans as a slow machine needs."""
    traces_module._LAST_WITHIN = patience(10)  # noqa: SLF001


def test_each_batch_is_a_trace_with_its_metrics(app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = receiver()
    with server.running() as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{url}/v1/traces")
        with Run(app, tmp_path / "data", "--until-idle", "--slots", "2", prepare=wait_for_all_spans) as run:
            run.ended()
    check(tmp_path / "data", ROWS)
    spans = sent_spans(server)
    by_id = {span.span_id: span for span in spans}
    for span in spans:
        if span.parent_span_id:
            parent = by_id[span.parent_span_id]
            assert parent.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
            assert span.end_time_unix_nano <= parent.end_time_unix_nano
    roots = {values(span.attributes)["holdfast.batch"]: span for span in spans if not span.parent_span_id}
    batches = {event["batch"]: event for event in run.events if event["event"] == "progress"}
    assert roots.keys() == batches.keys()
    assert len(batches) > 2
    for number, batch in batches.items():
        root = roots[number]
        inside = [span for span in spans if span.trace_id == root.trace_id and span is not root]
        slots = [span for span in inside if span.name == "slot"]
        assert milliseconds(root) == pytest.approx(batch["seconds"] * 1000, abs=0.01)
        assert sum(values(slot.attributes)["holdfast.rows_in"] for slot in slots) == batch["rowsIn"]
        assert sum(values(slot.attributes)["holdfast.bytes_out"] for slot in slots) == batch["bytesOut"]
        slowest = max(slots, key=milliseconds)
        phases = {
            span.name: milliseconds(span)
            for span in inside
            if span.parent_span_id in (root.span_id, slowest.span_id) and span.name != "slot"
        }
        assert phases == pytest.approx(batch["phases"], abs=0.01)


def milliseconds(span: Span) -> float:
    return (span.end_time_unix_nano - span.start_time_unix_nano) / 1_000_000


def test_a_receiver_that_is_away_changes_nothing(app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    with Run(app, tmp_path / "data", "--until-idle", "--slots", "2") as run:
        assert run.ended()["ending"] == "idle"
        lines = [line for line in run.said().splitlines() if "traces" in line]
    assert lines
    assert len(lines) == len(set(lines))
    check(tmp_path / "data", ROWS)
