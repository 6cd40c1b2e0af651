"""What the driver knows of tasks between batches."""

from holdfast_runtime.clocks import BatchTime
from holdfast_runtime.loop.task_ledger import TaskLedger
from holdfast_runtime.slot.report import TaskReport


def test_all_tasks_are_asked_until_the_attempts_first_own_batch() -> None:
    standing = TaskLedger()
    standing.note([TaskReport("partition-0", replayed=True)], 5, replay=True)
    assert standing.seen({}, BatchTime(9)).first
    standing.note([TaskReport("partition-0"), TaskReport("partition-1")], 6, replay=False)
    standing.note([TaskReport("partition-0")], 7, replay=False)
    assert not standing.seen({}, BatchTime(9)).first


def test_a_task_of_a_replayed_turn_is_asked_at_once() -> None:
    standing = TaskLedger()
    standing.note([TaskReport("partition-0", wake=90), TaskReport("partition-1", wake=80)], 5, replay=False)
    standing.note([TaskReport("partition-0", replayed=True)], 6, replay=False)
    assert standing.wakes == {"partition-0": 6, "partition-1": 80}
    standing.note([TaskReport("partition-0"), TaskReport("partition-1", wake=95)], 7, replay=False)
    assert standing.wakes == {"partition-1": 95}


def test_ends_stay_and_sizes_follow_slowly() -> None:
    standing = TaskLedger()
    standing.note(
        [TaskReport("partition-0", ended=True, bytes_read={"clicks": 100}, read={"clicks": 10})], 5, replay=False
    )
    standing.note(
        [TaskReport("partition-0", bytes_read={"clicks": 200}, read={"clicks": 10}, state_bytes=7)], 6, replay=False
    )
    standing.note(
        [TaskReport("partition-0", state_bytes=8, bytes_read={"clicks": 0}, read={"clicks": 9})], 7, replay=False
    )
    assert (standing.ended, standing.record_bytes, standing.state_bytes) == (
        {"partition-0"},
        {"clicks": 12.0},
        {"partition-0": 8},
    )


def test_each_stream_has_records_of_its_own_size() -> None:
    standing = TaskLedger()
    read = {"images": 10, "clicks": 50_000}
    standing.note(
        [TaskReport("partition-0", bytes_read={"images": 10 << 20, "clicks": 500_000}, read=read)], 5, replay=False
    )
    assert standing.record_bytes == {"images": 1 << 20, "clicks": 10}
