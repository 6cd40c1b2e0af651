"""Which refusals of a position are about its leader epoch: a client reports all of them by one code."""

import pytest

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.kafka.read.position_check import FirstAnswer, refused_epochs

A = StreamPartition("a", 0)
TAKEN, REFUSED = FirstAnswer(accepted=True, offset=5), FirstAnswer(accepted=False, offset=-1)


@pytest.mark.parametrize(
    ("with_epoch", "without", "refused"),
    [(TAKEN, None, False), (REFUSED, TAKEN, True), (REFUSED, REFUSED, False), (REFUSED, None, False)],
    ids=["taken", "only without its epoch", "out of range, whatever the epoch", "not asked"],
)
def test_a_position_taken_without_its_epoch_is_refused_for_it(
    with_epoch: FirstAnswer, without: FirstAnswer | None, refused: bool
) -> None:
    partitions = refused_epochs({A: with_epoch}, {} if without is None else {A: without})
    assert partitions == ({A} if refused else set())
