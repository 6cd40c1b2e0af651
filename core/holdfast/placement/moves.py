"""Why: what an assignment changes, in the words of those who must act on it or tell a person.

Must not choose: it only compares.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.placement.affinity import by_name
from holdfast.placement.assignment import Assignment


@dataclass(frozen=True, slots=True)
class ProcessorChange:
    """What one processor gains and loses, in the order of names; false if its part stays as it is."""

    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.gained or self.lost)


@dataclass(frozen=True, slots=True)
class MovedTask:
    """A task whose state is at one location and which runs at another now."""

    task: str
    recorded: str
    now: str


@dataclass(frozen=True, slots=True)
class Locality:
    """How much of a record an assignment keeps."""

    at_location: int
    on_processor: int


def processor_changes(old: Assignment, new: Assignment) -> dict[str, ProcessorChange]:
    """Processor -> its change, for all processors of either; empty for those that need not notice."""
    return {processor: _change(old, new, processor) for processor in {**old.tasks_of, **new.tasks_of}}


def _change(old: Assignment, new: Assignment, processor: str) -> ProcessorChange:
    before, after = old.tasks_of.get(processor, ()), new.tasks_of.get(processor, ())
    had, has = set(before), set(after)
    return ProcessorChange(
        gained=tuple(task for task in after if task not in had),
        lost=tuple(task for task in before if task not in has),
    )


def moved_tasks(
    assignment: Assignment, processors: Mapping[str, str], task_location: Mapping[str, str]
) -> tuple[MovedTask, ...]:
    """Tasks that have to bring their state along, in the order of names; a task without recorded location has none."""
    places = [
        MovedTask(task, recorded, processors[processor])
        for task, processor in assignment.processor_of().items()
        if (recorded := task_location.get(task)) is not None
    ]
    return tuple(sorted((one for one in places if one.recorded != one.now), key=lambda one: by_name(one.task)))


def locality(
    assignment: Assignment,
    processors: Mapping[str, str],
    task_location: Mapping[str, str],
    task_processor: Mapping[str, str],
) -> Locality:
    """How many tasks run where their state is, and how many where they ran before."""
    ran = assignment.processor_of().items()
    return Locality(
        at_location=sum(task_location.get(task) == processors[processor] for task, processor in ran),
        on_processor=sum(task_processor.get(task) == processor for task, processor in ran),
    )
