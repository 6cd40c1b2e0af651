"""The placement record of a run: task -> stream partitions, location, processor; kept state; and its JSON.

Drivers keep this JSON in a metadata store, and `holdfast plan --record` reads it from a file. Must not read files or
stores.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdfast.errors import UserActionError
from holdfast.spec.kept_state import KeptState
from holdfast.spec.kept_streams import StreamNames
from holdfast.tasks.partitions import PartitionNameError, StreamPartition, parse_partition

_FIELDS = (
    "runId",
    "grouping",
    "taskLocation",
    "taskProcessor",
    "childAfter",
    "sideCounts",
    "state",
    "givenUp",
    "madeBy",
)


class RecordInvalidError(UserActionError):
    """An invalid placement record; nothing of it is used."""


@dataclass(frozen=True, slots=True)
class ParentEnd:
    """How far a parent partition must have been processed before its child may be read."""

    parent: StreamPartition
    offset: int
    """The parent's end offset at the moment the child was first seen: the next offset its producers would have used."""


@dataclass(frozen=True, slots=True)
class PlacementRecord:
    """The placement record of one run."""

    run_id: str
    grouping: Mapping[str, tuple[StreamPartition, ...]]
    task_location: Mapping[str, str]
    task_processor: Mapping[str, str]
    child_after: Mapping[StreamPartition, ParentEnd] = field(default_factory=dict)
    """Child partition -> how much of its parent comes first, so that rows of one key stay in order."""
    side_counts: Mapping[str, int] = field(default_factory=dict)
    """Stream that no task reads (side input of a Broadcast table, output, intermediate without a reader) -> number of
    its partitions."""
    state: KeptState = field(default_factory=KeptState)
    """The state that the steps keep, by name; empty if the release that wrote the record did not store it."""

    def called(self, names: StreamNames) -> "PlacementRecord":
        """Return the record with the names that streams have now; what the state was made by keeps those of the run."""

        def of(part: StreamPartition) -> StreamPartition:
            return part._replace(stream=names.called.get(part.stream, part.stream))

        return replace(
            self,
            grouping={task: tuple(sorted(map(of, parts))) for task, parts in self.grouping.items()},
            child_after={of(child): replace(end, parent=of(end.parent)) for child, end in self.child_after.items()},
            side_counts={names.called.get(stream, stream): count for stream, count in self.side_counts.items()},
        )

    def built_for(self) -> dict[str, int]:
        """Return stream -> the count its tasks were built for: the number of tasks that read it, also after growth."""
        tasks: dict[str, int] = {}
        for partitions in self.grouping.values():
            for stream in {partition.stream for partition in partitions}:
                tasks[stream] = tasks.get(stream, 0) + 1
        return tasks

    def counts(self) -> dict[str, int]:
        """Return stream -> number of its partitions in the record."""
        counts: dict[str, int] = {}
        for partition in {partition for partitions in self.grouping.values() for partition in partitions}:
            counts[partition.stream] = counts.get(partition.stream, 0) + 1
        return counts


def parse_record(tree: object) -> PlacementRecord:
    """Return the record in this JSON tree; raise `RecordInvalidError` naming the first invalid field."""
    fields = _mapping(tree, "the record")
    unknown = sorted(set(fields) - set(_FIELDS))
    if unknown:
        message = f"the record has no field {unknown[0]}; it has {', '.join(_FIELDS)}"
        raise RecordInvalidError(message)
    run_id = fields.get("runId")
    if not isinstance(run_id, str):
        message = f'runId of the record must be text, e.g. "1"; found {run_id!r}'
        raise RecordInvalidError(message)
    grouping = _mapping(fields.get("grouping"), "grouping")
    children = _mapping(fields.get("childAfter", {}), "childAfter")
    record = PlacementRecord(
        run_id=run_id,
        grouping={task: _partitions(task, names) for task, names in grouping.items()},
        task_location=_texts(fields.get("taskLocation", {}), "taskLocation"),
        task_processor=_texts(fields.get("taskProcessor", {}), "taskProcessor"),
        child_after=dict(_child_and_end(child, end) for child, end in children.items()),
        side_counts=_counts(fields.get("sideCounts", {}), "sideCounts"),
        state=_state(fields),
    )
    check_record(record)
    return record


def check_record(record: PlacementRecord) -> None:
    """Raise `RecordInvalidError` if partitions are in several tasks, or the order of parent and child is none."""
    _refuse_doubles(record.grouping)
    for stream, count in record.side_counts.items():
        if count < 1:
            message = f"sideCounts.{stream} must be a whole number, 1 or more; found {count}"
            raise RecordInvalidError(message)
    for child, end in record.child_after.items():
        if end.offset < 0:
            message = f"childAfter.{child}.offset must be a whole number, 0 or more; found {end.offset!r}"
            raise RecordInvalidError(message)
        if end.parent.stream != child.stream or end.parent == child:
            message = f"childAfter.{child}.parent must be another partition of {child.stream}; found {end.parent}"
            raise RecordInvalidError(message)


