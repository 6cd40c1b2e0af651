"""What a task's state knows of its outputs: the last batch that it has written to each partition of the embedded log.

A partition that was put back from an older copy holds markers of the right history, and would pass for one to which the
task had nothing to write since; its newer rows would be missing without a word. A partition without any marker of the
task is another matter: somebody has removed it, and what comes is written. Must not read or write streams.
"""

from collections.abc import Callable, Iterable

from holdfast.tasks.partitions import StreamPartition, parse_partition
from holdfast_runtime.state.errors import parsing_state
from holdfast_runtime.state.task_store import OUTPUTS, TaskStore
from holdfast_runtime.streams.markers import outputs_behind
from holdfast_runtime.streams.records import Marker


def keep_outputs(store: TaskStore, turn: int, partitions: Iterable[str]) -> None:
    """Note that this turn writes to these partitions."""
    keys = [partition.encode() for partition in partitions]
    store.table(OUTPUTS).put_many(keys, [b"%d" % turn] * len(keys))


def check_outputs(store: TaskStore, marker: Callable[[StreamPartition], Marker | None]) -> None:
    """Refuse partitions that hold less than the task has written there; `marker`: the task's last in a partition."""
    for key, value in store.table(OUTPUTS).scan():
        with parsing_state(f"what {store.place.identity} has written"):
            partition, turn = parse_partition(key.decode()), int(value)
        there = marker(partition)
        if there is not None and there.batch < turn:
            raise outputs_behind(str(partition), there, turn)
