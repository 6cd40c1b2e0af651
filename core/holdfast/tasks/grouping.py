"""Grouping of stream partitions into tasks: `group`, corrected by the record of the last run; and growth of streams.

A task is the unit of order and state, so every key stays with the task that holds its state. If a stream had
`previous` partitions, a new partition p goes to the task of `p % previous`, because hash(key) % current modulo previous
is hash(key) % previous if current is a multiple of previous; other growth is refused, but for streams under whose keys
no state lies. A user may set another parent (`expansion.parent`); it is evaluated on Python's syntax tree, so that only
integer arithmetic can run. A child is not read until its parent has been processed up to the end it had when the child
was first seen: otherwise rows of one key would be processed out of order. Must not know processors or locations, nor
read offsets: they are arguments.
"""

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import add, floordiv, mod, mul, sub

from holdfast.errors import UserActionError
from holdfast.reasons import Reason
from holdfast.tasks.partitions import StreamPartition, counts_of
from holdfast.tasks.record import ParentEnd, PlacementRecord

_NAMES = ("partition", "previous", "current")
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.FloorDiv: floordiv,
    ast.Div: floordiv,
    ast.Mod: mod,
}


class ParentMappingError(UserActionError):
    """An `expansion.parent` that can't be parsed or gives no valid partition."""


class ParentMapping:
    """A parsed `expansion.parent`, to be called with partition numbers."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
            _check(self._tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            message = f"expansion.parent {text!r} is not arithmetic over {', '.join(_NAMES)}: {error}"
            raise ParentMappingError(message) from error

    def __call__(self, partition: int, previous: int, current: int) -> int:
        """Return the old partition that held the keys of `partition`."""
        values = {"partition": partition, "previous": previous, "current": current}
        arguments = f"for partition {partition} (previous {previous}, current {current})"
        try:
            parent = _evaluate(self._tree, values)
        except ZeroDivisionError as error:
            message = f"expansion.parent {self.text!r} divides by zero {arguments}"
            raise ParentMappingError(message) from error
        if not 0 <= parent < previous:
            message = f"expansion.parent {self.text!r} gives {parent} {arguments}; it must be 0 to {previous - 1}"
            raise ParentMappingError(message)
        return parent


def _check(node: ast.expr) -> None:
    """Raise `ValueError` for anything `_evaluate` does not know."""
    match node:
        case ast.Constant(value=int()) | ast.Name(id="partition" | "previous" | "current"):
            return
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            _check(inner)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            _check(left)
            _check(right)
        case _:
            message = f"{ast.unparse(node)} is not allowed in it"
            raise ValueError(message)


def _evaluate(node: ast.expr, values: dict[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(operand=inner):
            return -_evaluate(inner, values)
        case ast.BinOp(left=left, op=operator, right=right):
            return _OPERATORS[type(operator)](_evaluate(left, values), _evaluate(right, values))
    message = f"unchecked {ast.dump(node)}"
    raise AssertionError(message)


DEFAULT_PARENT = "partition % previous"


@dataclass(frozen=True, slots=True)
class ExpansionRules:
    """How tasks follow the growth of a stream."""

    enabled: bool = True
    parent: str = DEFAULT_PARENT
    unknown_partitioner: frozenset[str] = frozenset()
    """Streams whose partitioner is `none`: without a custom mapping it is unknown where their keys went."""
    stateless: frozenset[str] = frozenset()
    """Streams under whose keys no state lies: they may grow by any number, wherever their keys go."""

    def mapping(self) -> ParentMapping:
        """Return the parsed `parent`; raise `ParentMappingError` if it is not arithmetic."""
        return ParentMapping(self.parent)

    @property
    def custom(self) -> bool:
        """Whether the user set a mapping, and so is responsible for it."""
        return self.parent.replace(" ", "") != DEFAULT_PARENT.replace(" ", "")


@dataclass(frozen=True, slots=True)
class ExpansionRefusal:
    """Why tasks can't follow the growth of a stream, with the numbers and what to do."""

    reason: Reason
    stream: str
    message: str


class ExpansionRefusedError(UserActionError):
    """Tasks can't follow the growth of streams; has one refusal per stream."""

    def __init__(self, refusals: tuple[ExpansionRefusal, ...]) -> None:
        self.refusals = refusals
        super().__init__("; ".join(refusal.message for refusal in refusals))


def keep_with_recorded_tasks(
    base: Mapping[StreamPartition, str],
    recorded: Mapping[str, tuple[StreamPartition, ...]],
    expansion: ExpansionRules,
) -> dict[StreamPartition, str]:
    """Return partition -> task, with every recorded partition and its children at the recorded task."""
    task_of = {partition: task for task, partitions in recorded.items() for partition in partitions}
    previous, current = counts_of(task_of), counts_of(base)
    if refusals := growth_refusals(previous, current, expansion):
        raise ExpansionRefusedError(refusals)
    parent_of = expansion.mapping()
    new_task_of, vanished, tasks = dict(base), dict[str, ExpansionRefusal](), set(base.values())
    for partition in base:
        stream, number = partition
        if stream not in previous:
            continue
        try:
            # What was there stays where it is, whatever the mapping says of it.
            new = number >= previous[stream]
            parent = _parent(partition, previous, current, expansion, parent_of) if new else number
        except ParentMappingError as error:
            vanished.setdefault(stream, ExpansionRefusal(Reason.PARTITIONER_UNKNOWN, stream, str(error)))
            continue
        task = task_of.get(StreamPartition(stream, parent))
        if task is None or task not in tasks:
            vanished.setdefault(stream, _vanished(partition, parent, task))
        else:
            new_task_of[partition] = task
    if vanished:
        raise ExpansionRefusedError(tuple(vanished.values()))
    return new_task_of


