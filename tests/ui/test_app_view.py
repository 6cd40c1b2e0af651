"""One app as the page gets it."""

from holdfast.protocol.names import attempt_name
from holdfast.times import stamp
from holdfast_cli.cluster.app import APPS, CONFIG_MAPS, EVENTS, PODS, Missing, read_app
from holdfast_cli.cluster.pod_logs import attempts_in
from holdfast_cli.ui.app_view import app_view
from tests.cli.status_objects import NOW, report
from tests.ui.clusters import STALLED, FakeCluster, Tree, assignment, event, pod, pods_of_attempt, whole_app

KILLED = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": stamp(NOW - 900_000)}}

FAILED: Tree = {"phase": "Failed", "containerStatuses": [{"name": "driver", "state": KILLED}]}


def view(cluster: FakeCluster) -> Tree:
    """What the page gets of `ads`."""
    return app_view(read_app(cluster, "apps", "ads", events=50), attempts_in(cluster.find(PODS, "apps", {})))


def test_a_reason_is_explained_and_the_worst_condition_first() -> None:
    tree = view(FakeCluster((APPS, whole_app(verdicts=STALLED))))
    assert tree["standing"] == "stalled"
    assert [row["type"] for row in tree["conditions"]][:2] == ["Stalled", "Ready"]
    assert [row["good"] for row in tree["conditions"]] == [False, False] + [True] * 7
    assert tree["explanation"]["reason"] == "CheckpointMissing"
    assert [advice["title"] for advice in tree["explanation"]["advice"]][-2:] == ["Look", "Do"]
    assert tree["conditions"][1]["meaning"] == tree["explanation"]["sentence"]


def test_a_reason_of_another_release_has_no_explanation() -> None:
    tree = view(FakeCluster((APPS, whole_app(verdicts={"Ready": ("False", "FromLater", "news")}))))
    assert tree["explanation"] is None
    assert tree["conditions"][0]["meaning"] is None


def test_places_are_in_the_order_of_their_names() -> None:
    cluster = FakeCluster((APPS, whole_app()), (CONFIG_MAPS, assignment(tasks=24, executors=12)))
    rows = view(cluster)["assignment"]["processors"]
    assert [row["location"].rpartition("-")[2] for row in rows] == [str(at) for at in range(12)]
    assert rows[11]["tasks"] == ["partition-11", "partition-23"]


def test_pods_of_the_newest_attempt_come_first() -> None:
    cluster = FakeCluster((APPS, whole_app()))
    cluster.add(PODS, pod(attempt_name("ads", "1", 1), "driver", 1, **FAILED), *pods_of_attempt(1))
    cluster.objects[-2][1]["metadata"]["creationTimestamp"] = stamp(NOW)
    pods = view(cluster)["pods"]
    assert [(row["label"], row["attempt"], row["note"]) for row in pods] == [
        ("driver", 2, ""),
        ("0", 2, ""),
        ("driver", 1, "ended with 137, OOMKilled"),
    ]
    assert (pods[0]["node"], pods[0]["phase"], pods[0]["log"]) == ("node-a", "Running", True)


def test_failures_are_ended_containers_and_warnings_the_latest_first() -> None:
    cluster = FakeCluster((APPS, whole_app()))
    cluster.add(PODS, pod(attempt_name("ads", "1", 1), "driver", 1, **FAILED))
    cluster.add(EVENTS, event("Starting", "attempt 2 starts"), event("DriverFailed", "no broker", "Warning"))
    tree = view(cluster)
    assert [(row["what"], row["text"]) for row in tree["failures"]] == [
        ("DriverFailed", "no broker"),
        ("driver of attempt 1", "ended with 137, OOMKilled"),
    ]
    assert tree["failures"][1]["at"] == NOW - 900_000
    assert [row["reason"] for row in tree["events"]] == ["DriverFailed", "Starting"]


def test_what_can_not_be_read_says_why() -> None:
    cluster = FakeCluster((APPS, whole_app()), (CONFIG_MAPS, report(attempt=1)))
    tree = app_view(read_app(cluster, "apps", "ads"), Missing("you may not list pods"))
    assert (tree["pods"], tree["missing"]["pods"]) == (None, "you may not list pods")
    assert tree["report"] is None
    assert tree["missing"]["report"] == "attempt 2 has not reported yet, only attempt 1 has"
    assert tree["missing"]["assignment"] == "no assignment has been handed to its driver"
