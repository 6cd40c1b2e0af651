"""What is done for brokers and lag tools beside batches, also when brokers come and go."""

import pytest

from holdfast.errors import HoldfastError
from holdfast_runtime.streams.kafka.admin.housekeeping import TopicHousekeeping
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError
from tests.kafka.broker import Broker
from tests.kafka.sent import settings_of
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka


def works(tidying: TopicHousekeeping, offset: int) -> bool:
    try:
        tidying.publish("readers", {("rows", 0): offset})
        tidying.delete({("rows", 0): 0})
    except HoldfastError:
        return False
    return True


def test_brokers_missing_while_offsets_are_published_end_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    # librdkafka ends it when an administrator's question about a group is not answered in time.
    monkeypatch.setattr("holdfast_runtime.streams.kafka.admin.housekeeping._PATIENCE", 2.0)
    with Broker() as broker:
        broker.create_topic("rows", 1)
        tidying = TopicHousekeeping(settings_of(broker.bootstrap))
        wait_until(lambda: works(tidying, 1), 30, "it is done")
        broker.kill()
        for offset in (2, 3):
            with pytest.raises(KafkaBusyError, match="consumer group readers"):
                tidying.publish("readers", {("rows", 0): offset})
            with pytest.raises(KafkaBusyError):
                tidying.delete({("rows", 0): offset})
        broker.restart()
        wait_until(lambda: works(tidying, 4), 60, "it is done again")
        tidying.close()
