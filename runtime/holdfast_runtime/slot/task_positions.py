"""Positions in a task's state: how far it has read its inputs, and its last batch in each output of the embedded log.

The ranges of a batch must begin exactly where the state ends: otherwise rows would silently be lost or counted twice. A
partition of the embedded log that was restored from an older copy looks like one to which the task has written nothing
since, so it is refused. A partition without any marker of the task was removed by somebody, and is written to. Must not
read or write streams.
"""

from collections.abc import Callable, Iterable

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition, parse_partition
from holdfast_runtime.slot.batch_plan import Turn
from holdfast_runtime.state.delta import Delta
from holdfast_runtime.state.errors import parsing_state
from holdfast_runtime.state.task_store import OFFSETS, OUTPUTS, TaskStore
from holdfast_runtime.streams.markers import outputs_behind
from holdfast_runtime.streams.records import Marker, OffsetRange


class StateOffsetsError(UserActionError):
    """State and checkpoint do not belong to the same history."""


def check_offsets(store: TaskStore, turn: Turn) -> None:
    """Refuse ranges that do not begin where the state ends, or a jump that does not start there."""
    keys = [_key(wanted.partition) for wanted in turn.ranges]
    with parsing_state(f"how far {store.place.identity} has read"):
        offsets = [None if stored is None else int(stored) for stored in store.offsets.get_many(keys)]
    for wanted, stored in zip(turn.ranges, offsets, strict=True):
        begins = _stood(turn, wanted)
        if stored is not None and stored != begins:
            message = (
                f"the state of {store.place.identity} has read {wanted.partition} up to offset {stored}, but the "
                f"checkpoint wants it to go on at {begins}: they are not of one history. Put back state and "
                f"checkpoint from the same time, or start under a new spec.runId"
            )
            raise StateOffsetsError(message)


def check_delta(delta: Delta, turn: Turn) -> None:
    """Refuse a delta that was computed from other ranges than the turn's: a replay would skip or repeat rows."""
    found = {key: None if value is None else int(value) for key, value in delta.tables.get(OFFSETS, ())}
    planned = {_key(wanted.partition): wanted for wanted in turn.ranges}
    for key in sorted(found.keys() | planned.keys()):
        wanted = planned.get(key)
        end = None if wanted is None else wanted.end
        # A delta holds only changes: it has no entry for a partition whose position stays, as after a jump back.
        stays = wanted is not None and key not in found and _stood(turn, wanted) == end
        if not stays and found.get(key) != end:
            message = (
                f"batch {delta.batch} of {delta.identity} is to read {key.decode()} up to offset {end}, "
                f"but what was written of it read up to {found.get(key)}: state and checkpoint are not of one history. "
                f"Put back both from the same time, or start under a new spec.runId"
            )
            raise StateOffsetsError(message)


def keep_offsets(store: TaskStore, turn: Turn) -> None:
    """Store in the state how far this turn reads."""
    store.offsets.put_many(
        [_key(wanted.partition) for wanted in turn.ranges], [b"%d" % wanted.end for wanted in turn.ranges]
    )


def _stood(turn: Turn, wanted: OffsetRange) -> int:
    """Return the partition's position after the batch before."""
    return turn.jumped.get(wanted.partition, wanted.start)


def _key(partition: object) -> bytes:
    return str(partition).encode()


def keep_outputs(store: TaskStore, turn: int, partitions: Iterable[str]) -> None:
    """Store in the state that this turn writes to these partitions."""
    keys = [partition.encode() for partition in partitions]
    store.table(OUTPUTS).put_many(keys, [b"%d" % turn] * len(keys))


def check_outputs(store: TaskStore, marker: Callable[[StreamPartition], Marker | None]) -> None:
    """Refuse partitions that lack batches of the task; `marker` returns the task's last marker in a partition."""
    for key, value in store.table(OUTPUTS).scan():
        with parsing_state(f"what {store.place.identity} has written"):
            partition, turn = parse_partition(key.decode()), int(value)
        there = marker(partition)
        if there is not None and there.batch < turn:
            raise outputs_behind(str(partition), there, turn)