def record_tree(record: PlacementRecord) -> dict[str, object]:
    """Return the JSON tree that `parse_record` reads, without empty optional fields."""
    tree: dict[str, object] = {
        "runId": record.run_id,
        "grouping": {task: [str(partition) for partition in parts] for task, parts in record.grouping.items()},
        "taskLocation": dict(record.task_location),
        "taskProcessor": dict(record.task_processor),
    }
    if record.child_after:
        tree["childAfter"] = {
            str(child): {"parent": str(end.parent), "offset": end.offset} for child, end in record.child_after.items()
        }
    if record.side_counts:
        tree["sideCounts"] = dict(record.side_counts)
    if record.state.now:
        tree["state"] = dict(record.state.now)
    if record.state.given_up:
        tree["givenUp"] = sorted(record.state.given_up)
    if record.state.made_by:
        tree["madeBy"] = {path: dict(made) for path, made in record.state.made_by.items()}
    return tree


def _state(fields: dict[str, object]) -> KeptState:
    given_up = fields.get("givenUp", [])
    if not isinstance(given_up, list) or not all(isinstance(name, str) for name in given_up):
        message = f"givenUp must be a list of names; found {given_up!r}"
        raise RecordInvalidError(message)
    made_by = _mapping(fields.get("madeBy", {}), "madeBy")
    return KeptState(
        _texts(fields.get("state", {}), "state"),
        frozenset(given_up),
        {path: _texts(made, f"madeBy.{path}") for path, made in made_by.items()},
    )


def _mapping(tree: object, name: str) -> dict[str, object]:
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        message = f"{name} must be an object; found {type(tree).__name__}"
        raise RecordInvalidError(message)
    return tree


def _partitions(task: str, names: object) -> tuple[StreamPartition, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        message = f"grouping.{task} must be a list of stream partitions such as clicks/0; found {names!r}"
        raise RecordInvalidError(message)
    try:
        return tuple(sorted(parse_partition(name) for name in names))
    except PartitionNameError as error:
        message = f"grouping.{task}: {error}"
        raise RecordInvalidError(message) from error


def _refuse_doubles(grouping: Mapping[str, tuple[StreamPartition, ...]]) -> None:
    """Refuse a partition in several tasks, which would share state, unless all tasks read the stream (broadcast)."""
    tasks_of: dict[StreamPartition, list[str]] = {}
    for task, partitions in grouping.items():
        for partition in dict.fromkeys(partitions):
            tasks_of.setdefault(partition, []).append(task)
    partly = {partition.stream for partition, tasks in tasks_of.items() if len(tasks) < len(grouping)}
    for partition, tasks in sorted(tasks_of.items()):
        if len(tasks) > 1 and partition.stream in partly:
            message = f"grouping has {partition} in {tasks[0]} and in {tasks[1]}; a partition belongs to one task"
            raise RecordInvalidError(message)


def _texts(tree: object, name: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for key, value in _mapping(tree, name).items():
        if not isinstance(value, str):
            message = f"{name}.{key} must be text; found {value!r}"
            raise RecordInvalidError(message)
        texts[key] = value
    return texts


def _counts(tree: object, name: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for key, value in _mapping(tree, name).items():
        if not isinstance(value, int) or isinstance(value, bool):
            message = f"{name}.{key} must be a whole number, 1 or more; found {value!r}"
            raise RecordInvalidError(message)
        counts[key] = value
    return counts


def _child_and_end(name: str, tree: object) -> tuple[StreamPartition, ParentEnd]:
    field_name = f"childAfter.{name}"
    end = _mapping(tree, field_name)
    if set(end) != {"parent", "offset"}:
        message = (
            f"{field_name} must have parent and offset and nothing else; found {', '.join(sorted(end)) or 'neither'}"
        )
        raise RecordInvalidError(message)
    parent_name, offset = end["parent"], end["offset"]
    if not isinstance(parent_name, str):
        message = f"{field_name}.parent must name a stream partition such as clicks/0; found {parent_name!r}"
        raise RecordInvalidError(message)
    if not isinstance(offset, int) or isinstance(offset, bool):
        message = f"{field_name}.offset must be a whole number, 0 or more; found {offset!r}"
        raise RecordInvalidError(message)
    try:
        child, parent = parse_partition(name), parse_partition(parent_name)
    except PartitionNameError as error:
        message = f"{field_name}: {error}"
        raise RecordInvalidError(message) from error
    return child, ParentEnd(parent, offset)
