"""The affinity of tasks: which processor and location the record asks for, counted and sorted once.

So that no later choice sees the order of the input. A recorded location that no processor has, and a recorded
processor that is gone, ask for nothing. Must not decide.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.tasks.grouping import natural


@dataclass(frozen=True, slots=True)
class Affinity:
    """Tasks, processors and what the tasks would like; every list is in the order of names."""

    tasks: tuple[str, ...]
    processors: tuple[str, ...]
    location_of: Mapping[str, str]
    """Processor -> location."""
    members: Mapping[str, tuple[str, ...]]
    """Location -> its processors."""
    recorded: Mapping[str, tuple[str, ...]]
    """Location -> tasks whose state is there; every location has an entry."""
    at_home: Mapping[str, tuple[str, ...]]
    """Processor -> tasks that ran on it and have their state at its location; every processor has an entry."""
    followers: Mapping[tuple[str | None, str], tuple[str, ...]]
    """(recorded location or None, processor) -> tasks that ran on it and have their state elsewhere or nowhere."""

    @property
    def floor(self) -> int:
        """The seats that every processor has."""
        return len(self.tasks) // len(self.processors)

    @property
    def extra(self) -> int:
        """How many processors have one seat more."""
        return len(self.tasks) % len(self.processors)

    def beyond_floor(self, location: str) -> int:
        """How many tasks recorded here find no seat when each processor has only the floor; negative: seats left."""
        return len(self.recorded[location]) - self.floor * len(self.members[location])

    def crowded(self, location: str) -> int:
        """How many processors here have more tasks at home than the floor."""
        return sum(len(self.at_home[processor]) > self.floor for processor in self.members[location])


def affinity_of(
    tasks: Iterable[str],
    processors: Mapping[str, str],
    task_location: Mapping[str, str],
    task_processor: Mapping[str, str],
) -> Affinity:
    """Sort and count."""
    names = tuple(sorted(set(tasks), key=by_name))
    order = tuple(sorted(processors, key=by_name))
    members: dict[str, list[str]] = {}
    for processor in order:
        members.setdefault(processors[processor], []).append(processor)
    recorded: dict[str, list[str]] = {location: [] for location in members}
    at_home: dict[str, list[str]] = {processor: [] for processor in order}
    followers: dict[tuple[str | None, str], list[str]] = {}
    for task in names:
        place, ran_on = task_location.get(task), task_processor.get(task)
        location = place if place in recorded else None
        if location is not None:
            recorded[location].append(task)
        if ran_on is None or ran_on not in at_home:
            continue
        if location == processors[ran_on]:
            at_home[ran_on].append(task)
        else:
            followers.setdefault((location, ran_on), []).append(task)
    return Affinity(
        tasks=names,
        processors=order,
        location_of={processor: processors[processor] for processor in order},
        members=_frozen(members),
        recorded=_frozen(recorded),
        at_home=_frozen(at_home),
        followers={pair: tuple(wanting) for pair, wanting in followers.items()},
    )


def by_name(name: str) -> tuple[tuple[str, int], str]:
    """Sorts `partition-10` behind `partition-9`, and never takes two names for one (`exec-1`, `exec-01`)."""
    return natural(name), name


def _frozen(lists: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(members) for name, members in lists.items()}
