"""Prometheus metrics of a local run, and the server that exposes them.

Only the driver is scraped: slots report to it. Needs the extra `runtime`; imported only by `holdfast run --metrics`.
Must not show anything else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, start_http_server

from holdfast.errors import UserActionError
from holdfast_runtime.progress import AttemptStarted, ClockJumped, Event, Progress, TablesLoading

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_APP = ("app", "run")
_MOST_PORT = 65_535
_MOST_DIGITS = 5
_MOST_PARTITIONS = 1_000
"""More series than this would cost whoever stores them more than they tell."""


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    """The address to serve metrics on."""

    host: str
    port: int
    """0: any free port."""


def parse_address(text: str) -> MetricsAddress:
    """Parse `9100`, `0.0.0.0:9100` or `[::1]:9100`; without a host, only this machine can connect."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= _MOST_DIGITS and int(port) <= _MOST_PORT):
        message = f"--metrics {text}: write PORT or HOST:PORT, e.g. 9100 or 0.0.0.0:9100"
        raise UserActionError(message, code="UsageError")
    return MetricsAddress(host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port))


_COUNTED: Sequence[tuple[str, str, Callable[[Progress], int]]] = (
    ("rows_in", "Rows read and decoded.", lambda progress: progress.rows_in),
    ("batches", "Batches committed.", lambda _: 1),
    (
        "ahead_rows",
        "Rows whose event time was farther ahead of the clock than maxAhead.",
        lambda progress: progress.ahead,
    ),
    ("undecoded_records", "Records that could not be decoded.", lambda progress: progress.undecoded),
    ("unwritable_rows", "Rows too large for their stream, now dead letters.", lambda progress: progress.unwritable),
    ("tombstones", "Records without a value, which steps do not get.", lambda progress: progress.tombstones),
    (
        "restored_tasks",
        "Tasks whose state was rebuilt from its durable copy.",
        lambda progress: len(progress.restored),
    ),
)
_COUNTED_BY: Sequence[tuple[str, str, str, Callable[[Progress], Mapping[str, int]]]] = (
    ("rows_out", "Rows written, by output stream.", "stream", lambda progress: progress.streams),
    (
        "failed_rows",
        "Rows on which a step failed and that became dead letters.",
        "step",
        lambda progress: progress.failed,
    ),
    (
        "expired_rows",
        "Rows whose event time is older than their topic keeps records.",
        "stream",
        lambda progress: progress.expired,
    ),
    (
        "unkeyed_records",
        "Records and rows without a key, by side input or table.",
        "table",
        lambda progress: progress.unkeyed,
    ),
    (
        "misplaced_records",
        "Records that were put where their key was before their stream grew.",
        "stream",
        lambda progress: progress.misplaced,
    ),
)
_MEASURED: Sequence[tuple[str, str, Callable[[Progress], float | None]]] = (
    ("lag_records", "Records unread when the last batch was planned.", lambda progress: progress.lag),
    (
        "watermark_lag_seconds",
        "How far the watermark was behind the clock at the end of the last batch.",
        lambda progress: None if progress.watermark is None else (progress.at - progress.watermark) / 1000,
    ),
    ("state_bytes", "Size of all local stores.", lambda progress: progress.state_bytes),
    ("last_batch_timestamp_seconds", "When the last batch was committed.", lambda progress: progress.at / 1000),
)


