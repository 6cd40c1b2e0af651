"""What `bench/cluster` decides by itself; the figures are made on a cluster."""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from bench.cluster.holdfast_app import CODE
from bench.cluster.measures import WHATS, Asked, Taken
from bench.cluster.newest import BLOB, MARK, Rows, key_in
from bench.cluster.report import merged, table
from bench.cluster.stock import account, deployment, executor_template, settings
from bench.cluster.subject import BLOB_BYTES
from holdfast_runtime.streams.record_keys import place
from tests.kind.installed import LOST_AFTER

_ASKED = Asked(state_mb=200, restarts=20, seed=8)


def test_doubled_rows_are_counted_and_marks_are_no_newer_rows() -> None:
    rows = Rows()
    for number in (1, 4, MARK, 2, 4, MARK):
        rows.take(json.dumps({"id": number}).encode())
    assert (rows.newest, rows.doubles, rows.plain, rows.marks) == (4, 2, {1, 2, 4}, {MARK})


@pytest.mark.parametrize("partition", range(4))
def test_a_mark_has_a_key_that_belongs_into_its_partition(partition: int) -> None:
    assert place(pa.array([key_in(partition, 4).encode()]), 4)[0] == partition


@pytest.fixture
def number() -> Any:
    """The function that runs on the cluster."""
    namespace: dict[str, Any] = {}
    exec(CODE, namespace)  # noqa: S102 - ours
    return namespace["number"]


def test_rows_are_numbered_and_keys_that_fill_state_write_nothing(number: Any) -> None:
    state: dict[str, Any] = {}
    rows = [{"id": 3, "stamp": "a"}, {"id": 5, "stamp": "b"}]
    assert [row["nth"] for row in number("key-1", iter(rows), state)] == [1, 2]
    assert list(number("key-1", iter(rows[:1]), state)) == [{"id": 3, "k": "key-1", "nth": 3, "stamp": "a"}]

    filled: dict[str, Any] = {}
    assert list(number(f"key-{BLOB}7", iter(rows), filled)) == []
    assert len(filled["blob"]) == BLOB_BYTES


def _pods() -> Iterator[dict[str, Any]]:
    yield deployment("team", "runtime:1", {})["spec"]["template"]["spec"]
    yield executor_template()["spec"]


def test_stock_pods_are_restricted_and_leave_lost_nodes_like_ours() -> None:
    for spec in _pods():
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert {one["tolerationSeconds"] for one in spec["tolerations"]} == {LOST_AFTER}
        (container,) = spec["containers"]
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_a_stock_driver_has_every_setting_and_an_early_successor() -> None:
    made = deployment("team", "runtime:1", {"rows": "a topic"})
    (container,) = made["spec"]["template"]["spec"]["containers"]
    words = container["args"]
    conf = [setting for flag, setting in pairwise(words) if flag == "--conf"]
    assert conf == [f"{name}={value}" for name, value in settings("team", "runtime:1").items()]
    assert json.loads(words[-1]) == {"rows": "a topic"}
    # A StatefulSet would wait for a pod on a lost node for ever.
    assert made["kind"] == "Deployment"
    (bound,) = account("team")[-1]["subjects"]
    assert bound["name"] == made["spec"]["template"]["spec"]["serviceAccountName"]


def test_a_table_has_medians_all_runs_and_what_was_noted() -> None:
    measurements = {"Holdfast": [Taken(9.0), Taken(12.04), Taken(10.0)], "stock Spark": [Taken(30, {"doubled": "5"})]}
    lines = table("node", "power off", measurements, _ASKED).splitlines()
    assert f"after {LOST_AFTER} s" in lines[1]
    assert lines[3].split() == ["Holdfast", "10.0", "9.0", "12.0", "10.0"]
    assert lines[-1].strip() == "doubled: 5"


def test_locality_is_told_as_sums_over_all_restarts() -> None:
    kinds = ("driver", "executor", "driver")
    restarts = [Taken(5, {"killed": kind, "tasks": "5", "back": "5", "restored": "0"}) for kind in kinds]
    text = table("locality", "restarts", {"Holdfast": restarts}, _ASKED)
    assert "15 of 15 tasks on the node they were on, 0 restored" in text
    assert "killed driver: 2 times, median 5.0 s" in text


def test_the_file_keeps_figures_that_were_not_taken_again() -> None:
    before = merged({}, "apply", {"Holdfast": [Taken(9)], "stock Spark": [Taken(8)]}, "first")
    after = merged(before, "apply", {"Holdfast": [Taken(7), Taken(8)]}, "second")
    assert after["apply"]["Holdfast"]["seconds"] == [7, 8]
    assert after["apply"]["Holdfast"]["median"] == 7.5
    assert after["apply"]["stock Spark"] == before["apply"]["stock Spark"]


def test_figures_are_ours_first_with_those_of_stock_spark_beside() -> None:
    for name, what in WHATS.items():
        ways = list(what.ways)
        assert ways[0].startswith("Holdfast"), name
        assert (ways[-1] == "stock Spark") == (name != "locality")
