"""Where a topic was at a moment, on a real broker, and that a silent one is never taken for an empty topic."""

import pytest

from holdfast.errors import HoldfastError
from holdfast_runtime.streams.kafka.read.moments import offsets_since
from tests.kafka.broker import Broker
from tests.kafka.known import Known, create, settings_of

pytestmark = pytest.mark.kafka
TOPIC = "moments"


def test_the_first_record_since_a_moment_is_found(broker: Broker) -> None:
    create(broker, TOPIC, 2)
    Known(broker, TOPIC, 0).write([{"value": b"v", "timestamp": at} for at in (1_000, 2_000, 3_000)])
    settings = settings_of(broker.bootstrap)
    offsets = {moment: offsets_since(settings, TOPIC, (0, 1), moment) for moment in (0, 2_000, 2_001, 3_001)}
    assert offsets == {0: {0: 0}, 2_000: {0: 1}, 2_001: {0: 2}, 3_001: {}}


def test_no_answer_is_not_a_topic_without_such_records(broker: Broker) -> None:
    with pytest.raises(HoldfastError, match="no answer where moments-gone was at a moment"):
        offsets_since(settings_of(broker.bootstrap), "moments-gone", (0,), 1_000, timeout=3.0)
    with pytest.raises(HoldfastError, match="no answer where moments was at a moment"):
        offsets_since(settings_of("127.0.0.1:1"), TOPIC, (0,), 1_000, timeout=1.0)
