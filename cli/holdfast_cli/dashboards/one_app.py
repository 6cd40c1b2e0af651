"""The dashboard of one app: how it is, whether it is behind and where, what batches do, what went wrong, its state.

Series come from several drivers in the course of time, so that no query tells pods apart. Streams are asked for
first, as Grafana gives colours by place: each has the same in graphs by stream.
"""

from holdfast_cli.dashboards.panels import ROWS_PER_SECOND, Dashboard, DashboardVariable, Figure, Section, TimeGraph
from holdfast_cli.dashboards.queries import risen, worst

_ONE = '{namespace="$namespace", app="$app"}'
_PARTITION = "stream, partition"
_BEHIND, _PROMISED = f"max(holdfast_lag_seconds{_ONE})", f"max(holdfast_app_max_lag_seconds{_ONE})"
_BATCH_BUCKETS = f"sum by (le) (rate(holdfast_batch_seconds_bucket{_ONE}[5m]))"
_STATE, _DISKS = f"max(holdfast_state_bytes{_ONE})", f"max(holdfast_state_limit_bytes{_ONE})"


def _risen(series: str, by: str = "") -> str:
    return risen(f"{series}{_ONE}", by)


_SUMMARY = Section(
    "How is it?",
    6,
    (
        Figure(
            "Condition Ready",
            "Red: not Ready, and why. `holdfast explain REASON` says what to do. No data: the operator is not scraped.",
            "none",
            "no data",
            f"max by (reason) (holdfast_app_ready{_ONE})",
            (("green", 1),),
            "reason",
            ("Suspended", "Completed", "Deleting"),
        ),
        Figure(
            "Behind",
            "Bad: rising. How far the stream that is most behind is behind the clock, or how long the current batch has"
            " run. 0 where everything is read.",
            "s",
            "no driver",
            _BEHIND,
        ),
        Figure(
            "Behind, % of promise",
            "Bad: 100 % or more. 100 % is `alerts.maxLag` of its spec.",
            "percentunit",
            "no promise",
            f"{_BEHIND} / {_PROMISED}",
            (("orange", 0.8), ("red", 1)),
        ),
        Figure(
            "Failures in 1 h",
            "Bad: any that nobody expects. Attempts that failed and were followed by another;"
            " `kubectl describe streamapp` says how the last one ended.",
            "none",
            "no data",
            f"round(max(increase(holdfast_app_restarts_total{_ONE}[1h])))",
            (("orange", 1),),
        ),
        Figure(
            "Dead letters in 1 h",
            "Bad: more than `alerts.deadLetters`. `holdfast letters` groups them by cause. No stream: the app has"
            " none for them.",
            "short",
            "no stream",
            f"round(sum(increase(holdfast_dead_letters_total{_ONE}[1h])))",
            (("orange", 1),),
        ),
        Figure(
            "Disks used by state",
            "Bad: above 80 %. Local stores against `state.size` times executors; one disk may be full before.",
            "percentunit",
            "no limit",
            f"{_STATE} / {_DISKS}",
            (("orange", 0.7), ("red", 0.8)),
        ),
    ),
)
_LAG = Section(
    "Is it behind, and where?",
    2,
    (
        TimeGraph(
            "Behind, by stream",
            "Bad: rising, or above the promise. A saw tooth of the app alone is a batch that runs long.",
            "s",
            "No driver is scraped",
            {
                "{{stream}}": f"max by (stream) (holdfast_stream_lag_seconds{_ONE})",
                "the app": _BEHIND,
                "its promise": _PROMISED,
            },
            dashed={"its promise": "red", "the app": "text"},
        ),
        TimeGraph(
            "Unread records, by stream",
            "Bad: rising. If batches are full, more executors or cores help.",
            "short",
            "No driver is scraped",
            {"{{stream}}": f"max by (stream) (holdfast_stream_lag_records{_ONE})"},
        ),
        TimeGraph(
            "Unread records, of the ten worst partitions",
            "Bad: a few far above the others, as their keys are hot and more executors will not help.",
            "short",
            "No driver is scraped, or the app reads too many partitions for series of their own",
            {
                "{{stream}}/{{partition}}": worst(
                    f"max by ({_PARTITION}) (holdfast_partition_lag_records{_ONE})",
                    f"max by ({_PARTITION}) (max_over_time(holdfast_partition_lag_records{_ONE}[$__range] @ end()))",
                    _PARTITION,
                )
            },
        ),
        TimeGraph(
            "Watermarks behind, by stream",
            "Bad: rising, as results of windows and joins come later. The one that is most behind holds the others"
            " back; a quiet stream does so without being behind. `holdfast status` names the partition.",
            "s",
            "No stream has event time, or no driver is scraped",
            {"{{stream}}": f"max by (stream) (holdfast_stream_watermark_lag_seconds{_ONE})"},
        ),
    ),
)
_BATCHES = Section(
    "What do batches do?",
    2,
    (
        TimeGraph(
            "Rows in and out",
            "Bad: a fall without a reason. Streams in the middle of the app are among those that rows go to.",
            ROWS_PER_SECOND,
            "No driver is scraped",
            {
                "from {{stream}}": f"sum by (stream) (rate(holdfast_rows_in_total{_ONE}[5m]))",
                "to {{stream}}": f"sum by (stream) (rate(holdfast_rows_out_total{_ONE}[5m]))",
            },
        ),
        TimeGraph(
            "How long batches take",
            "Bad: rising. A running batch far above the others waits or hangs: the driver's log says `waiting: ...`.",
            "s",
            "No batch was committed in this time",
            {
                "half are faster": f"histogram_quantile(0.5, {_BATCH_BUCKETS})",
                "99 of 100 are faster": f"histogram_quantile(0.99, {_BATCH_BUCKETS})",
                "running now": f"max(holdfast_batch_running_seconds{_ONE})",
            },
        ),
        TimeGraph(
            "Where batches spend their time",
            "Phases of the slowest slot, on average. fetch: the broker; steps: functions and SQL; write, commit: the"
            " broker, disks and the checkpoint.",
            "s",
            "No batch was committed in this time",
            {
                "{{phase}}": f"sum by (phase) (rate(holdfast_batch_phase_seconds_sum{_ONE}[5m]))"
                f" / sum by (phase) (rate(holdfast_batch_phase_seconds_count{_ONE}[5m]))"
            },
            "stacked",
        ),
        TimeGraph(
            "Waits for outside systems, in 5 min",
            "Bad: any. One for each 30 s in which a broker, a store or a table does not answer; the driver's log says"
            " which.",
            "none",
            "No wait seen in this time",
            {"waits": _risen("holdfast_waits_total")},
            "filled",
            whole=True,
        ),
    ),
)
_WRONG = Section(
    "What went wrong?",
    2,
    (
        TimeGraph(
            "Rows that went wrong, in 5 min",
            "Bad: rising. Only what there was. Failed and undecoded rows are dead letters too, if they have a stream.",
            "short",
            "No such row seen in this time",
            {
                "dead letters in {{stream}}": _risen("holdfast_dead_letters_total", "stream"),
                "failed in {{step}}": _risen("holdfast_failed_rows_total", "step"),
                "late in {{step}}": _risen("holdfast_late_rows_total", "step"),
                "undecoded": _risen("holdfast_undecoded_records_total"),
                "too large to write": _risen("holdfast_unwritable_rows_total"),
                "ahead of the clock": _risen("holdfast_ahead_rows_total"),
                "older than {{stream}} keeps": _risen("holdfast_expired_rows_total", "stream"),
                "without a key for {{table}}": _risen("holdfast_unkeyed_records_total", "table"),
                "misplaced in {{stream}}": _risen("holdfast_misplaced_records_total", "stream"),
            },
            whole=True,
        ),
        TimeGraph(
            "Attempts",
            "Bad: rising without a change of yours. Each step is a new driver; restored tasks got their state from its"
            " durable copy, as their disk was gone.",
            "none",
            "No driver is scraped",
            {
                "number of the attempt": f"max(holdfast_attempt{_ONE})",
                "tasks restored in 5 min": _risen("holdfast_restored_tasks_total"),
            },
            whole=True,
        ),
    ),
)
_KEPT = Section(
    "What does it keep?",
    3,
    (
        TimeGraph(
            "State",
            "Bad: near its disks. Shorter `within` and `ttl`, more executors or larger claims give room.",
            "bytes",
            "No driver is scraped",
            {"local stores": _STATE, "all disks": _DISKS},
            dashed={"all disks": "red"},
        ),
        TimeGraph(
            "Rows that wait in joins",
            "Bad: rising without end. Rows of one side wait for a partner until the watermark passes.",
            "short",
            "No join keeps rows",
            {"{{side}}": f"max by (side) (holdfast_buffered_rows{_ONE})"},
            "stacked",
        ),
        TimeGraph(
            "Records of tables to load",
            "Bad: not falling. Inputs wait until tables with `bootstrap` are loaded.",
            "short",
            "No table is loaded",
            {"{{table}}": f"max by (table) (holdfast_table_left_records{_ONE})"},
        ),
    ),
)
ONE_APP = Dashboard(
    "app",
    "Holdfast: one app",
    (
        DashboardVariable("namespace", "Namespace", "holdfast_app_ready"),
        DashboardVariable("app", "App", 'holdfast_app_ready{namespace="$namespace"}'),
    ),
    (_SUMMARY, _LAG, _BATCHES, _WRONG, _KEPT),
)