def growth_refusals(
    previous: Mapping[str, int], current: Mapping[str, int], expansion: ExpansionRules
) -> tuple[ExpansionRefusal, ...]:
    """Return for which of the streams that were there before nobody knows where their keys went."""
    streams = sorted(previous.keys() & current.keys())
    return tuple(found for name in streams if (found := _growth_refusal(name, previous, current, expansion)))


def _growth_refusal(
    stream: str, previous: Mapping[str, int], current: Mapping[str, int], expansion: ExpansionRules
) -> ExpansionRefusal | None:
    """Return why nobody knows where the keys of a stream went as it grew, or shrank; None: they stay in order."""
    before, now = previous[stream], current[stream]
    if now < before:
        message = (
            f"{stream} had {before} partitions in the last run and has {now} now; state of the missing ones would be "
            f"lost: "
            f"restore the stream, or set a new spec.runId to start with empty state"
        )
        return ExpansionRefusal(Reason.PARTITIONS_SHRANK, stream, message)
    if stream in expansion.stateless:
        return None
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


def _parent(
    child: StreamPartition,
    previous: Mapping[str, int],
    current: Mapping[str, int],
    expansion: ExpansionRules,
    parent_of: ParentMapping,
) -> int:
    """Return the old partition that held the keys of a new one; where no state lies, any if the mapping has none."""
    before = previous[child.stream]
    try:
        return parent_of(child.partition, before, current[child.stream])
    except ParentMappingError:
        if child.stream not in expansion.stateless:
            raise
        return child.partition % before


def _vanished(partition: StreamPartition, parent: int, task: str | None) -> ExpansionRefusal:
    holder = f"task {task}" if task else "a task"
    message = (
        f"{partition} belongs to {holder} of the record (it holds the keys of {partition.stream}/{parent}), but the "
        f"grouping has no such task now: keep spec.grouping as it was, or set a new spec.runId"
    )
    return ExpansionRefusal(Reason.TASK_VANISHED, partition.stream, message)


def parents_of_new(
    record: PlacementRecord, partitions: Iterable[StreamPartition], expansion: ExpansionRules
) -> dict[StreamPartition, StreamPartition]:
    """Return new partition -> the partition of the same stream that held its keys in the record."""
    return new_partitions(record.counts(), partitions, expansion)


def new_partitions(
    before: Mapping[str, int], partitions: Iterable[StreamPartition], expansion: ExpansionRules
) -> dict[StreamPartition, StreamPartition]:
    """Return the same for streams that had these counts."""
    partitions = sorted(partitions)
    now, parent_of = counts_of(partitions), expansion.mapping()
    return {
        part: StreamPartition(part.stream, _parent(part, before, now, expansion, parent_of))
        for part in partitions
        if 0 < before.get(part.stream, 0) <= part.partition
    }


def child_after(
    record: PlacementRecord, parents: Mapping[StreamPartition, StreamPartition], ends: Mapping[StreamPartition, int]
) -> dict[StreamPartition, ParentEnd]:
    """Return `child_after` of the new record: that of the last record, and for each new child the end of its parent.

    `ends` has the end offset of every parent. It must be read after the child was seen: otherwise rows could be added
    in between.
    """
    fresh = {child: ParentEnd(parent, ends[parent]) for child, parent in parents.items()}
    return {**record.child_after, **fresh}


def may_be_read(
    child: StreamPartition, after: Mapping[StreamPartition, ParentEnd], processed: Mapping[StreamPartition, int]
) -> bool:
    """Whether a partition may be read yet; `processed` has the next offset of each partition read so far."""
    first = after.get(child)
    if first is None:
        return True
    # A parent that is itself a child and has no rows is processed to its end at once, but its own parent may not be.
    return processed.get(first.parent, 0) >= first.offset and may_be_read(first.parent, after, processed)


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
    kept: Mapping[str, str] = field(default_factory=dict)
    """Stream -> its name in the run, if that is another one: tasks are called by it."""


def group(grouping: GroupingInput) -> Tasks:
    """Return task -> partitions; raise `ExpansionRefusedError` with all reasons if tasks can't follow a growth."""
    own_partitions = sorted(set(grouping.partitions) - grouping.broadcast)
    task_of = {partition: f"partition-{partition.partition}" for partition in own_partitions}
    if grouping.by_stream_partition:
        task_of = {
            partition: f"{grouping.kept.get(partition.stream, partition.stream)}-{partition.partition}"
            for partition in own_partitions
        }
    if grouping.stateful and grouping.expansion.enabled and grouping.record is not None:
        recorded = {task: _without(parts, grouping.broadcast) for task, parts in grouping.record.items()}
        task_of = keep_with_recorded_tasks(task_of, recorded, grouping.expansion)
    return _collect(task_of, sorted(grouping.broadcast & set(grouping.partitions)))


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
