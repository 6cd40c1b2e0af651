"""Lives of apps on a real API server, with the operator in a process of its own."""

import json
from typing import Any

import pytest

from holdfast.protocol.names import ASSIGNMENT_LABEL
from tests.api.admin import APPS, CONFIG_MAPS, PODS, RefusedError
from tests.api.conftest import Site
from tests.operator.apps import TREE
from tests.waiting import wait_until


def ready(site: Site) -> str:
    """The driver of an app that runs."""
    site.until("Ready", "True", "Running")
    (driver,) = site.alive()
    return driver


def test_an_app_that_is_applied_becomes_ready(site: Site) -> None:
    with site.operator():
        site.apply()
        driver = ready(site)
        status = site.app()["status"]
        assert (status["attempt"], status["runId"], status["placed"]) == (1, "1", "4/4")
        assert driver in site.config_maps()
        site.told("Starting")


@pytest.mark.smoke
def test_executors_that_are_up_are_given_their_tasks(site: Site) -> None:
    with site.operator():
        site.apply()
        ready(site)
        wait_until(lambda: bool(assignment(site)), 30, "an assignment")
        first = assignment(site)
        executors = site.alive("executor")
        assert first["processors"] == {name: f"state-{name}" for name in executors}
        assert sorted(task for tasks in first["assignment"].values() for task in tasks) == [
            f"partition-{number}" for number in range(4)
        ]
        site.until("Assigned", "True", "Assigned")


def assignment(site: Site) -> dict[str, Any]:
    """What was handed over last."""
    assignments = [
        config_map["data"]["assignment.json"]
        for config_map in site.admin.items(CONFIG_MAPS.format(site.namespace))
        if ASSIGNMENT_LABEL in (config_map["metadata"].get("labels") or {})
    ]
    return dict(json.loads(assignments[0])) if assignments else {}


def test_a_rejected_plan_makes_no_pod_and_its_repair_runs(site: Site) -> None:
    timed = {"key": ["k"], "system": "events", "schema": "k STRING, t TIMESTAMP", "eventTime": {"column": "t"}}
    streams = [{"name": "clicks", **timed}, {"name": "views", **timed}, TREE["spec"]["streams"][1]]
    join = {"name": "j", "from": ["clicks", "views"], "join": {"by": ["k"], "within": "1m", "select": ["k"]}}
    steps = [join, {"name": "written", "from": ["j"], "to": "out"}]
    site.topics(clicks=4, views=6, out=4)
    with site.operator():
        site.apply(streams=streams, steps=steps)
        site.until("PlanValid", "False", "PartitionCountMismatch")
        assert site.pods() == []
        site.topics(clicks=4, views=4, out=4)
        ready(site)
        site.told("PartitionCountMismatch", "Starting")
        assert len(site.events()) == 2


@pytest.mark.smoke
def test_a_driver_that_fails_is_followed_by_another(site: Site) -> None:
    with site.operator():
        site.apply(restart={"backoff": {"initial": "1s"}})
        driver = ready(site)
        site.kubelet.end(driver, 1, '{"failed": "world", "message": "no broker"}')
        wait_until(lambda: site.app()["status"].get("attempt") == 2, 30, "a second attempt")
        assert ready(site) != driver
        assert site.app()["status"]["restarts"] == 1
        site.told("DriverFailed")


def test_a_deleted_driver_is_followed_by_another_at_once(site: Site) -> None:
    with site.operator():
        site.apply()
        driver = ready(site)
        site.admin.delete(f"{PODS.format(site.namespace)}/{driver}")
        wait_until(lambda: site.app()["status"].get("attempt") == 2, 30, "a second attempt")
        ready(site)


def test_suspend_drains_and_resume_goes_on(site: Site) -> None:
    with site.operator():
        site.apply()
        ready(site)
        site.apply(suspend=True)
        site.until("Ready", "False", "Suspended")
        assert site.alive() == []
        site.apply()
        ready(site)
        assert site.app()["status"]["attempt"] == 2


def test_a_changed_spec_drains_and_an_invalid_one_does_not(site: Site) -> None:
    with site.operator():
        site.apply()
        driver = ready(site)
        site.apply(runtime={"checkpoint": {"location": "s3a://bucket/ads"}, "image": "other"})
        wait_until(lambda: site.app()["status"].get("attempt") == 2, 30, "a second attempt")
        second = ready(site)
        assert second != driver
        site.apply(steps=[{"name": "written", "from": ["clicks"], "filter": "nobody > 1"}])
        site.until("PlanValid", "False", "UnknownColumn")
        assert site.alive() == [second]
        assert site.condition("DriverRunning") == ("True", "Running")


