"""Which outputs a checkpoint can have led to, and what it remembers of the attempts that used it."""

from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.checkpoint.identity import CheckpointLife, check_outputs, take_up
from holdfast_runtime.state.durable.storage import DirectoryStorage
from holdfast_runtime.streams.markers import PlacedMarker
from holdfast_runtime.streams.records import Marker
from tests.error_codes import has_code

A, B = "a" * 16, "b" * 16


def marker(batch: int = 3, epoch: int = 2, life: str = A, task: str = "partition-0") -> PlacedMarker:
    return PlacedMarker("totals/1", Marker("totals/1", task, batch, epoch, life, "digest"))


@pytest.mark.parametrize("written", [marker(), marker(batch=1), marker(epoch=1)])
def test_batches_of_attempts_that_used_the_checkpoint_may_be_there(written: PlacedMarker) -> None:
    check_outputs([written], CheckpointLife(2, A), {"partition-0": 3})


@pytest.mark.parametrize(
    ("written", "life", "why"),
    [
        (marker(), None, "but its checkpoint is gone"),
        (marker(life=B), CheckpointLife(2, A), "planned in another checkpoint than the one that is here"),
        (marker(batch=4), CheckpointLife(2, A), "has come to batch 3: it is an older copy"),
        (marker(batch=1, task="partition-9"), CheckpointLife(2, A), "has come to batch 0: it is an older copy"),
        (marker(batch=1, epoch=3), CheckpointLife(2, A), "was last used by attempt 2: it is an older copy"),
    ],
)
def test_others_are_refused_with_what_is_there_and_the_cures(
    written: PlacedMarker, life: CheckpointLife | None, why: str
) -> None:
    with pytest.raises(
        UserActionError,
        match=rf"^totals/1 holds batch .*{why}\..*Bring back .* new spec\.runId",
        check=has_code("OutputsAheadError"),
    ):
        check_outputs([marker(batch=1, epoch=1), written], life, {"partition-0": 3})


def test_an_id_is_made_once_and_goes_with_the_checkpoint(tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path)
    assert take_up(storage, 1, [], {}, A) == A
    assert take_up(storage, 2, [], {}, B) == A
    assert storage.names() == [CheckpointLife(2, A).name]


def test_an_attempt_that_is_shut_out_takes_nothing_back(tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path)
    take_up(storage, 3, [], {}, A)
    assert take_up(storage, 2, [], {}, B) == A
    assert sorted(storage.names()) == [CheckpointLife(2, A).name, CheckpointLife(3, A).name]
    assert take_up(storage, 4, [marker(epoch=3)], {"partition-0": 3}, B) == A


def test_a_refused_attempt_leaves_no_number_and_is_refused_again(tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path)
    take_up(storage, 1, [], {}, A)
    for attempt in (2, 3, 4):
        with pytest.raises(UserActionError, check=has_code("OutputsAheadError")):
            take_up(storage, attempt, [marker(epoch=2)], {"partition-0": 3}, B)
    assert storage.names() == [CheckpointLife(1, A).name]
