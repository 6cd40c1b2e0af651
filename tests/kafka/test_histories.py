"""Checkpoints of other times than what is in the topics: what was written is never taken for what is to be written."""

import json
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from holdfast.errors import UserActionError
from holdfast.spec.app import StreamApp
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.streams.kafka.client.connection import QUIET
from holdfast_runtime.testing import TestDriver
from holdfast_runtime.testing import driver as driver_module
from tests.engine import totals
from tests.error_codes import has_code
from tests.kafka.broker import Broker
from tests.kafka.reached import ANSWER_TIMEOUT
from tests.kafka.sent import seen

pytestmark = pytest.mark.kafka


@dataclass(frozen=True)
class Totals:
    """The app of tests/engine/totals.py on a broker."""

    broker: Broker
    home: Path
    name: str

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def checkpoint(self) -> Path:
        return DataDir(self.data).app(self.name).run("1").checkpoint

    def runs(self, *fed: int) -> None:
        """A run over what is there and these orders."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap}, logger=QUIET)
        for order in totals.orders(*fed):
            producer.produce(f"{self.name}-orders", json.dumps(order), order["customer"])
        assert producer.flush(60) == 0
        tree = totals.app(topic=f"{self.name}-orders", partitions=1)
        tree["metadata"]["name"] = self.name
        tree["spec"]["systems"] = [{"name": "shop", "kafka": {"bootstrapServers": self.broker.bootstrap}}]
        for stream in tree["spec"]["streams"][1:]:
            stream |= {"topic": f"{self.name}-{stream['name']}", "partitions": 1}
        with TestDriver(tree, self.data) as driver:
            driver.run_until_idle()

    def loses_topics(self, *names: str, between: str = "-") -> None:
        with self.broker.admin() as admin:
            deletions = admin.delete_topics([f"{self.name}{between}{name}" for name in names], operation_timeout=30)
            for deleted in deletions.values():
                deleted.result(ANSWER_TIMEOUT)

    def written(self) -> list[int]:
        """The orders whose rows are in the output."""
        return sorted(json.loads(value)["n"] for value in seen(self.broker, f"{self.name}-totals"))


@pytest.fixture
def app(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Totals:
    def on_its_broker(app: StreamApp) -> StreamApp:
        return app

    monkeypatch.setattr(driver_module, "offline", on_its_broker)
    made = Totals(broker, tmp_path, f"totals-{uuid.uuid4().hex[:8]}")
    broker.create_topic(f"{made.name}-orders", 1)
    return made


def test_a_checkpoint_one_batch_behind_its_topics_is_refused(app: Totals) -> None:
    app.runs(*range(10))
    shutil.copytree(app.checkpoint, app.home / "older")
    app.runs(*range(10, 20))
    app.checkpoint.rename(app.home / "newer")
    shutil.copytree(app.home / "older", app.checkpoint)
    shutil.rmtree(app.checkpoint.parent / "state")
    message = r"holds batch 2 of .* has come to batch 1: it is an older copy\..*Bring back the checkpoint"
    for fed in (range(20, 30), ()):
        with pytest.raises(UserActionError, match=message, check=has_code("OutputsAheadError")):
            app.runs(*fed)
    shutil.rmtree(app.checkpoint)
    (app.home / "newer").rename(app.checkpoint)
    app.runs()
    assert app.written() == list(range(30))


def test_without_its_data_an_app_is_refused_until_outputs_go(app: Totals) -> None:
    app.runs(*range(5))
    shutil.rmtree(app.data)
    for fed in (range(5, 10), ()):
        with pytest.raises(
            UserActionError,
            match=r"holds batch 1 of .* but its checkpoint is gone\..*new spec.runId",
            check=has_code("OutputsAheadError"),
        ):
            app.runs(*fed)
    assert app.written() == list(range(5))
    app.loses_topics("totals", "unreadable")
    app.loses_topics("holdfast", between=".")
    app.runs()
    assert app.written() == list(range(10))


def test_removed_topics_do_not_stop_an_app_with_its_checkpoint(app: Totals) -> None:
    app.runs(*range(10))
    app.loses_topics("totals")
    app.runs(*range(10, 20))
    assert app.written() == list(range(10, 20))