def test_a_step_renamed_and_edited_past_all_rules_is_refused(site: Site) -> None:
    def counted(name: str, value: str, **was: str) -> list[dict[str, Any]]:
        step = {"name": name, **was, "from": ["clicks"], "aggregate": {"by": ["k"], "compute": [value]}}
        return [step, {"name": "written", "from": [name], "to": "out"}]

    with site.operator():
        site.apply(steps=counted("g", "min(k) AS v"))
        driver = ready(site)
        site.apply(steps=counted("g2", "max(k) AS v", was="g"))
        site.until("StateCompatible", "False", "StateMisfit")
        status = site.app()["status"]
        assert 'spec.steps[g2].aggregate.compute was ["min(k) AS v"]' in str(status["conditions"])
        assert (site.alive(), status["attempt"]) == ([driver], 1)


def test_a_grown_topic_is_read_whole_on_the_same_record(site: Site) -> None:
    keyed = {"name": "n", "from": ["clicks"], "process": {"function": "m:f", "by": ["k"], "schema": "k STRING"}}
    runtime = {**TREE["spec"]["runtime"], "code": {"m": "def f(key, rows, state): ..."}}
    with site.operator():
        site.apply(steps=[keyed, {"name": "written", "from": ["n"], "to": "out"}], runtime=runtime)
        first = ready(site)
        site.topics(clicks=8, out=4)
        wait_until(lambda: site.app()["status"].get("attempt") == 2, 30, "a second attempt")
        assert ready(site) != first
        site.told("PartitionsGrew")
        site.topics(clicks=12, out=4)
        site.until("StateCompatible", "False", "NotAMultiple")
        (driver,) = site.alive()
        assert site.app()["status"]["attempt"] == 2
        site.topics(clicks=16, out=4)
        wait_until(lambda: site.app()["status"].get("attempt") == 3, 30, "a third attempt")
        assert ready(site) != driver


def test_deleting_drains_and_lets_go(site: Site) -> None:
    with site.operator():
        site.apply()
        ready(site)
        site.admin.delete(f"{APPS.format(site.namespace)}/ads")
        wait_until(lambda: not site.app(), 30, "the app is gone")
        assert site.alive() == []


def test_an_app_deleted_without_an_operator_goes_with_the_next(site: Site) -> None:
    with site.operator():
        site.apply()
        ready(site)
    site.admin.delete(f"{APPS.format(site.namespace)}/ads")
    assert site.app()
    with site.operator():
        wait_until(lambda: not site.app(), 30, "the app is gone")
        assert site.alive() == []


def test_a_broker_that_cannot_be_reached_is_waited_for(site: Site) -> None:
    site.unreachable()
    with site.operator():
        site.apply()
        site.until("Ready", "False", "BrokerUnreachable")
        assert site.pods() == []
        site.topics(clicks=4, out=4)
        ready(site)
        site.unreachable()
        site.apply(restart={"policy": "OnFailure"})
        wait_until(lambda: site.app()["status"]["observedGeneration"] == 2, 30, "the change is seen")
        assert site.condition("Ready") == ("True", "Running")


def test_a_completed_app_is_ready_without_a_driver(site: Site) -> None:
    with site.operator():
        site.apply()
        site.kubelet.end(ready(site), 0, '{"ended": "completed"}')
        site.until("Ready", "True", "Completed")
        assert site.alive() == []


def test_anothers_pod_of_the_same_name_is_not_taken_over(site: Site) -> None:
    with site.operator():
        site.apply()
        name = ready(site)
    site.admin.delete(f"{APPS.format(site.namespace)}/ads")
    site.admin.patch(f"{APPS.format(site.namespace)}/ads", {"metadata": {"finalizers": []}})
    wait_until(lambda: not site.app(), 30, "the app is gone")
    with site.operator():
        site.apply()
        site.until("Stalled", "True", "PreviousAttemptAlive")
        assert site.alive() == [name]
        site.admin.delete(f"{PODS.format(site.namespace)}/{name}")
        assert ready(site) != name


def test_the_api_server_refuses_names_that_leave_no_room(site: Site) -> None:
    with pytest.raises(RefusedError, match="40"):
        site.apply("a" * 41)
