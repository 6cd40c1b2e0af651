"""Why: where each task runs. State is read where it was written, so every task that moves pays, and few may.

`assign` is the whole decision, a pure function of names. In this order: sizes differ by at most one; as many tasks as
possible stay at their location; then as many as possible on their previous processor; then names decide. It is exact in
the first three (`optimal.py` says why). Must not know pods, stores or versions.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.placement.affinity import Affinity, affinity_of
from holdfast.placement.optimal_part import SeatChoice, best_choice


class NoTasksError(UserActionError):
    """Nothing to assign."""


class NoProcessorsError(WorldChangeError):
    """Nothing to assign to."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which processor runs which tasks."""

    tasks_of: Mapping[str, tuple[str, ...]]
    """Processor -> its tasks, both in the order of names; a processor without tasks is there too."""

    def processor_of(self) -> dict[str, str]:
        """Task -> processor."""
        return {task: processor for processor, tasks in self.tasks_of.items() for task in tasks}


def assign(
    tasks: Iterable[str],
    processors: Mapping[str, str],
    task_location: Mapping[str, str],
    task_processor: Mapping[str, str],
) -> Assignment:
    """The best assignment of tasks to processors (processor -> location), given where each task was in the last run."""
    wishes = affinity_of(tasks, processors, task_location, task_processor)
    if not wishes.tasks:
        message = "there are no tasks to assign: the app reads no stream that has partitions; give a step an input"
        raise NoTasksError(message)
    if not wishes.processors:
        message = (
            f"there are no processors for {len(wishes.tasks)} tasks: no executor is up; "
            f"wait for one, or see why its pod does not start"
        )
        raise NoProcessorsError(message)
    seating = _Seating(wishes, best_choice(wishes))
    seating.keep()
    seating.fill_at_locations()
    seating.fill_anywhere()
    return seating.result()


class _Seating:
    """Puts tasks on seats, one at a time, in the order of names."""

    def __init__(self, wishes: Affinity, choice: SeatChoice) -> None:
        self.wishes = wishes
        self.following = choice.following
        self.free = {one: wishes.floor + (one in choice.extra) for one in wishes.processors}
        self.seated: dict[str, str] = {}

    def keep(self) -> None:
        """Tasks that stay on their processor."""
        for processor in self.wishes.processors:
            following = self.following.get(processor, ())
            self._seat(following, processor)
            self._seat(self.wishes.at_home[processor][: self.free[processor]], processor)

    def fill_at_locations(self) -> None:
        """Tasks that can't stay on their processor, but at their location, as far as it has seats."""
        for location, members in self.wishes.members.items():
            waiting = (task for task in self.wishes.recorded[location] if task not in self.seated)
            self._deal(waiting, members)

    def fill_anywhere(self) -> None:
        """The rest."""
        self._deal((task for task in self.wishes.tasks if task not in self.seated), self.wishes.processors)

    def result(self) -> Assignment:
        """All seats, by name."""
        parts: dict[str, list[str]] = {processor: [] for processor in self.wishes.processors}
        for task in self.wishes.tasks:
            parts[self.seated[task]].append(task)
        return Assignment({processor: tuple(tasks) for processor, tasks in parts.items()})

    def _seat(self, tasks: Iterable[str], processor: str) -> None:
        for task in tasks:
            self.seated[task] = processor
            self.free[processor] -= 1

    def _deal(self, waiting: Iterator[str], processors: tuple[str, ...]) -> None:
        """Round and round while there are seats, like cards.

        In one go per processor, the first one would get all the tasks with low numbers, which read the most streams.
        """
        while processors := tuple(one for one in processors if self.free[one]):
            for processor in processors:
                task = next(waiting, None)
                if task is None:
                    return
                self._seat((task,), processor)
