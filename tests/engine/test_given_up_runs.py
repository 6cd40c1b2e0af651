"""What is removed of a run that is given up for good, and what stays."""

from dataclasses import replace

from holdfast.placement.config_map_store import ConfigMapStore
from holdfast.placement.record_store import RecordStore
from holdfast.protocol.attempt import AttemptOrders
from holdfast.protocol.names import assignment_name, report_name
from holdfast_runtime.coordination.coordinator import kept_paces, paces_key
from holdfast_runtime.coordination.given_up_runs import GivenUpRuns
from holdfast_runtime.coordination.reporter import owner_reference
from tests.placement.config_maps_here import ConfigMapsHere
from tests.placement.records import some

TOLD = AttemptOrders("ads", "team-a", "u-1", "2", 1, assignment_name("ads", "2"), report_name("ads", "2"))
RUNS = ("1", "2", "Run.1")


def written(maps: ConfigMapsHere, run: str, orders: AttemptOrders = TOLD) -> None:
    """What driver and operator keep of a run."""
    store = ConfigMapStore(maps, "ads", owner_reference(orders))
    RecordStore(store, "ads").save(replace(some("x"), run_id=run))
    kept_paces(store, paces_key("ads", run), {"clock": 10}, 0)
    for name in (assignment_name("ads", run), report_name("ads", run)):
        maps.create({"metadata": {"name": name, "ownerReferences": [owner_reference(orders)]}, "data": {}})


def test_all_of_a_run_goes_and_nothing_of_others() -> None:
    maps, other_maps = ConfigMapsHere(), ConfigMapsHere()
    for run in RUNS:
        written(maps, run)
    for run in ("1", "2"):
        written(other_maps, run)
    assert GivenUpRuns(maps, TOLD).forget("Run.1") == 4
    assert maps.trees.keys() == other_maps.trees.keys()
    assert GivenUpRuns(maps, TOLD).forget("Run.1") == 0


def test_report_and_assignment_of_another_app_object_stay() -> None:
    maps = ConfigMapsHere()
    written(maps, "1", replace(TOLD, uid="u-2"))
    GivenUpRuns(maps, TOLD).forget("1")
    assert {assignment_name("ads", "1"), report_name("ads", "1")} <= maps.trees.keys()


def test_a_record_changed_by_somebody_stays_and_the_rest_goes() -> None:
    maps = ConfigMapsHere()
    written(maps, "1")
    maps.edit("ads.record.1.head", data={"note": "mine"})
    assert GivenUpRuns(maps, TOLD).forget("1") == 3
    assert list(maps.trees) == ["ads.record.1.head"]
