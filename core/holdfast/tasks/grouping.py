"""Grouping of stream partitions into tasks: `group`, corrected by the record of the last run where the app has state.

A task is the unit of order and state, so the partitions of a task must not change by accident. Must not know about
processors or locations.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.tasks.expansion import ExpansionRules, keep_with_recorded_tasks
from holdfast.tasks.partitions import StreamPartition

Tasks = dict[str, tuple[StreamPartition, ...]]
"""Task -> its stream partitions, sorted; tasks in natural order."""


@dataclass(frozen=True, slots=True)
class GroupingInput:
    """The arguments of a grouping."""

    partitions: tuple[StreamPartition, ...]
    """All partitions that are read now."""
    broadcast: frozenset[StreamPartition] = frozenset()
    """Partitions that every task reads."""
    by_stream_partition: bool = False
    stateful: bool = False
    expansion: ExpansionRules = field(default_factory=ExpansionRules)
    record: Mapping[str, tuple[StreamPartition, ...]] | None = None
    """Task -> partitions in the placement record; None without one."""


def group(given: GroupingInput) -> Tasks:
    """Return task -> partitions; raise `ExpansionRefusedError` with all reasons if tasks can't follow a growth."""
    own = sorted(set(given.partitions) - given.broadcast)
    name = _stream_partition_task if given.by_stream_partition else _partition_task
    task_of = {partition: name(partition) for partition in own}
    if given.stateful and given.expansion.enabled and given.record is not None:
        recorded = {task: _without(parts, given.broadcast) for task, parts in given.record.items()}
        task_of = keep_with_recorded_tasks(task_of, recorded, given.expansion)
    return _collect(task_of, sorted(given.broadcast & set(given.partitions)))


def _partition_task(partition: StreamPartition) -> str:
    return f"partition-{partition.partition}"


def _stream_partition_task(partition: StreamPartition) -> str:
    return f"{partition.stream}-{partition.partition}"


def _without(
    partitions: Iterable[StreamPartition], broadcast: frozenset[StreamPartition]
) -> tuple[StreamPartition, ...]:
    return tuple(partition for partition in partitions if partition not in broadcast)


def _collect(task_of: Mapping[StreamPartition, str], broadcast: list[StreamPartition]) -> Tasks:
    tasks: dict[str, list[StreamPartition]] = {}
    for partition, task in task_of.items():
        tasks.setdefault(task, []).append(partition)
    if not tasks and broadcast:
        tasks["partition-0"] = []  # an app that reads only broadcast streams still needs a task
    return {task: tuple(sorted([*tasks[task], *broadcast])) for task in sorted(tasks, key=natural)}


def natural(task: str) -> tuple[str, int]:
    """Sort key that puts `partition-10` after `partition-9`."""
    stem, _, number = task.rpartition("-")
    return (stem, int(number)) if number.isascii() and number.isdigit() else (task, -1)
