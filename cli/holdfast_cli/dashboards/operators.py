"""The dashboard of the operator: whether a replica leads, how quickly it looks after apps, and what it is refused."""

from holdfast_cli.dashboards.panels import Dashboard, Figure, Section, TimeGraph
from holdfast_cli.dashboards.queries import risen

_NOT_SCRAPED = "no data"
_FAILED_CALLS = 'holdfast_operator_api_calls_total{code=~"0|4..|5.."}'
_PLACED = "sum(holdfast_tasks_placed) / sum(holdfast_tasks)"

_SUMMARY = Section(
    "Does it do its work?",
    6,
    (
        Figure(
            "Leading replicas",
            "Bad: none, as starts, changes and restarts wait; apps run on. One for each release.",
            "none",
            _NOT_SCRAPED,
            "sum(holdfast_operator_leading)",
            (("red", 0), ("green", 1)),
        ),
        Figure(
            "Changes wait",
            "Bad: many seconds. 99 of 100 changes were taken up faster.",
            "s",
            "no changes",
            "histogram_quantile(0.99, sum by (le) (rate(holdfast_operator_lag_seconds_bucket[5m])))",
            (("orange", 10), ("red", 60)),
        ),
        Figure(
            "Failed looks, 1 h",
            "Bad: rising. They are repeated; the operator's log has the error.",
            "short",
            _NOT_SCRAPED,
            "round(sum(increase(holdfast_operator_failed_looks_total[1h])) or 0 * sum(holdfast_operator_leading))",
            (("orange", 1),),
        ),
        Figure(
            "Attempts, 1 h",
            "Drivers made. Bad: many that nobody caused, as apps fail again and again.",
            "none",
            _NOT_SCRAPED,
            "round(sum(increase(holdfast_operator_launches_total[1h])))",
        ),
        Figure(
            "Tasks at their state",
            "Bad: below 100 % for long. The others read their state from another place first.",
            "percentunit",
            "no tasks",
            _PLACED,
            (("orange", 0), ("transparent", 1)),
        ),
        Figure(
            "Looks",
            "Bad: none. Each app has some without any change.",
            "count:looks/s",
            _NOT_SCRAPED,
            "sum(rate(holdfast_operator_look_seconds_count[5m]))",
        ),
    ),
)
_LOOKS = Section(
    "Looks at apps",
    2,
    (
        TimeGraph(
            "How long changes wait and looks take",
            "Bad: rising. If looks are quick and changes wait, too many apps need a look at once.",
            "s",
            "No looks in this time",
            {
                "from a change to the end of its look, 99 of 100": "histogram_quantile(0.99,"
                " sum by (le) (rate(holdfast_operator_lag_seconds_bucket[5m])))",
                "a look, 99 of 100": "histogram_quantile(0.99,"
                " sum by (le) (rate(holdfast_operator_look_seconds_bucket[5m])))",
            },
        ),
        TimeGraph(
            "Which replica leads",
            "Bad: none, or a change every few minutes.",
            "none",
            "The operator is not scraped",
            {"{{pod}}": "max by (pod) (holdfast_operator_leading)"},
            "stacked",
            whole=True,
        ),
        TimeGraph(
            "Failed looks in 5 min, by error",
            "Bad: any that stays. They are repeated; the operator's log has the error.",
            "short",
            "No failed look seen in this time",
            {"{{error}}": risen("holdfast_operator_failed_looks_total", "error")},
            "stacked",
            whole=True,
        ),
        TimeGraph(
            "Looks that refused a start in 5 min, by reason",
            "Bad: any that stays. An app may not start; `holdfast explain REASON` says what to do.",
            "short",
            "No refusal seen in this time",
            {"{{reason}}": risen("holdfast_operator_refusals_total", "reason")},
            "stacked",
            whole=True,
        ),
    ),
)
_WORK = Section(
    "What it does",
    2,
    (
        TimeGraph(
            "Calls of the API server, by verb",
            "Bad: a rise without more apps.",
            "reqps",
            "The operator is not scraped",
            {"{{verb}}": "sum by (verb) (rate(holdfast_operator_api_calls_total[5m]))"},
            "stacked",
        ),
        TimeGraph(
            "Calls that failed in 5 min",
            "Bad: 403 (a right is missing), 429 and 5xx (the API server is overloaded), 0 (no answer). 404 and 409 are"
            " usual.",
            "short",
            "No failed call seen in this time",
            {"{{code}} {{verb}} {{kind}}": risen(_FAILED_CALLS, "code, verb, kind")},
            whole=True,
        ),
        TimeGraph(
            "Attempts started and tasks moved, in 5 min",
            "Bad: many that nobody caused. A moved task reads its state from another place first.",
            "short",
            "The operator is not scraped",
            {
                "attempts started": "sum(increase(holdfast_operator_launches_total[5m]))",
                "tasks moved": "sum(increase(holdfast_operator_moved_tasks_total[5m]))",
            },
            "filled",
            whole=True,
        ),
        TimeGraph(
            "Tasks where their state is",
            "Bad: below 100 % for long.",
            "percentunit",
            "No tasks",
            {"placed": _PLACED},
        ),
    ),
)
OPERATOR = Dashboard("operator", "Holdfast: operator", (), (_SUMMARY, _LOOKS, _WORK))
