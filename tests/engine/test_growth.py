"""Whether an app can go on with inputs that have grown: pure, no broker."""

from copy import deepcopy
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast.planning.plan import PlanningFacts, plan
from holdfast.spec.app import StreamApp
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import PlacementRecord
from holdfast_runtime.driver.attempt import Growth
from holdfast_runtime.progress import Event, GrowthRefused
from holdfast_runtime.testing import TestDriver
from holdfast_runtime.testing.stand_ins import app_of
from tests.error_codes import has_code

TREE: dict[str, Any] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "counts"},
    "spec": {
        "systems": [{"name": "events", "kafka": {"bootstrapServers": "nowhere:9"}}],
        "streams": [
            {"name": "clicks", "system": "events", "key": ["ad"], "schema": "ad STRING"},
            {"name": "counted", "system": "events", "key": ["ad"]},
        ],
        "steps": [
            {
                "name": "count",
                "from": ["clicks"],
                "process": {"function": "f:count", "by": ["ad"], "schema": "ad STRING, n BIGINT"},
            },
            {"name": "out", "from": ["count"], "to": "counted"},
        ],
        "runtime": {
            "code": {
                "f": "def count(ad, rows, state):\n"
                "    state['n'] = state.get('n', 0) + len(list(rows))\n"
                "    yield {'ad': ad, 'n': state['n']}\n"
            }
        },
    },
}


def clicks(count: int) -> list[StreamPartition]:
    return [StreamPartition("clicks", number) for number in range(count)]


def watched(app: StreamApp, events: list[Event]) -> Growth:
    """Of an app that reads two partitions."""
    planned = plan(app, PlanningFacts(topics={"clicks": 2, "counted": 2}))
    record = PlacementRecord("1", {task.name: task.inputs for task in planned.tasks}, {}, {}, {})
    return Growth(app, planned, lambda: record, events.append)


def policy(name: str) -> StreamApp:
    app = app_of(TREE)
    return app.model_copy(update={"spec": app.spec.model_copy(update={"on_partition_growth": name})})


def test_a_multiple_is_taken_and_the_same_count_changes_nothing() -> None:
    events: list[Event] = []
    growth = watched(app_of(TREE), events)
    assert not growth.taken(clicks(2))
    assert growth.taken(clicks(4))
    assert events == []


def test_what_becomes_a_multiple_is_taken_others_are_said_once() -> None:
    events: list[Event] = []
    growth = watched(app_of(TREE), events)
    assert not growth.taken(clicks(3))
    assert not growth.taken(clicks(3))
    (refused,) = events
    assert isinstance(refused, GrowthRefused)
    assert (
        "clicks has grown from 2 to 3 partitions, and the app continues with the partitions it had: NotAMultiple"
        in refused.why
    )
    assert growth.taken(clicks(4))


def repartitioned(partitions: int, **expansion: object) -> dict[str, Any]:
    """Counts words behind a repartition; where clicks go, nobody knows."""
    tree = deepcopy(TREE)
    tree["spec"]["systems"] = [{"name": "events", "log": {}}]
    clicks, _ = tree["spec"]["streams"]
    clicks |= {"partitions": partitions, "partitioner": "none"}
    tree["spec"]["streams"][1]["partitions"] = 2
    count, out = tree["spec"]["steps"]
    tree["spec"]["steps"] = [
        {"name": "by-ad", "from": ["clicks"], "repartition": {"by": ["ad"]}},
        {**count, "from": ["by-ad"]},
        out,
    ]
    return tree | {"spec": {**tree["spec"], "expansion": expansion, "planning": {"intermediatePartitions": 3}}}


@pytest.mark.parametrize("counts", [(3, 5), (4, 7), (3, 4)])
@pytest.mark.parametrize("expansion", [{}, {"parent": "partition / 2"}])
def test_a_repartitioned_source_grows_to_any_count_again_and_again(
    counts: tuple[int, ...], expansion: dict[str, object]
) -> None:
    ads = "abcdefg"
    with TestDriver(repartitioned(2, **expansion)) as driver:
        for partitions in (2, *counts):
            if partitions > 2:
                driver.grow("clicks", partitions)
            driver.feed("clicks", [{"ad": ad} for ad in ads for _ in range(partitions)])
            driver.lose_local_state()
            driver.restart()
            driver.run_until_idle()
        most = {ad: max(int(row["n"]) for row in driver.rows("counted") if row["ad"] == ad) for ad in ads}
        assert most == dict.fromkeys(ads, sum((2, *counts)))


def test_the_next_attempt_reads_a_repartitioned_source_of_any_count() -> None:
    events: list[Event] = []
    app = app_of(repartitioned(2))
    planned = plan(app, PlanningFacts(topics={"clicks": 2, "counted": 2}))
    record = PlacementRecord("1", {task.name: task.inputs for task in planned.tasks}, {}, {}, {})
    assert Growth(app, planned, lambda: record, events.append).taken(clicks(3))
    assert events == []


def test_halt_stops_the_app_with_the_cure() -> None:
    with pytest.raises(
        UserActionError,
        match=r"clicks has grown from 2 to 4 .* set spec.onPartitionGrowth",
        check=has_code("GrowthHaltedError"),
    ):
        watched(policy("Halt"), []).taken(clicks(4))


def test_an_app_on_kafka_is_tested_without_a_broker() -> None:
    with TestDriver(TREE) as driver:
        driver.feed("clicks", [{"ad": "a"}, {"ad": "a"}])
        driver.run()
        assert driver.rows("counted") == [{"ad": "a", "n": 2}]
