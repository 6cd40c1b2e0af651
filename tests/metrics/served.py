"""All metrics of a driver and of an operator that have seen everything that they count."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from holdfast.errors import RetrySoonError
from holdfast.protocol.metrics import OF_AN_APP
from holdfast.protocol.report import REPORT_KEY, DriverReport
from holdfast.trees import Tree
from holdfast_operator.observe.cache import WatchCache
from holdfast_operator.service.monitoring import Metrics
from holdfast_runtime.driver.metrics import MeasuredApp, RunMetrics
from holdfast_runtime.progress import BatchWaiting, BufferedRows, ClockJumped, Progress
from tests.cli.run_events import AT, FIRST, STARTED

MEASURED = MeasuredApp(frozenset({"bad"}), {"clicks": 10_000}, 1 << 40)
EVENTFUL: Progress = replace(
    FIRST,
    streams={"attributed": 900, "bad": 2},
    failed={"paid": 4},
    late={"first": 7},
    expired={"attributed": 1},
    unkeyed={"owners": 1},
    misplaced={"clicks": 2},
    buffered={"matched.left": BufferedRows(5, 100, AT)},
    loading={"owners": 12},
    incomplete=("owners",),
)


def driver_metrics(*events: Progress, app: MeasuredApp = MEASURED, at: int = AT) -> RunMetrics:
    """Return the metrics of a driver after these batches, seen at this time."""
    metrics = RunMetrics(app, lambda: at)
    metrics.note(STARTED)
    for event in events:
        metrics.note(event)
    return metrics


def eventful_driver() -> Iterable[Sample]:
    """All samples of a driver that has counted everything."""
    metrics = driver_metrics(EVENTFUL)
    metrics.note(BatchWaiting("the broker is away"))
    metrics.note(ClockJumped("by an hour"))
    return samples(metrics)


def samples(metrics: RunMetrics) -> list[Sample]:
    """Return what is scraped of a driver."""
    return [sample for family in metrics.collect() for sample in family.samples]


def values(metrics: RunMetrics) -> Mapping[str, float]:
    """Return the same by name and what labels say beside app and run."""
    return {
        " ".join(
            [sample.name, *(value for name, value in sample.labels.items() if name not in OF_AN_APP)]
        ): sample.value
        for sample in samples(metrics)
    }


def app_object(alerts: object) -> Tree:
    """Return an app as the API server has it, restarted three times."""
    return {
        "metadata": {"namespace": "apps", "name": "ads", "uid": "u", "resourceVersion": "5"},
        "spec": {"alerts": alerts},
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "DriverSilent"}], "restarts": 3},
    }


def operator_text() -> str:
    """All that an operator serves that has counted everything."""
    metrics, cache = Metrics(), WatchCache()
    metrics.watch(cache, lambda: 2)
    metrics.leads(lambda: math.inf)
    metrics.called("list", "Pod", 200)
    metrics.looked(0.2, 0.3)
    metrics.failed(RetrySoonError("no answer"))
    metrics.refused("TopicMissing")
    cache.saw_app(app_object({"maxLag": "5m", "deadLetters": 0}))
    report = {"metadata": {"namespace": "apps", "name": "ads"}, "data": {REPORT_KEY: DriverReport(1, 1).text()}}
    cache.saw_report(report, deleted=False)
    return metrics.text().decode()


def eventful_operator() -> list[Sample]:
    """All samples of that operator."""
    return [sample for family in text_string_to_metric_families(operator_text()) for sample in family.samples]
