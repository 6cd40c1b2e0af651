"""Why: when a stream grows, every key must stay with the task that holds its state: the correction of a grouping.

New partition p of a stream that had `previous` partitions goes to the task of `p % previous`, because hash(key) %
current modulo previous is hash(key) % previous if current is a multiple of previous. Other growth is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.errors import UserActionError
from holdfast.reasons import Reason
from holdfast.tasks.expansion import ParentMapping, ParentMappingError
from holdfast.tasks.partitions import StreamPartition, counts_of

DEFAULT_PARENT = "partition % previous"


@dataclass(frozen=True, slots=True)
class ExpansionRules:
    """How tasks follow a growth."""

    enabled: bool = True
    parent: str = DEFAULT_PARENT
    unknown_partitioner: frozenset[str] = frozenset()
    """Streams whose partitioner is `none`: without a custom mapping nobody knows where their keys went."""

    def mapping(self) -> ParentMapping:
        """`parent`, ready to be asked; raises `ParentMappingError` where it is no arithmetic."""
        return ParentMapping(self.parent)

    @property
    def custom(self) -> bool:
        """Whether the user gave a mapping of their own, and answers for it."""
        return self.parent.replace(" ", "") != DEFAULT_PARENT.replace(" ", "")


@dataclass(frozen=True, slots=True)
class ExpansionRefusal:
    """Why a growth can't be followed, with the numbers and what to do."""

    reason: Reason
    stream: str
    message: str


class ExpansionRefusedError(UserActionError):
    """Tasks can't follow; carries one refusal per stream."""

    def __init__(self, refusals: tuple[ExpansionRefusal, ...]) -> None:
        self.refusals = refusals
        super().__init__("; ".join(refusal.message for refusal in refusals))


def keep_with_recorded_tasks(
    base: Mapping[StreamPartition, str],
    recorded: Mapping[str, tuple[StreamPartition, ...]],
    expansion: ExpansionRules,
) -> dict[StreamPartition, str]:
    """Partition -> task, with every recorded partition and every child of one at its recorded task."""
    task_of = {partition: task for task, partitions in recorded.items() for partition in partitions}
    previous, current = counts_of(task_of), counts_of(base)
    shared = sorted(set(previous) & set(current))
    refusals = [refusal for stream in shared if (refusal := _refusal(stream, previous, current, expansion))]
    if refusals:
        raise ExpansionRefusedError(tuple(refusals))
    parent_of = expansion.mapping()
    kept, vanished, tasks = dict(base), dict[str, ExpansionRefusal](), set(base.values())
    for partition in base:
        stream, number = partition
        if stream not in previous:
            continue
        grown = current[stream] > previous[stream]
        try:
            parent = parent_of(number, previous[stream], current[stream]) if grown else number
        except ParentMappingError as error:
            vanished.setdefault(stream, ExpansionRefusal(Reason.PARTITIONER_UNKNOWN, stream, str(error)))
            continue
        task = task_of.get(StreamPartition(stream, parent))
        if task is None or task not in tasks:
            vanished.setdefault(stream, _vanished(partition, parent, task))
        else:
            kept[partition] = task
    if vanished:
        raise ExpansionRefusedError(tuple(vanished.values()))
    return kept


def _refusal(
    stream: str, previous: Mapping[str, int], current: Mapping[str, int], expansion: ExpansionRules
) -> ExpansionRefusal | None:
    before, now = previous[stream], current[stream]
    if now < before:
        message = (
            f"{stream} had {before} partitions in the last run and has {now} now; state of the missing ones would be "
            f"lost: "
            f"restore the stream, or set a new spec.runId to start with empty state"
        )
        return ExpansionRefusal(Reason.PARTITIONS_SHRANK, stream, message)
    if now > before and now % before and not expansion.custom:
        up = -(-now // before) * before
        message = (
            f"{stream} grew from {before} to {now} partitions, which is not a multiple, so keys changed tasks: grow "
            f"it to {up}, give expansion.parent if your partitioner follows another rule, or set a new spec.runId"
        )
        return ExpansionRefusal(Reason.NOT_A_MULTIPLE, stream, message)
    if now > before and stream in expansion.unknown_partitioner and not expansion.custom:
        message = (
            f"{stream} grew from {before} to {now} partitions, but with partitioner none nobody knows where its keys "
            f"went: "
            f"declare its partitioner, or give expansion.parent"
        )
        return ExpansionRefusal(Reason.PARTITIONER_UNKNOWN, stream, message)
    return None


def _vanished(partition: StreamPartition, parent: int, task: str | None) -> ExpansionRefusal:
    holder = f"task {task}" if task else "a task"
    message = (
        f"{partition} belongs to {holder} of the record (it holds the keys of {partition.stream}/{parent}), but the "
        f"grouping has no such task now: keep spec.grouping as it was, or set a new spec.runId"
    )
    return ExpansionRefusal(Reason.TASK_VANISHED, partition.stream, message)
