"""A driver's coordinator against a real API server, with no more rights than it needs; tests play the operator."""

import itertools
from dataclasses import replace

import pytest
from kubernetes import client

from holdfast.errors import RetrySoonError
from holdfast.placement.config_map_store import ConfigMapStore
from holdfast.placement.metadata_store import VersionConflictError
from holdfast.protocol.assignment import Assignment, VersionedAssignment
from holdfast.protocol.names import assignment_name, report_name
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import ParentEnd
from holdfast_runtime.coordination.api_config_maps import ApiConfigMaps
from holdfast_runtime.coordination.cluster import ClusterCoordinator
from holdfast_runtime.coordination.coordinator import Placement, RunPlacement
from holdfast_runtime.coordination.given_up_runs import GivenUpRuns
from holdfast_runtime.coordination.reporter import SupersededError
from holdfast_runtime.progress import Progress
from holdfast_runtime.streams.generator import Pace
from tests.api.drivers import Theatre
from tests.api.plane import Plane
from tests.kafka.broker import free_ports
from tests.waiting import wait_until

TASKS = ["p-0", "p-1"]
UP = ["pod-0", "pod-1"]
GROUPING = {task: (StreamPartition("clicks", at), StreamPartition("rules", 0)) for at, task in enumerate(TASKS)}
LOCATIONS = {"pod-0": "claim-0", "pod-1": "claim-1"}
FIRST = Placement(1, LOCATIONS, Assignment({"pod-0": ("p-0",), "pod-1": ("p-1",)}))
SWAPPED = Placement(2, LOCATIONS, Assignment({"pod-0": ("p-1",), "pod-1": ("p-0",)}))
AFTER = {StreamPartition("clicks", 1): ParentEnd(StreamPartition("clicks", 0), 7)}
_NUMBERS = itertools.count()


@pytest.fixture
def theatre(plane: Plane) -> Theatre:
    return Theatre.opened(plane, "ads", f"coordinated-{next(_NUMBERS)}")


def coordinator(theatre: Theatre, attempt: int = 1, patience: float = 60.0) -> ClusterCoordinator:
    return ClusterCoordinator(theatre.attempt(attempt), theatre.maps(), patience)


def handed(placement: Placement, attempt: int = 1) -> VersionedAssignment:
    return VersionedAssignment(placement.version, attempt, placement.locations, placement.assignment)


def progress(batch: int, held_back: str | None = None) -> Progress:
    return Progress(batch, 1_000 + batch, 1, 2, 10, 10, 100, 5, 0.1, held_back=held_back)


def test_the_record_outlives_an_attempt_and_goes_with_the_app(theatre: Theatre) -> None:
    with coordinator(theatre) as first:
        assert first.owner == f"namespace {theatre.orders.namespace}"
        assert first.record() is None
        first.ran(RunPlacement(GROUPING, FIRST, AFTER))
        first.ran(RunPlacement(GROUPING, SWAPPED, AFTER))
    with coordinator(theatre, 2) as second:
        record = second.record()
        assert record is not None
        assert (record.task_processor, record.child_after) == ({"p-0": "pod-1", "p-1": "pod-0"}, AFTER)
        assert record == theatre.record()
        second.ran(RunPlacement(GROUPING, FIRST, {}))
    (owner,) = theatre.config_map("ads.record.1.head")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("StreamApp", "ads", "uid-of-app")
    assert (owner["blockOwnerDeletion"], owner.get("controller")) == (False, None)


