"""A location names one disk: which templates are refused, by the disk that state is on."""

from typing import Any

import pytest

from holdfast.planning.plan import Plan
from holdfast.reasons import Reason
from tests.planning.apps import only, plan_of, step, stream, warned

OWN_DIRECTORY: dict[str, Any] = {}
RACK, NODE = "{node.labels.rack}", "{node.labels.rack}/{node.name}"


def mounting(path: str = "/var/lib/holdfast", **volume: Any) -> dict[str, Any]:
    """A pod template that mounts a volume where state is."""
    main = {"name": "spark-kubernetes-executor", "volumeMounts": [{"name": "disk", "mountPath": path}]}
    return {"spec": {"containers": [main], "volumes": [{"name": "disk", **volume}]}}


def changing(**volume: Any) -> dict[str, Any]:
    """A pod template that changes what the volume of state is."""
    return {"spec": {"volumes": [{"name": "state", **volume}]}}


NFS: dict[str, Any] = {"nfs": {"server": "filer", "path": "/ads"}}
CLAIM: dict[str, Any] = {"persistentVolumeClaim": {"claimName": "shared"}}
DIRECTORY: dict[str, Any] = {"hostPath": {"path": "/mnt/rack"}}


def planned(location: str, template: dict[str, Any]) -> Plan:
    """The plan of an app with this location and pod template of executors."""
    state, runtime = {"location": location}, {"executors": {"podTemplate": template}}
    return plan_of([stream("a"), stream("out")], [step("x", "a", to="out")], state=state, runtime=runtime)


@pytest.mark.parametrize(
    ("location", "template", "cure"),
    [
        (RACK, OWN_DIRECTORY, f"write {RACK}/{{node.name}}"),
        ("{node.labels.topology.kubernetes.io/zone}", OWN_DIRECTORY, "mount storage that they share"),
        ("{pod.name}", OWN_DIRECTORY, "write {pod.name}/{node.name}"),
        ("{pod.namespace}-{pod.labels.disk}", OWN_DIRECTORY, "of which each node has its own"),
        (RACK, mounting(path="/elsewhere", **NFS), "hostPath volume"),
        (RACK, mounting(), "hostPath volume"),
        (RACK, changing(**DIRECTORY), "at /var/lib/holdfast in spec.runtime.executors.podTemplate"),
        ("Node", mounting(emptyDir={}), "write Pod"),
        (NODE, mounting(emptyDir={}), f"write {NODE}/{{pod.uid}}"),
        (NODE, mounting(ephemeral={"volumeClaimTemplate": {}}), "of which each executor has its own"),
        ("Node", changing(hostPath=None, emptyDir={"medium": "Memory"}), "write Pod"),
    ],
)
def test_one_location_for_two_disks_is_refused_with_its_cure(
    location: str, template: dict[str, Any], cure: str
) -> None:
    problem = only(planned(location, template))
    assert problem.reason is Reason.LOCATION_SPLIT
    assert f"spec.state.location {location} gives several" in problem.message
    assert cure in problem.message


def test_a_node_folder_that_racks_may_share_is_a_warning() -> None:
    result = planned(RACK, mounting(**DIRECTORY))
    assert result.valid
    assert warned(result) == {Reason.LOCATION_SPLIT}
    assert "check that all nodes with one location share this folder" in result.warnings[0].message


@pytest.mark.parametrize(
    ("location", "template"),
    [
        ("Claim", OWN_DIRECTORY),
        ("Node", OWN_DIRECTORY),
        ("Pod", OWN_DIRECTORY),
        (NODE, OWN_DIRECTORY),
        ("{node.labels.kubernetes.io/hostname}", OWN_DIRECTORY),
        ("{pod.uid}", OWN_DIRECTORY),
        ("Pod", mounting(emptyDir={})),
        ("Node", mounting(**DIRECTORY)),
        (RACK, mounting(**NFS)),
        (RACK, mounting(**CLAIM)),
        ("{pod.labels.disk}", mounting(**CLAIM)),
        (RACK, changing(hostPath=None, **NFS)),
    ],
)
def test_one_location_for_one_disk_is_accepted_in_silence(location: str, template: dict[str, Any]) -> None:
    result = planned(location, template)
    assert result.valid
    assert warned(result) == set()


@pytest.mark.parametrize("broken", [{"spec": None}, {"spec": {"containers": [None, {"name": 1}], "volumes": {"a": 1}}}])
def test_a_pod_template_of_another_shape_changes_no_disk(broken: dict[str, Any]) -> None:
    assert only(planned(RACK, broken)).reason is Reason.LOCATION_SPLIT
    assert planned(NODE, broken).valid
