"""A run's metrics for Prometheus, made of its events, and the server that exposes them: on a cluster and on one host.

Only the driver is scraped: slots report to it. An event costs a sum per counter; all else is made when somebody
scrapes, from the last event. In a new driver counters begin at 0, as Prometheus expects; what must outlive a driver
(restarts, readiness, what an app promises) the operator serves. Must not compute what a batch would not know anyway.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.protocol.metrics import METRICS, MOST_PARTITION_SERIES, MetricKind, MetricSource
from holdfast.spec.app import AppSpec
from holdfast.spec.edits import streams_read
from holdfast.spec.values import in_bytes, millis
from holdfast.spec.verbs import STREAM_VERBS
from holdfast_runtime.clocks import now
from holdfast_runtime.progress import (
    AttemptStarted,
    BatchBegun,
    BatchWaiting,
    ClockJumped,
    Event,
    Progress,
    RunEnded,
    TablesLoading,
)

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_DRIVER = tuple(metric for metric in METRICS.values() if metric.source is MetricSource.DRIVER)
_SIZED = ("Claim", "Pod")


@dataclass(frozen=True, slots=True)
class MeasuredApp:
    """What metrics need of a spec beside events."""

    dead_letters: frozenset[str] = frozenset()
    lateness: Mapping[str, int] = field(default_factory=dict)
    """Stream -> milliseconds by which its watermark is behind the rows that were read."""
    state_limit: int | None = None
    """Bytes that local stores may have on all executors; None: nothing in the spec says so."""
    read: frozenset[str] = frozenset()
    """The streams that steps or tables read."""

    @classmethod
    def of(cls, spec: AppSpec, *, on_cluster: bool) -> "MeasuredApp":
        """Return what is measured of this app."""
        timed = {stream.name: stream.event_time for stream in spec.streams if stream.event_time is not None}
        size = in_bytes(spec.state.size) * spec.runtime.executors.count
        return cls(
            spec.dead_letters,
            {name: millis(event_time.lateness) for name, event_time in timed.items()},
            size if on_cluster and spec.state.location in _SIZED else None,
            frozenset(streams_read(spec) | {step.name for step in spec.steps if step.verb in STREAM_VERBS}),
        )


_JUMPS, _WAITS, _LETTERS = "holdfast_clock_jumps", "holdfast_waits", "holdfast_dead_letters"
_READ, _BATCH, _PHASE = "holdfast_rows_in", "holdfast_batch_seconds", "holdfast_batch_phase_seconds"
_COUNTED: Mapping[str, Callable[[Progress], int]] = {
    "holdfast_batches": lambda _: 1,
    "holdfast_ahead_rows": lambda progress: progress.ahead,
    "holdfast_undecoded_records": lambda progress: progress.undecoded,
    "holdfast_unwritable_rows": lambda progress: progress.unwritable,
    "holdfast_tombstones": lambda progress: progress.tombstones,
    "holdfast_restored_tasks": lambda progress: len(progress.restored),
}
_COUNTED_BY: Mapping[str, Callable[[Progress], Mapping[str, int]]] = {
    _READ: lambda progress: progress.read,
    "holdfast_rows_out": lambda progress: progress.streams,
    "holdfast_failed_rows": lambda progress: progress.failed,
    "holdfast_late_rows": lambda progress: progress.late,
    "holdfast_expired_rows": lambda progress: progress.expired,
    "holdfast_unkeyed_records": lambda progress: progress.unkeyed,
    "holdfast_misplaced_records": lambda progress: progress.misplaced,
}
_Labels = tuple[str, ...]
_Samples = Iterator[tuple[str, _Labels, float]]


@dataclass(slots=True)
class _Times:
    """One series of a histogram."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(_BUCKETS) + 1))
    total: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(_BUCKETS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative counts by upper bound, as the text format wants them."""
        bounds = [*map(str, _BUCKETS), "+Inf"]
        return [(bound, float(sum(self.counts[: i + 1]))) for i, bound in enumerate(bounds)]


class RunMetrics(Collector):
    """All metrics of one run, in their own registry. Events and scrapes may come from different threads."""

    def __init__(self, app: MeasuredApp | None = None, clock: Callable[[], int] = now) -> None:
        self.registry = CollectorRegistry()
        self._app, self._clock = app or MeasuredApp(), clock
        self._lock = threading.Lock()
        self._started: AttemptStarted | None = None
        self._last: Progress | None = None
        self._loading: Mapping[str, int] = {}
        self._begun: int | None = None
        """When the batch began that is running."""
        self._counts: dict[str, dict[_Labels, int]] = {}
        self._times: dict[str, dict[_Labels, _Times]] = {_BATCH: {}, _PHASE: {}}
        self.registry.register(self)

    def note(self, event: Event) -> None:
        """Update the metrics with one event."""
        with self._lock:
            self._note(event)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics that have values."""
        with self._lock:
            families = list(self._families())
        yield from families

    def _note(self, event: Event) -> None:
        match event:
            case AttemptStarted():
                self._start(event)
            case BatchBegun():
                self._begun = event.at
            case Progress():
                self._count(event)
            case TablesLoading():
                self._loading = event.left
            case ClockJumped():
                self._add(_JUMPS, 1)
            case BatchWaiting():
                self._add(_WAITS, 1)
            case RunEnded():
                self._begun = None
            case _:
                pass

    def _start(self, started: AttemptStarted) -> None:
        self._started, self._begun = started, None
        # Create counters at the start: an alert can't tell a missing series from a failed scrape.
        for name in (_JUMPS, _WAITS, *_COUNTED):
            self._add(name, 0)
        for step in started.stateful:
            self._add("holdfast_late_rows", 0, step)
        for stream in self._app.dead_letters:
            self._add(_LETTERS, 0, stream)
        for stream in self._app.read:
            self._add(_READ, 0, stream)

    def _add(self, name: str, number: int, *labels: str) -> None:
        counts = self._counts.setdefault(name, {})
        counts[labels] = counts.get(labels, 0) + number

    def _count(self, progress: Progress) -> None:
        self._last, self._loading, self._begun = progress, progress.loading, None
        for name, value in _COUNTED.items():
            self._add(name, value(progress))
        for name, values in _COUNTED_BY.items():
            for label, number in values(progress).items():
                self._add(name, number, label)
        for stream in self._app.dead_letters & progress.streams.keys():
            self._add(_LETTERS, progress.streams[stream], stream)
        self._times[_BATCH].setdefault((), _Times()).observe(progress.seconds)
        for phase, took in progress.phases.items():
            self._times[_PHASE].setdefault((phase,), _Times()).observe(took / 1000)

    def _families(self) -> Iterator[Metric]:
        if self._started is None:
            return
        base, gauges = (self._started.app, self._started.run), dict[str, list[tuple[_Labels, float]]]()
        for name, labels, value in self._gauges(self._started):
            gauges.setdefault(name, []).append((labels, value))
        for metric in _DRIVER:
            match metric.kind:
                case MetricKind.COUNTER:
                    counter = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
                    for labels, number in self._counts.get(metric.name, {}).items():
                        counter.add_metric((*base, *labels), number)
                    yield counter
                case MetricKind.GAUGE:
                    gauge = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
                    for labels, value in gauges.get(metric.name, ()):
                        gauge.add_metric((*base, *labels), value)
                    yield gauge
                case MetricKind.HISTOGRAM:
                    histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
                    for labels, times in self._times[metric.name].items():
                        histogram.add_metric((*base, *labels), times.buckets(), times.total)
                    yield histogram

    def _gauges(self, started: AttemptStarted) -> _Samples:
        yield "holdfast_attempt", (), started.attempt
        yield "holdfast_app_tasks", (), started.tasks
        running = 0.0 if self._begun is None else max(0.0, (self._clock() - self._begun) / 1000)
        yield "holdfast_batch_running_seconds", (), running
        if self._app.state_limit is not None:
            yield "holdfast_state_limit_bytes", (), self._app.state_limit
        for table, left in self._loading.items():
            yield "holdfast_table_left_records", (table,), left
        if self._last is None:
            yield "holdfast_lag_seconds", (), running
            return
        yield from self._measured(self._last)
        yield from self._lags(self._last, running)

    def _measured(self, last: Progress) -> _Samples:
        yield "holdfast_last_batch_timestamp_seconds", (), last.at / 1000
        yield "holdfast_state_bytes", (), last.state_bytes
        if last.watermark is not None:
            yield "holdfast_watermark_lag_seconds", (), (last.at - last.watermark) / 1000
        for stream, mark in last.watermarks.items():
            yield "holdfast_stream_watermark_lag_seconds", (stream,), (last.at - mark) / 1000
        for side, waiting in last.buffered.items():
            yield "holdfast_buffered_rows", (side,), waiting.rows
            yield "holdfast_buffered_bytes", (side,), waiting.bytes
        for table in last.incomplete:
            yield "holdfast_table_incomplete", (table,), 1

    def _lags(self, last: Progress, running: float) -> _Samples:
        yield "holdfast_lag_records", (), last.lag
        each, behind = sum(map(len, last.lags.values())) <= MOST_PARTITION_SERIES, [running]
        for stream, unread in last.lags.items():
            yield "holdfast_stream_lag_records", (stream,), sum(unread)
            seconds = self._behind(stream, unread, last.unread_from.get(stream, {}))
            if each:
                for partition, records in enumerate(unread):
                    yield "holdfast_partition_lag_records", (stream, str(partition)), records
                for partition, lag in seconds.items():
                    yield "holdfast_partition_lag_seconds", (stream, str(partition)), lag
            if seconds:
                behind.append(worst := max(seconds.values()))
                yield "holdfast_stream_lag_seconds", (stream,), worst
        yield "holdfast_lag_seconds", (), max(behind)

    def _behind(self, stream: str, unread: Sequence[int], marks: Mapping[int, int]) -> dict[int, float]:
        """Return how far each partition is behind; one with unread records and no watermark is left out."""
        at, lateness = self._clock(), self._app.lateness.get(stream, 0)
        return {
            partition: max(0.0, (at - marks[partition] - lateness) / 1000) if records else 0.0
            for partition, records in enumerate(unread)
            if not records or partition in marks
        }


class MetricsServer:
    """Serves metrics until it is closed; `OSError` if it can't listen there."""

    def __init__(self, metrics: RunMetrics, host: str, port: int) -> None:
        self._server: Any
        self._server, self._thread = start_http_server(port, host, metrics.registry)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