def test_values_are_written_over_the_version_that_was_read(theatre: Theatre) -> None:
    store = ConfigMapStore(theatre.maps(), "ads", {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"})
    first = store.put("ads/x", b"\x00one", None)
    with pytest.raises(VersionConflictError):
        store.put("ads/x", b"two", None)
    second = store.put("ads/x", b"\x00second", first)
    assert second != first
    with pytest.raises(VersionConflictError):
        store.put("ads/x", b"two", first)
    stored = store.get("ads/x")
    assert stored is not None
    assert (stored.value, stored.version) == (b"\x00second", second)


def test_a_driver_may_forget_another_run_but_not_its_own(theatre: Theatre) -> None:
    with coordinator(theatre) as driver:
        driver.ran(RunPlacement(GROUPING, FIRST, AFTER))
    old_orders = replace(
        theatre.orders, run="0", report=report_name("ads", "0"), assignment=assignment_name("ads", "0")
    )
    with ClusterCoordinator(old_orders, theatre.maps()) as old:
        old.ran(RunPlacement(GROUPING, FIRST, AFTER))
        old.paces({"clock": 10}, 0)
        old.listen(progress(1))
        wait_until(lambda: bool(theatre.config_map(old_orders.report)), 10, "the old run is reported")
    forgetting = GivenUpRuns(theatre.maps(), theatre.orders)
    assert (forgetting.forget("0"), forgetting.forget("0")) == (3, 0)
    assert not theatre.config_map("ads.record.0.head")
    assert theatre.config_map("ads.record.1.head")


def test_an_assignment_for_this_attempt_applies_once_pods_are_up(theatre: Theatre) -> None:
    with coordinator(theatre, 2) as driver:
        assert driver.placement(TASKS, UP, 2) is None
        theatre.hand(handed(FIRST, attempt=1))
        assert driver.placement(TASKS, UP, 2) is None
        theatre.hand(handed(FIRST, attempt=2))
        assert driver.placement(TASKS, ["pod-0"], 2) is None
        assert driver.placement(TASKS, UP, 2) == FIRST
        assert driver.newer(FIRST, TASKS, UP) is None
        theatre.hand(handed(SWAPPED, attempt=2))
        assert driver.newer(FIRST, TASKS, ["pod-0"]) is None
        assert driver.newer(FIRST, TASKS, UP) == SWAPPED


def test_the_operator_is_waited_for_from_the_first_executor_on(theatre: Theatre) -> None:
    clock = [1_000.0]
    with ClusterCoordinator(theatre.orders, theatre.maps(), 60.0, lambda: clock[0]) as driver:
        assert driver.placement(TASKS, [], 2) is None
        clock[0] += 500
        assert driver.placement(TASKS, ["pod-0"], 2) is None
        clock[0] += 59
        assert driver.placement(TASKS, UP, 2) is None
        clock[0] += 1
        placement = driver.placement(TASKS, UP, 2)
        assert placement is not None
        assert placement.assignment == FIRST.assignment


def test_without_assignment_a_driver_assigns_itself_and_follows_later_ones(theatre: Theatre) -> None:
    with coordinator(theatre, patience=0.0) as driver:
        driver.record()
        assert driver.placement(TASKS, [], 2) is None, "without executors there is nothing to assign to"
        placement = driver.placement(TASKS, UP, 2)
        assert placement is not None
        assert (placement.version, placement.assignment) == (0, FIRST.assignment)
        theatre.hand(handed(FIRST))
        assert driver.newer(placement, TASKS, UP) == FIRST


def test_spoilt_assignments_and_a_lost_api_server_stop_no_batch(theatre: Theatre) -> None:
    path = f"/api/v1/namespaces/{theatre.orders.namespace}/configmaps"
    theatre.admin.create(path, {"metadata": {"name": theatre.orders.assignment}, "data": {"assignment.json": "{"}})
    assert coordinator(theatre, patience=0.0).placement(TASKS, UP, 2) is not None
    (port,) = free_ports(1)
    nobody = ApiConfigMaps(client.ApiClient(client.Configuration(f"http://127.0.0.1:{port}")), "apps")
    away = ClusterCoordinator(theatre.orders, nobody, 0.0)
    placement = away.placement(TASKS, UP, 2)
    assert placement is not None
    assert away.newer(placement, TASKS, UP) is None
    with pytest.raises(RetrySoonError, match="did not answer"):
        away.__enter__()


def test_a_driver_reports_its_start_its_assignment_and_its_progress(theatre: Theatre) -> None:
    with coordinator(theatre) as driver:
        assert theatre.reported(attempt=1, batch=0, progressed=None, tasks=0)
        assert theatre.config_map("ads-report")["metadata"]["labels"] == {"holdfast.dev/report": "ads"}
        driver.record()
        driver.ran(RunPlacement(GROUPING, FIRST, {}))
        driver.applied(FIRST)
        wait_until(lambda: theatre.reported(assignment=1, tasks=2, partitions=3, placed=2), 20, "what it applied")
        driver.listen(progress(7, "clicks/0 is silent " * 100))
        wait_until(lambda: theatre.reported(batch=7, progressed=1_007, lag=5), 20, "its first batch")
        assert len(str(theatre.config_map("ads-report")["data"])) < 1_000
        driver.ran(RunPlacement(GROUPING, SWAPPED, {}))
        driver.applied(SWAPPED)
        wait_until(lambda: theatre.reported(assignment=2, placed=0), 20, "that tasks moved")
        driver.listen(progress(8))
        driver.listen(progress(9))
    assert theatre.reported(batch=9, assignment=2), "the last word is written however short ago the last but one was"


def test_a_report_that_somebody_removed_or_changed_is_written_again(theatre: Theatre) -> None:
    with coordinator(theatre) as driver:
        path = f"/api/v1/namespaces/{theatre.orders.namespace}/configmaps/ads-report"
        theatre.admin.patch(path, {"data": {"report.json": "spoilt"}})
        driver.listen(progress(1))
        wait_until(lambda: theatre.reported(batch=1), 20, "it is there again")
        theatre.admin.delete(path)
        driver.applied(FIRST)
        wait_until(lambda: theatre.reported(batch=1, assignment=1), 20, "it is there again")


def test_a_replaced_driver_ends_without_spoiling_the_record(theatre: Theatre) -> None:
    with coordinator(theatre) as old:
        old.record()
        old.ran(RunPlacement(GROUPING, FIRST, {}))
        with coordinator(theatre, 2) as new:
            new.record()
            new.ran(RunPlacement(GROUPING, SWAPPED, {}))
            old.check()
            with pytest.raises(SupersededError, match="attempt 2 of ads is at work"):
                old.ran(RunPlacement(GROUPING, FIRST, {}))
            with pytest.raises(SupersededError):
                old.check()
            record = theatre.record()
            assert record is not None
            assert record.task_processor == {"p-0": "pod-1", "p-1": "pod-0"}
    assert theatre.reported(attempt=2)
    with pytest.raises(SupersededError), coordinator(theatre):
        pytest.fail("an attempt began after a later one")


def test_a_driver_that_was_replaced_ends_when_it_reports(theatre: Theatre) -> None:
    with coordinator(theatre) as old, coordinator(theatre, 2):
        old.listen(progress(3))
        wait_until(lambda: superseded(old), 20, "the old driver has seen the new one")


def superseded(driver: ClusterCoordinator) -> bool:
    try:
        driver.check()
    except SupersededError:
        return True
    return False


def test_a_newer_attempt_overwrites_what_an_older_one_recorded(theatre: Theatre) -> None:
    with coordinator(theatre) as old, coordinator(theatre, 2) as new:
        new.record()
        old.record()
        old.ran(RunPlacement(GROUPING, FIRST, {}))
        new.ran(RunPlacement(GROUPING, SWAPPED, {}))
        record = theatre.record()
        assert record is not None
        assert record.task_processor == {"p-0": "pod-1", "p-1": "pod-0"}


def test_what_a_generator_made_is_known_to_the_next_attempt(theatre: Theatre) -> None:
    with coordinator(theatre) as driver:
        assert driver.paces({}, 5) == {}
        assert driver.paces({"demo": 10}, 1_000) == {"demo": Pace(10, 1_000)}
    with coordinator(theatre, 2) as driver:
        assert driver.paces({"demo": 10}, 9_000) == {"demo": Pace(10, 1_000)}
