"""The assignment of tasks to processors: `assign`, and what changes from one assignment to the next.

A task that moves must restore its state elsewhere, so as few as possible may move. `assign` is the whole decision, a
pure function of names, with these aims in order: sizes differ by at most one; as many tasks as possible stay at their
location; then as many as possible on their previous processor; then names decide. The first three are exactly optimal
(`optimal` says why). Must not know pods, stores or versions.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.placement.affinity import Affinity, affinity_of, by_name
from holdfast.placement.optimal import AssignmentChoice, best_choice
from holdfast.protocol.assignment import Assignment


def assign(
    tasks: Iterable[str],
    processors: Mapping[str, str],
    task_location: Mapping[str, str],
    task_processor: Mapping[str, str],
) -> Assignment:
    """Return the best assignment of tasks to processors, given each task's recorded location and processor.

    `processors` maps each live processor to its location.
    """
    wishes = affinity_of(tasks, processors, task_location, task_processor)
    if not wishes.tasks:
        message = "there are no tasks to assign: the app reads no stream that has partitions; give a step an input"
        raise UserActionError(message, code="NoTasksError")
    if not wishes.processors:
        message = (
            f"there are no processors for {len(wishes.tasks)} tasks: no executor is up; "
            f"wait for one, or see why its pod does not start"
        )
        raise WorldChangeError(message, code="NoProcessorsError")
    builder = _AssignmentBuilder(wishes, best_choice(wishes))
    builder.keep()
    builder.fill_at_locations()
    builder.fill_anywhere()
    return builder.result()


class _AssignmentBuilder:
    """Puts tasks on processors, one at a time, in the order of names."""

    def __init__(self, wishes: Affinity, choice: AssignmentChoice) -> None:
        self.wishes = wishes
        self.following = choice.following
        self.free = {processor: wishes.floor + (processor in choice.extra) for processor in wishes.processors}
        self.processor_of: dict[str, str] = {}

    def keep(self) -> None:
        """Put the tasks that stay on their processor."""
        for processor in self.wishes.processors:
            following = self.following.get(processor, ())
            self._put(following, processor)
            self._put(self.wishes.local_tasks[processor][: self.free[processor]], processor)

    def fill_at_locations(self) -> None:
        """Put tasks that can stay at their location, though not on their processor, there as far as it has capacity."""
        for location, members in self.wishes.members.items():
            waiting = (task for task in self.wishes.recorded[location] if task not in self.processor_of)
            self._deal(waiting, members)

    def fill_anywhere(self) -> None:
        """Put the remaining tasks on all processors."""
        self._deal((task for task in self.wishes.tasks if task not in self.processor_of), self.wishes.processors)

    def result(self) -> Assignment:
        """Return the assignment, in the order of names."""
        parts: dict[str, list[str]] = {processor: [] for processor in self.wishes.processors}
        for task in self.wishes.tasks:
            parts[self.processor_of[task]].append(task)
        return Assignment({processor: tuple(tasks) for processor, tasks in parts.items()})

    def _put(self, tasks: Iterable[str], processor: str) -> None:
        for task in tasks:
            self.processor_of[task] = processor
            self.free[processor] -= 1

    def _deal(self, waiting: Iterator[str], processors: tuple[str, ...]) -> None:
        """Put waiting tasks on these processors round robin while they have free capacity.

        Filled one after the other, the first processor would get all tasks with low numbers, which read most streams.
        """
        while processors := tuple(processor for processor in processors if self.free[processor]):
            for processor in processors:
                task = next(waiting, None)
                if task is None:
                    return
                self._put((task,), processor)


@dataclass(frozen=True, slots=True)
class MovedTask:
    """A task that now runs at another location than the one its state is at."""

    task: str
    recorded: str
    now: str


def moved_tasks(
    assignment: Assignment, processors: Mapping[str, str], task_location: Mapping[str, str]
) -> tuple[MovedTask, ...]:
    """Return the tasks that leave the location of their state; a task without a recorded location has no state."""
    recorded_tasks = [
        MovedTask(task, recorded, processors[processor])
        for task, processor in assignment.processor_of().items()
        if (recorded := task_location.get(task)) is not None
    ]
    return tuple(
        sorted(
            (moved for moved in recorded_tasks if moved.recorded != moved.now), key=lambda moved: by_name(moved.task)
        )
    )
