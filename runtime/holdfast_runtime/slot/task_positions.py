"""Why: a task's state knows up to where it has read; what the checkpoint wants it to read must begin just there.

Otherwise rows would be lost or counted twice without a word. Must not read streams.
"""

from holdfast.errors import UserActionError
from holdfast_runtime.slot.batch_plan import Turn
from holdfast_runtime.state.delta import Delta
from holdfast_runtime.state.errors import parsing_state
from holdfast_runtime.state.task_store import OFFSETS, TaskStore
from holdfast_runtime.streams.records import OffsetRange


class StateOffsetsError(UserActionError):
    """State and checkpoint are not of the same history."""


def check_offsets(store: TaskStore, turn: Turn) -> None:
    """Refuse ranges that do not begin where the state ends, or where a jump was to begin."""
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
    """Refuse a delta that was computed from other ranges than the turn has: a replay would skip or repeat rows."""
    found = {key: None if value is None else int(value) for key, value in delta.tables.get(OFFSETS, ())}
    planned = {_key(wanted.partition): wanted for wanted in turn.ranges}
    for key in sorted(found.keys() | planned.keys()):
        wanted = planned.get(key)
        end = None if wanted is None else wanted.end
        # A delta holds what changed: nothing of a partition that is left where it stood, as after a jump back.
        stays = wanted is not None and key not in found and _stood(turn, wanted) == end
        if not stays and found.get(key) != end:
            message = (
                f"batch {delta.batch} of {delta.identity} is to read {key.decode()} up to offset {end}, "
                f"but what was written of it read up to {found.get(key)}: state and checkpoint are not of one history. "
                f"Put back both from the same time, or start under a new spec.runId"
            )
            raise StateOffsetsError(message)


def keep_offsets(store: TaskStore, turn: Turn) -> None:
    """Note in the state how far this turn reads."""
    store.offsets.put_many(
        [_key(wanted.partition) for wanted in turn.ranges], [b"%d" % wanted.end for wanted in turn.ranges]
    )


def _stood(turn: Turn, wanted: OffsetRange) -> int:
    """Where the partition was left by the batch before."""
    return turn.jumped.get(wanted.partition, wanted.start)


def _key(partition: object) -> bytes:
    return str(partition).encode()
