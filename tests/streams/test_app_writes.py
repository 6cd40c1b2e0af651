"""What an app writes into the embedded log is there only when its batch is decided."""

from pathlib import Path

import pytest

from holdfast.planning.plan import PlanningFacts, plan
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.state.errors import CheckpointUnavailableError
from holdfast_runtime.streams.app_streams import StreamsEnvironment
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.markers import AttemptId, AttemptSlot
from holdfast_runtime.streams.records import Marker, written_batch
from holdfast_runtime.streams.systems import Streams
from tests.streams.test_many_hosts import IN_LOG, parsed


def test_nothing_is_in_the_log_before_it_is_decided(tmp_path: Path) -> None:
    app, log = parsed(IN_LOG), EmbeddedLog(tmp_path, sync=False)
    log.ensure("out", 2, now=0)
    streams = Streams(app.name, app.spec, plan(app, PlanningFacts()), StreamsEnvironment(tmp_path, {}), lambda: 0)
    partition, marker = StreamPartition("out", 1), Marker("logged/1", "a", 1, 1, "life", "digest")
    writes = {partition: [(written_batch([b"k"], [b"v"], [0]), marker)]}

    def undecided() -> None:
        raise CheckpointUnavailableError

    sender = AttemptSlot(AttemptId("logged", "1", 1), 0)
    with pytest.raises(CheckpointUnavailableError):
        streams.write(sender, writes, lambda _: None, undecided)
    assert log.bounds("out")[partition].end == 0
    streams.write(sender, writes, lambda _: None, lambda: None)
    assert log.bounds("out")[partition].end == 1
