"""The operator asks a real Kafka broker how many partitions topics have, and notices when they grow or it is gone."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.api.conftest import Site
from tests.kafka.broker import Broker
from tests.operator.apps import TREE
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


READS_VIEWS = {"name": "views", "system": "events", "key": ["k"], "schema": "k STRING"}
WRITES = {"name": "written", "from": ["views"], "to": "out"}


def systems(broker: Broker) -> list[dict[str, Any]]:
    return [{"name": "events", "kafka": {"bootstrapServers": broker.bootstrap}}]


def tasks(site: Site) -> Any:
    return (site.app().get("status") or {}).get("attempt"), len(site.alive())


def test_plan_and_growth_follow_a_topic_through_its_brokers_absence(site: Site, broker: Broker) -> None:
    site = replace(site, brokers=True)
    broker.create_topic("out", 2)
    with site.operator():
        site.apply(systems=systems(broker))
        site.until("PlanValid", "False", "TopicMissing")
        assert site.pods() == []
        broker.create_topic("clicks", 2)
        site.until("Ready", "True", "Running", 60)
        assert tasks(site) == (1, 1)
        broker.grow_topic("clicks", 4)
        wait_until(lambda: tasks(site) == (2, 1), 60, "the next attempt reads what has grown")
        site.until("Ready", "True", "Running", 60)
        driver = site.alive()
        broker.create_topic("views", 2)
        broker.kill()
        site.apply("late", systems=systems(broker), streams=[READS_VIEWS, TREE["spec"]["streams"][1]], steps=[WRITES])
        wait_until(lambda: site.condition("Ready", "late") == ("False", "BrokerUnreachable"), 60, "it is said")
        assert site.alive() == driver
        broker.restart()
        wait_until(lambda: site.condition("Ready", "late") == ("True", "Running"), 90, "the late app runs too")
