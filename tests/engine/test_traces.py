"""Traces, sent to receivers that take them, refuse, hang or are away: no run notices."""

import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.driver import traces as traces_module
from holdfast_runtime.driver.batch_spans import DoneBatch
from holdfast_runtime.driver.traces import BatchTraces, batch_traces
from holdfast_runtime.progress import BatchBegun, BatchWaiting
from holdfast_runtime.slot.report import SlotReport, TaskReport
from tests.cli.run_events import FIRST, STARTED
from tests.engine.otlp import RECEIVED, receiver, resource_of, sent_spans, values
from tests.registry.scripted import ScriptedAnswer, ScriptedRegistry
from tests.waiting import patience, wait_until

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
SECRET = "s3cr3t"  # noqa: S105 - of a test
REPORT = SlotReport((TaskReport("partition-3"),), {"fetch": 20.1, "steps": 88.0, "write": 9.9, "commit": 17.0})
SPANS_A_BATCH = 8


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADERS", "TRACES_HEADERS", "TRACES_ENDPOINT", "PROTOCOL"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    monkeypatch.setattr(traces_module, "_LAST_WITHIN", patience(10))
    # The default sampler of the SDK, whatever this shell says.
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_on")


@pytest.fixture(autouse=True)
def log() -> Iterator[None]:
    """The log of the SDK, which is as it was when traces have ended, however they did."""
    sdk_log = logging.getLogger("opentelemetry")
    yield
    wait_until(lambda: not sdk_log.handlers and sdk_log.propagate, 5, "messages of the SDK are its own again")


@contextmanager
def traced(url: str, monkeypatch: pytest.MonkeyPatch, *, sampled: bool = True) -> Iterator[BatchTraces]:
    """Traces of an attempt that has started."""
    monkeypatch.setenv(ENDPOINT, url)
    with BatchTraces("ad-clicks", "team", sampled=sampled) as traces:
        traces.listen(STARTED)
        yield traces


def run_batch(traces: BatchTraces, number: int = 41) -> None:
    traces.listen(BatchBegun(number, FIRST.at))
    traces.reported({"executor-1/0": "disk-7"}, (REPORT,))
    traces.listen(replace(FIRST, batch=number))


def names(server: ScriptedRegistry) -> list[str]:
    return [span.name for span in sent_spans(server)]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if line.startswith("traces")]


def over() -> None:
    """Wait until no thread of a receiver or a sender is left."""
    wait_until(lambda: all(thread.name != "traces" for thread in threading.enumerate()), 5, "nothing more is sent")


