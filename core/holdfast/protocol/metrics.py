"""The metrics for Prometheus that drivers and the operator serve: one list for code, page, rules and dashboards.

Names are those of the text format, but for the `_total` that counters get. A driver names its app and run; the
namespace comes from who scrapes it, so that no app can write figures of another namespace. The operator names the
namespace itself. No label has keys of rows, nor anything else that an app's records choose. Must not measure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class MetricKind(StrEnum):
    """The types of the text format that are used."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricSource(StrEnum):
    """Who serves a metric."""

    DRIVER = "driver"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A metric: what it measures and by which labels."""

    source: MetricSource
    kind: MetricKind
    name: str
    unit: str
    """seconds, bytes, a timestamp, or what is counted."""
    labels: tuple[str, ...]
    help: str

    @property
    def family(self) -> str:
        """The name by which a counter's value is asked for."""
        return f"{self.name}_total" if self.kind is MetricKind.COUNTER else self.name

    @property
    def series(self) -> tuple[str, ...]:
        """The names of all its series."""
        if self.kind is MetricKind.HISTOGRAM:
            return tuple(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return (self.family,)


METRICS_PORT = 9404
"""The port of a driver's metrics."""
METRICS_PORT_NAME = "hold-metrics"
METRICS_PORT_VARIABLE = "HOLDFAST_METRICS_PORT"
"""The variable of a driver's container; a driver that does not know it serves none."""
MOST_PARTITION_SERIES = 1_000
"""Partitions of an app with series of their own. More would cost who stores them more than they tell, and an app may
have ten thousand; the sum and the worst of a stream are always there."""
OF_AN_APP = ("app", "run")


def _driver(kind: MetricKind, name: str, unit: str, text: str, *labels: str) -> MetricDefinition:
    return MetricDefinition(MetricSource.DRIVER, kind, name, unit, (*OF_AN_APP, *labels), text)


def _operator(kind: MetricKind, name: str, unit: str, text: str, *labels: str) -> MetricDefinition:
    return MetricDefinition(MetricSource.OPERATOR, kind, name, unit, labels, text)


_C, _G, _H = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM
_FEW = f"if an app reads at most {MOST_PARTITION_SERIES:,} partitions"
_LIST = (
    _driver(_C, "holdfast_batches", "batches", "Batches committed."),
    _driver(_C, "holdfast_rows_in", "rows", "Rows read and decoded, by stream.", "stream"),
    _driver(_C, "holdfast_rows_out", "rows", "Rows written, by output stream.", "stream"),
    _driver(_C, "holdfast_dead_letters", "rows", "Rows written to a stream of dead letters.", "stream"),
    _driver(_C, "holdfast_undecoded_records", "records", "Records that could not be decoded."),
    _driver(_C, "holdfast_unwritable_rows", "rows", "Rows too large for their stream, now dead letters."),
    _driver(_C, "holdfast_failed_rows", "rows", "Rows on which a step failed and that became dead letters.", "step"),
    _driver(_C, "holdfast_late_rows", "rows", "Rows that came too late for a step, or without event time.", "step"),
    _driver(_C, "holdfast_ahead_rows", "rows", "Rows with an event time farther ahead of the clock than maxAhead."),
    _driver(_C, "holdfast_expired_rows", "rows", "Rows with an event time older than their topic keeps.", "stream"),
    _driver(_C, "holdfast_unkeyed_records", "records", "Records and rows for a table that have no key.", "table"),
    _driver(_C, "holdfast_misplaced_records", "records", "Records put where their key was before growth.", "stream"),
    _driver(_C, "holdfast_tombstones", "records", "Records without a value, which steps do not get."),
    _driver(_C, "holdfast_restored_tasks", "tasks", "Tasks whose state was rebuilt from its durable copy."),
    _driver(_C, "holdfast_clock_jumps", "times", "How often the host's clock was seen to be set."),
    _driver(_C, "holdfast_waits", "times", "Signs, one in 30 s, that an outside system is waited for."),
    _driver(_H, "holdfast_batch_seconds", "seconds", "Time of a batch from its plan to its commit."),
    _driver(_H, "holdfast_batch_phase_seconds", "seconds", "Time of the slowest slot in each phase.", "phase"),
    _driver(_G, "holdfast_batch_running_seconds", "seconds", "How long the current batch has run; 0: none runs."),
    _driver(_G, "holdfast_last_batch_timestamp_seconds", "timestamp", "When the last batch was committed."),
    _driver(_G, "holdfast_lag_records", "records", "Records unread when the last batch was planned."),
    _driver(_G, "holdfast_stream_lag_records", "records", "The same by stream.", "stream"),
    _driver(_G, "holdfast_partition_lag_records", "records", f"The same by partition, {_FEW}.", "stream", "partition"),
    _driver(
        _G,
        "holdfast_lag_seconds",
        "seconds",
        "How far the app is behind: of the stream that is most behind, or how long the current batch has run.",
    ),
    _driver(
        _G,
        "holdfast_stream_lag_seconds",
        "seconds",
        "How far the clock is ahead of the event time to which a stream is processed where records are unread; "
        "0: none are. Of its worst partition.",
        "stream",
    ),
    _driver(_G, "holdfast_partition_lag_seconds", "seconds", f"The same by partition, {_FEW}.", "stream", "partition"),
    _driver(_G, "holdfast_watermark_lag_seconds", "seconds", "How far the lowest watermark is behind the clock."),
    _driver(
        _G,
        "holdfast_stream_watermark_lag_seconds",
        "seconds",
        "The same by stream: the one that is most behind holds the others back.",
        "stream",
    ),
    _driver(_G, "holdfast_attempt", "number", "Number of the attempt in its run; more than 1: it was restarted."),
    _driver(_G, "holdfast_app_tasks", "tasks", "Tasks of the app."),
    _driver(_G, "holdfast_state_bytes", "bytes", "Size of all local stores."),
    _driver(_G, "holdfast_state_limit_bytes", "bytes", "Size of all disks for them, where `state.size` says it."),
    _driver(_G, "holdfast_buffered_rows", "rows", "Rows that wait in a join for a partner.", "side"),
    _driver(_G, "holdfast_buffered_bytes", "bytes", "Their size, as they are stored.", "side"),
    _driver(_G, "holdfast_table_left_records", "records", "Records to load before inputs are read.", "table"),
    _driver(_G, "holdfast_table_incomplete", "1", "1 for a table that lacks rows.", "table"),
    _operator(_G, "holdfast_operator_leading", "1", "1 if this replica looks after apps, 0 on standby."),
    _operator(_H, "holdfast_operator_look_seconds", "seconds", "How long a look at one app took."),
    _operator(
        _H,
        "holdfast_operator_lag_seconds",
        "seconds",
        "From the news of a change to the end of the look that took it up.",
    ),
    _operator(_C, "holdfast_operator_launches", "attempts", "Attempts whose driver was made."),
    _operator(_C, "holdfast_operator_refusals", "looks", "Looks that found that an app may not start.", "reason"),
    _operator(_C, "holdfast_operator_failed_looks", "looks", "Looks that failed and are repeated.", "error"),
    _operator(_C, "holdfast_operator_moved_tasks", "tasks", "Tasks given to an executor at another location."),
    _operator(_C, "holdfast_operator_api_calls", "calls", "Calls of the API server.", "verb", "kind", "code"),
    _operator(_G, "holdfast_operator_namespaces_of_others", "namespaces", "Namespaces of another release."),
    _operator(_G, "holdfast_apps", "apps", "Apps, by their condition Ready.", "ready", "reason"),
    _operator(_G, "holdfast_tasks", "tasks", "Tasks of all apps."),
    _operator(
        _G,
        "holdfast_tasks_placed",
        "tasks",
        "Tasks that run where their state is: by holdfast_tasks, the locality ratio.",
    ),
    _operator(
        _G, "holdfast_app_ready", "1", "1 for an app that is Ready, else 0 and why.", "namespace", "app", "reason"
    ),
    _operator(
        _C,
        "holdfast_app_restarts",
        "attempts",
        "Attempts that failed and were followed by another.",
        "namespace",
        "app",
    ),
    _operator(
        _G, "holdfast_app_max_lag_seconds", "seconds", "`alerts.maxLag` of the app, if it has one.", "namespace", "app"
    ),
    _operator(_G, "holdfast_app_max_dead_letters", "rows", "`alerts.deadLetters`, if it has one.", "namespace", "app"),
)
METRICS: Mapping[str, MetricDefinition] = {metric.name: metric for metric in _LIST}
