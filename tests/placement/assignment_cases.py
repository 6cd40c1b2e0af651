"""What `assign` is given in tests: drawn at random, or made from the assignment of the run before."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from holdfast.placement.assignment import assign
from holdfast.protocol.assignment import Assignment


@dataclass(frozen=True, slots=True)
class Locality:
    """How many tasks an assignment keeps where the record has them."""

    at_location: int
    on_processor: int


def locality(
    assignment: Assignment,
    processors: Mapping[str, str],
    task_location: Mapping[str, str],
    task_processor: Mapping[str, str],
) -> Locality:
    """Return how many tasks run at the location of their state, and how many on their previous processor."""
    ran = assignment.processor_of().items()
    return Locality(
        at_location=sum(task_location.get(task) == processors[processor] for task, processor in ran),
        on_processor=sum(task_processor.get(task) == processor for task, processor in ran),
    )


@dataclass(frozen=True, slots=True)
class ProcessorChange:
    """The tasks that one processor gains and loses, in the order of names; false if there are none."""

    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.gained or self.lost)


def processor_changes(old: Assignment, new: Assignment) -> dict[str, ProcessorChange]:
    """Return processor -> change for all processors of both assignments; the change is empty if its tasks are equal."""
    return {processor: _change(old, new, processor) for processor in {**old.tasks_of, **new.tasks_of}}


def _change(old: Assignment, new: Assignment, processor: str) -> ProcessorChange:
    before, after = old.tasks_of.get(processor, ()), new.tasks_of.get(processor, ())
    had, has = set(before), set(after)
    return ProcessorChange(
        gained=tuple(task for task in after if task not in had),
        lost=tuple(task for task in before if task not in has),
    )


@dataclass(frozen=True)
class Given:
    tasks: list[str]
    processors: Mapping[str, str]
    task_location: Mapping[str, str]
    ran_on: Mapping[str, str]

    def assigned(self) -> Assignment:
        return assign(self.tasks, self.processors, self.task_location, self.ran_on)

    def score(self, assignment: Assignment) -> tuple[int, int]:
        keeps = locality(assignment, self.processors, self.task_location, self.ran_on)
        return keeps.at_location, keeps.on_processor

    def then(self, processors: Mapping[str, str]) -> "Given":
        """The next run: everything ran as assigned, and these processors are there now."""
        ran_on = self.assigned().processor_of()
        return Given(self.tasks, processors, {task: self.processors[name] for task, name in ran_on.items()}, ran_on)

    def shuffled(self, pick: random.Random) -> "Given":
        return Given(
            pick.sample(self.tasks, len(self.tasks)),
            _shuffled(self.processors, pick),
            _shuffled(self.task_location, pick),
            _shuffled(self.ran_on, pick),
        )


def _shuffled(names: Mapping[str, str], pick: random.Random) -> dict[str, str]:
    return dict(pick.sample(sorted(names.items()), len(names)))


@st.composite
def givens(draw: st.DrawFn, tasks: int = 6, processors: int = 4, locations: int = 3) -> Given:
    """Anything: records that fit, that contradict themselves, and that name what is gone."""
    order = [f"t-{i}" for i in range(draw(st.integers(1, tasks)))]
    location = st.sampled_from([f"L{i}" for i in range(locations)])
    location_of = {f"p-{i}": draw(location) for i in range(draw(st.integers(1, processors)))}
    names = st.sampled_from([*location_of, "gone"])
    ran_on = {task: name for task in order if (name := draw(st.none() | names)) is not None}
    task_location = {}
    for task in order:
        somewhere = st.none() | location | st.just("gone")
        own_location = st.just(location_of.get(ran_on.get(task, "gone")))
        if (recorded := draw(somewhere | own_location)) is not None:
            task_location[task] = recorded
    return Given(order, location_of, task_location, ran_on)


@st.composite
def first_runs(draw: st.DrawFn, tasks: int = 40, processors: int = 8, locations: int = 4) -> Given:
    """Processors on locations, and nothing recorded yet."""
    location_of = {f"p-{i}": f"L{draw(st.integers(1, locations))}" for i in range(draw(st.integers(1, processors)))}
    return Given([f"t-{i}" for i in range(draw(st.integers(1, tasks)))], location_of, {}, {})


def any_given(seed: int, tasks: int, processors: int, locations: int) -> Given:
    """A larger one, uneven in all it has: some locations and processors are asked for far more than others."""
    pick = random.Random(seed)  # noqa: S311 - the same cases at each run
    skew = pick.choice([1, 2, 4])
    location_of = {f"p-{i}": f"L{int(pick.random() ** skew * locations)}" for i in range(processors)}
    order, names = [f"t-{i}" for i in range(tasks)], [*location_of, "gone"]
    ran_on = {t: names[int(pick.random() ** skew * len(names))] for t in order if pick.random() < 0.9}
    true = pick.random()
    task_location = {
        t: location_of[ran_on[t]]
        if ran_on.get(t) in location_of and pick.random() < true
        else f"L{int(pick.random() ** skew * (locations + 1))}"
        for t in order
        if pick.random() < 0.9
    }
    return Given(order, location_of, task_location, ran_on)