class RunMetrics:
    """All metrics of one run, in their own registry."""

    def __init__(self) -> None:
        # Otherwise each counter gets a second series with its creation time, which is of no use.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._app: tuple[str, str] = ("", "")
        self._counted = [(self._counter(name, what), value) for name, what, value in _COUNTED]
        self._counted_by = [(self._counter(name, what, label), values) for name, what, label, values in _COUNTED_BY]
        self._measured = [(self._gauge(name, what), value) for name, what, value in _MEASURED]
        self._clock_jumps = self._counter("clock_jumps", "How often the host's clock was seen to be set.")
        self._late = self._counter("late_rows", "Rows that came too late for a step, or without event time.", "step")
        self._attempt = self._gauge("attempt", "Number of the attempt in its run; more than 1: it was restarted.")
        self._tasks = self._gauge("tasks", "Tasks of the app.")
        self._buffered = self._gauge("buffered_rows", "Rows that wait in a join for a partner.", "side")
        self._buffered_bytes = self._gauge("buffered_bytes", "Their size, as they are stored.", "side")
        self._stream_lag = self._gauge("stream_lag_records", "The same by stream.", "stream")
        self._partition_lag = self._gauge(
            "partition_lag_records",
            f"The same by partition, if an app reads at most {_MOST_PARTITIONS:,}.",
            "stream",
            "partition",
        )
        self._loading = self._gauge("table_left_records", "Records to load before inputs are read.", "table")
        self._incomplete = self._gauge("table_incomplete", "1 for a table that lacks rows.", "table")
        self._seconds = self._histogram("batch_seconds", "Time of a batch from its plan to its commit.")
        self._phases = self._histogram("batch_phase_seconds", "Time of the slowest slot in each phase.", "phase")

    def note(self, event: Event) -> None:
        """Update the metrics with one event."""
        match event:
            case AttemptStarted():
                self._app = (event.app, event.run)
                self._attempt.labels(*self._app).set(event.attempt)
                self._tasks.labels(*self._app).set(event.tasks)
                # Create counters at the start: an alert can't tell a missing series from a failed scrape.
                for counter in (self._clock_jumps, *(counter for counter, _ in self._counted)):
                    counter.labels(*self._app)
                for step in event.stateful:
                    self._late.labels(*self._app, step)
            case Progress():
                self._count(event)
            case TablesLoading():
                self._show(self._loading, event.left)
            case ClockJumped():
                self._clock_jumps.labels(*self._app).inc()
            case _:
                pass

    def _count(self, progress: Progress) -> None:
        for counter, value in self._counted:
            counter.labels(*self._app).inc(value(progress))
        for counter, values in self._counted_by:
            for label, number in values(progress).items():
                counter.labels(*self._app, label).inc(number)
        for step, rows in progress.late.items():
            self._late.labels(*self._app, step).inc(rows)
        for gauge, measure in self._measured:
            if (measured := measure(progress)) is not None:
                gauge.labels(*self._app).set(measured)
        for side, waiting in progress.buffered.items():
            self._buffered.labels(*self._app, side).set(waiting.rows)
            self._buffered_bytes.labels(*self._app, side).set(waiting.bytes)
        self._count_lags(progress.lags)
        self._show(self._loading, progress.loading)
        self._show(self._incomplete, dict.fromkeys(progress.incomplete, 1))
        self._seconds.labels(*self._app).observe(progress.seconds)
        for phase, took in progress.phases.items():
            self._phases.labels(*self._app, phase).observe(took / 1000)

    def _count_lags(self, lags: Mapping[str, Sequence[int]]) -> None:
        partitions = sum(map(len, lags.values()))
        for stream, unread in lags.items():
            self._stream_lag.labels(*self._app, stream).set(sum(unread))
            if partitions <= _MOST_PARTITIONS:
                for partition, records in enumerate(unread):
                    self._partition_lag.labels(*self._app, stream, partition).set(records)
        if partitions > _MOST_PARTITIONS:
            # What was shown before the inputs grew would stand still.
            self._partition_lag.clear()

    def _show(self, gauge: Gauge, by_table: Mapping[str, int]) -> None:
        gauge.clear()
        for table, number in by_table.items():
            gauge.labels(*self._app, table).set(number)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"holdfast_{name}", what, (*_APP, *labels), registry=self.registry)

    def _gauge(self, name: str, what: str, *labels: str) -> Gauge:
        return Gauge(f"holdfast_{name}", what, (*_APP, *labels), registry=self.registry)

    def _histogram(self, name: str, what: str, *labels: str) -> Histogram:
        return Histogram(f"holdfast_{name}", what, (*_APP, *labels), registry=self.registry, buckets=_BUCKETS)


class MetricsServer:
    """Serves metrics until it is closed."""

    def __init__(self, metrics: RunMetrics, address: MetricsAddress) -> None:
        try:
            self._server: Any
            self._server, self._thread = start_http_server(address.port, address.host, metrics.registry)
        except OSError as error:
            message = f"--metrics: can't listen on {address.host}:{address.port}: {error}"
            raise UserActionError(message, code="UsageError") from error
        host = f"[{address.host}]" if ":" in address.host else address.host
        self.url = f"http://{host}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
