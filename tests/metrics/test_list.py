"""What is served is what the one list of metrics says, and the other way round."""

import re
from collections.abc import Iterable

import pytest
from prometheus_client.samples import Sample

from holdfast.protocol.metrics import METRICS, MetricKind, MetricSource
from holdfast.spec.parse import parse_app
from holdfast_cli.generated import metrics_page
from holdfast_runtime.driver.metrics import MeasuredApp
from tests.metrics.served import driver_metrics, eventful_driver, eventful_operator, values
from tests.operator.apps import tree

OF_BUCKETS = frozenset({"le"})
SERVED = {MetricSource.DRIVER: eventful_driver, MetricSource.OPERATOR: eventful_operator}


def by_series(samples: Iterable[Sample]) -> dict[str, frozenset[str]]:
    return {sample.name: frozenset(sample.labels) - OF_BUCKETS for sample in samples if "_created" not in sample.name}


@pytest.mark.parametrize("source", MetricSource)
def test_all_that_is_served_is_listed_with_its_labels(source: MetricSource) -> None:
    listed = {
        series: frozenset(metric.labels)
        for metric in METRICS.values()
        if metric.source is source
        for series in metric.series
    }
    assert by_series(SERVED[source]()) == listed


def test_names_say_the_unit_and_no_label_is_of_rows() -> None:
    for metric in METRICS.values():
        assert metric.name.startswith("holdfast_")
        assert not metric.name.endswith("_total")
        if metric.kind is not MetricKind.COUNTER and metric.unit in ("seconds", "bytes"):
            assert metric.name.endswith(metric.unit)
        assert set(metric.labels) <= {
            *("namespace", "app", "run", "stream", "partition", "step", "side", "table", "phase"),
            *("reason", "ready", "error", "verb", "kind", "code"),
        }


def test_each_stream_that_is_read_has_rows_from_the_start() -> None:
    app_tree = tree()
    app_tree["spec"]["steps"] = [
        {"name": "by-k", "from": ["clicks"], "repartition": {"by": ["k"]}},
        {"name": "written", "from": ["by-k"], "to": "out"},
    ]
    measured = MeasuredApp.of(parse_app(app_tree).spec, on_cluster=True)
    rows = {name: value for name, value in values(driver_metrics(app=measured)).items() if "rows_in" in name}
    assert rows == {"holdfast_rows_in_total clicks": 0, "holdfast_rows_in_total by-k": 0}


def test_the_page_has_each_metric_by_its_name() -> None:
    assert set(re.findall(r"^\| `(\w+)", metrics_page(), re.MULTILINE)) == {
        metric.family for metric in METRICS.values()
    }