@contextmanager
def silent() -> Iterator[str]:
    """A receiver that takes connections and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_a_batch_is_a_trace_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    server = receiver()
    with server.running() as url, traced(url, monkeypatch) as traces:
        run_batch(traces, 41)
        run_batch(traces, 42)
    spans = sent_spans(server)
    assert len(spans) == 2 * SPANS_A_BATCH
    roots = {values(span.attributes)["holdfast.batch"]: span for span in spans if not span.parent_span_id}
    assert roots.keys() == {41, 42}
    assert len({span.trace_id for span in roots.values()}) == 2
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    for span in spans:
        if span.parent_span_id:
            parent = by_id[span.parent_span_id]
            assert parent.trace_id == span.trace_id
            assert parent.name == {"slot": "batch", "plan": "batch", "spark": "batch"}.get(span.name, "slot")
    method, path, *_ = server.requests[0]
    assert (method, path) == ("POST", "/v1/traces")


def test_who_sends_is_the_app_unless_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    server = receiver()
    with server.running() as url, traced(url, monkeypatch) as traces:
        run_batch(traces)
    sender = resource_of(server)
    assert (sender["service.name"], sender["service.namespace"]) == ("ad-clicks", "team")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "clicks")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.namespace=shop,deployment.environment=prod")
    server = receiver()
    with server.running() as url, traced(url, monkeypatch) as traces:
        run_batch(traces)
    sender = resource_of(server)
    assert (sender["service.name"], sender["service.namespace"]) == ("clicks", "shop")
    assert sender["deployment.environment"] == "prod"


def test_headers_are_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{SECRET},{SECRET}")
    server = receiver()
    with server.running() as url, traced(url, monkeypatch) as traces:
        run_batch(traces)
    assert server.requests[0][2]["authorization"] == f"Bearer {SECRET}"
    (line,) = warnings(caplog)
    assert "OTEL_EXPORTER_OTLP_HEADERS" in line
    assert SECRET not in caplog.text


def test_the_sampler_chooses_among_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    server = receiver()
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    with server.running() as url, traced(url, monkeypatch) as traces:
        run_batch(traces)
    assert server.requests == []


def test_without_a_sampler_one_batch_a_second_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    server, seconds = receiver(), [FIRST.at // 1000]
    with server.running() as url:
        monkeypatch.setenv(ENDPOINT, url)
        with BatchTraces("ad-clicks", None, clock=lambda: seconds[0] * 1_000_000_000) as traces:
            traces.listen(STARTED)
            for number in range(3):
                for _ in range(5):
                    run_batch(traces, number)
                seconds[0] += 1
    assert names(server).count("batch") == 3


def test_a_failed_batch_has_a_status_without_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(url: str) -> None:
        with traced(url, monkeypatch, sampled=False) as traces:
            for number in (40, 41):
                traces.listen(BatchBegun(number, FIRST.at))
                traces.listen(BatchWaiting("the store is away"))
            traces.listen(BatchWaiting(f"the broker {SECRET} is away"))
            message = f"a row of {SECRET}"
            raise UserActionError(message, code="FunctionFailedError")

    server = receiver()
    with server.running() as url, pytest.raises(UserActionError):
        run(url)
    (failed,) = sent_spans(server)
    assert (failed.name, failed.status.code, failed.status.message) == ("batch", 2, "FunctionFailedError")
    assert [event.name for event in failed.events] == ["waiting", "waiting"]
    assert SECRET.encode() not in b"".join(body for *_, body in server.requests)


def test_an_error_between_batches_is_no_failed_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(url: str) -> None:
        with traced(url, monkeypatch) as traces:
            run_batch(traces)
            raise OSError

    server = receiver()
    with server.running() as url, pytest.raises(OSError):  # noqa: PT011 - it has no text
        run(url)
    assert {span.status.code for span in sent_spans(server)} == {0}


def test_a_receiver_that_hangs_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(traces_module, "_LAST_WITHIN", 0.2)
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
    with silent() as url:
        with traced(url, monkeypatch) as traces:
            began = time.monotonic()
            for number in range(2_000):
                run_batch(traces, number)
            assert time.monotonic() - began < patience(2)
            began = time.monotonic()
        assert time.monotonic() - began < patience(2)
    assert "traces can't be sent: the last ones were not received within 0.2 s" in warnings(caplog)
    assert len(warnings(caplog)) == len(set(warnings(caplog)))
    over()


def test_a_receiver_that_is_away_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(traces_module, "_LAST_WITHIN", 0.2)
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8")
    with silent() as url:
        pass
    with traced(url, monkeypatch) as traces:
        for number in range(100):
            run_batch(traces, number)
        wait_until(lambda: any("refused" in line for line in warnings(caplog)), 5, "it is logged")
    over()
    assert len(warnings(caplog)) == len(set(warnings(caplog)))


def test_each_kind_of_refusal_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", str(SPANS_A_BATCH))
    server = receiver(*[ScriptedAnswer(400, b"")] * 3, RECEIVED)
    with server.running() as url, traced(url, monkeypatch) as traces:
        for number in range(4):
            run_batch(traces, number)
    assert len(server.requests) == 4
    (line,) = warnings(caplog)
    assert "400" in line


def test_packages_that_are_not_installed_stop_no_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.context", None)
    monkeypatch.delitem(sys.modules, "holdfast_runtime.driver.span_export", raising=False)
    with traced("http://127.0.0.1:1", monkeypatch) as traces:
        over()
        for number in range(100):
            run_batch(traces, number)
    (line,) = warnings(caplog)
    assert "pip install '.[traces]'" in line


def test_spans_that_can_not_be_made_stop_no_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = receiver()
    with (
        server.running() as url,
        traced(url, monkeypatch) as traces,
        patch.object(DoneBatch, "span", side_effect=ZeroDivisionError),
    ):
        run_batch(traces)
        over()
    assert warnings(caplog) == ["traces can't be sent: ZeroDivisionError: "]


def test_variables_that_the_sdk_refuses_stop_no_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1")
    with traced("http://127.0.0.1:1", monkeypatch) as traces:
        run_batch(traces)
    (line,) = warnings(caplog)
    assert "max_queue_size" in line


@pytest.mark.parametrize(
    ("environment", "sent"),
    [
        ({}, False),
        ({ENDPOINT: ""}, False),
        ({ENDPOINT: "http://a"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://a"}, False),
        ({ENDPOINT: "http://a", "OTEL_SDK_DISABLED": "True"}, False),
        ({ENDPOINT: "http://a", "OTEL_SDK_DISABLED": "false"}, True),
        ({ENDPOINT: "http://a", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({ENDPOINT: "http://a", "OTEL_TRACES_EXPORTER": "console, otlp"}, True),
        ({ENDPOINT: "http://a", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
    ],
)
def test_the_variables_of_opentelemetry_decide(environment: dict[str, str], *, sent: bool) -> None:
    with batch_traces("ad-clicks", environment=environment) as traces:
        assert (traces is not None) == sent


def test_the_sdk_is_loaded_only_where_traces_are_sent() -> None:
    assert not hasattr(traces_module, "SpanExport")


def test_another_protocol_is_named_in_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    environment = {ENDPOINT: "http://a:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    with caplog.at_level(logging.WARNING), batch_traces("ad-clicks", environment=environment) as traces:
        assert traces is None
    (line,) = warnings(caplog)
    assert "grpc" in line
    assert "4318" in line
