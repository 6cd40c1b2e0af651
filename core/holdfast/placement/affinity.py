"""The affinity of tasks: which processor and location the record names for each task, counted and sorted once.

Sorted, so that no later choice depends on the order of the input. A recorded location without processors and a
recorded processor that is gone count as none. Must not decide where tasks run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.tasks.grouping import natural


@dataclass(frozen=True, slots=True)
class Affinity:
    """Tasks, processors and the recorded locations of the tasks; every list is in the order of names."""

    tasks: tuple[str, ...]
    processors: tuple[str, ...]
    location_of: Mapping[str, str]
    """Processor -> location."""
    members: Mapping[str, tuple[str, ...]]
    """Location -> its processors."""
    recorded: Mapping[str, tuple[str, ...]]
    """Location -> tasks whose state is there; every location has an entry."""
    local_tasks: Mapping[str, tuple[str, ...]]
    """Processor -> tasks that ran on it and have their state at its location; every processor has an entry."""
    followers: Mapping[tuple[str | None, str], tuple[str, ...]]
    """(recorded location or None, processor) -> tasks that ran on it and have their state elsewhere or nowhere."""

    @property
    def floor(self) -> int:
        """The number of tasks that every processor takes."""
        return len(self.tasks) // len(self.processors)

    @property
    def extra(self) -> int:
        """How many processors take one task more."""
        return len(self.tasks) % len(self.processors)

    def beyond_floor(self, location: str) -> int:
        """How many tasks recorded here are left if each processor takes `floor` tasks; negative: how many lack."""
        return len(self.recorded[location]) - self.floor * len(self.members[location])

    def crowded(self, location: str) -> int:
        """How many processors here have more than `floor` local tasks."""
        return sum(len(self.local_tasks[processor]) > self.floor for processor in self.members[location])


def affinity_of(
    tasks: Iterable[str],
    processors: Mapping[str, str],
    task_location: Mapping[str, str],
    task_processor: Mapping[str, str],
) -> Affinity:
    """Return the affinity of these tasks, given their recorded locations and processors."""
    names = tuple(sorted(set(tasks), key=by_name))
    order = tuple(sorted(processors, key=by_name))
    members: dict[str, list[str]] = {}
    for processor in order:
        members.setdefault(processors[processor], []).append(processor)
    recorded: dict[str, list[str]] = {location: [] for location in members}
    local_tasks: dict[str, list[str]] = {processor: [] for processor in order}
    followers: dict[tuple[str | None, str], list[str]] = {}
    for task in names:
        recorded_location, ran_on = task_location.get(task), task_processor.get(task)
        location = recorded_location if recorded_location in recorded else None
        if location is not None:
            recorded[location].append(task)
        if ran_on is None or ran_on not in local_tasks:
            continue
        if location == processors[ran_on]:
            local_tasks[ran_on].append(task)
        else:
            followers.setdefault((location, ran_on), []).append(task)
    return Affinity(
        tasks=names,
        processors=order,
        location_of={processor: processors[processor] for processor in order},
        members=_frozen(members),
        recorded=_frozen(recorded),
        local_tasks=_frozen(local_tasks),
        followers={pair: tuple(wanting) for pair, wanting in followers.items()},
    )


def by_name(name: str) -> tuple[tuple[str, int], str]:
    """Sort key that puts `partition-10` after `partition-9` and keeps different names apart (`exec-1`, `exec-01`)."""
    return natural(name), name


def _frozen(lists: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(members) for name, members in lists.items()}
