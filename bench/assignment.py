"""How long an assignment takes, how that grows, and what it keeps: three sizes, six situations; and an app that grows.

Every situation but the first and the last starts from the assignment of a first run. `at location` counts tasks whose
state stays where it can be read, `moved` those that change processor. `python bench/assignment.py`.
"""

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.placement.assignment import assign

RUNS = 5
SIZES = ((1_000, 100, 20), (10_000, 1_000, 200), (20_000, 2_000, 400))


@dataclass(frozen=True, slots=True)
class Situation:
    """What `assign` is given."""

    tasks: list[str]
    processors: Mapping[str, str]
    task_location: Mapping[str, str]
    task_processor: Mapping[str, str]


def first_run(tasks: int, processors: int, locations: int) -> Situation:
    """Nothing is recorded."""
    hosts = {f"exec-{i}": f"node-{i % locations}" for i in range(processors)}
    return Situation([f"partition-{i}" for i in range(tasks)], hosts, {}, {})


def unchanged(tasks: int, processors: int, locations: int) -> Situation:
    """Everything is where it was."""
    return _after(first_run(tasks, processors, locations))


def replaced(tasks: int, processors: int, locations: int) -> Situation:
    """Every tenth processor is gone; a new one is there instead, at any location."""
    before, pick = unchanged(tasks, processors, locations), random.Random(7)
    hosts = dict(before.processors)
    for name in pick.sample(sorted(hosts), processors // 10):
        del hosts[name]
        hosts[f"new-{name}"] = f"node-{pick.randrange(locations)}"
    return Situation(before.tasks, hosts, before.task_location, before.task_processor)


def scaled_out(tasks: int, processors: int, locations: int) -> Situation:
    """A tenth more processors."""
    before = unchanged(tasks, processors, locations)
    more = {f"exec-{processors + i}": f"node-{i % locations}" for i in range(processors // 10)}
    return Situation(before.tasks, {**before.processors, **more}, before.task_location, before.task_processor)


def shuffled(tasks: int, processors: int, locations: int) -> Situation:
    """All processors are back, but most are at other locations than before, and not evenly."""
    before, pick = unchanged(tasks, processors, locations), random.Random(7)
    hosts = {name: f"node-{pick.randrange(locations)}" for name in before.processors}
    return Situation(before.tasks, hosts, before.task_location, before.task_processor)


def random_record(tasks: int, processors: int, locations: int) -> Situation:
    """Recorded locations and processors have nothing to do with each other."""
    before, pick = first_run(tasks, processors, locations), random.Random(7)
    names = sorted(before.processors)
    places = {task: f"node-{pick.randrange(locations)}" for task in before.tasks}
    return Situation(before.tasks, before.processors, places, {task: pick.choice(names) for task in before.tasks})


def _after(run: Situation) -> Situation:
    ran = assign(run.tasks, run.processors, run.task_location, run.task_processor).processor_of()
    return Situation(run.tasks, run.processors, {task: run.processors[ran[task]] for task in run.tasks}, ran)


SITUATIONS: tuple[Callable[[int, int, int], Situation], ...] = (
    first_run,
    unchanged,
    replaced,
    scaled_out,
    shuffled,
    random_record,
)


def main() -> None:
    """Print a row per situation and size."""
    print(f"{'tasks':>7} {'processors':>11} {'locations':>10}  {'situation':<14} {'seconds':>8} {'us/task':>8}", end="")
    print(f" {'at location':>12} {'on processor':>13} {'moved':>7}")
    for tasks, processors, locations in SIZES:
        for situation in SITUATIONS:
            run = situation(tasks, processors, locations)
            seconds = []
            for _ in range(RUNS):
                started = time.perf_counter()
                result = assign(run.tasks, run.processors, run.task_location, run.task_processor)
                seconds.append(time.perf_counter() - started)
            median = statistics.median(seconds)
            ran = result.processor_of().items()
            at_location = sum(run.task_location.get(task) == run.processors[name] for task, name in ran)
            on_processor = sum(run.task_processor.get(task) == name for task, name in ran)
            print(
                f"{tasks:>7} {processors:>11} {locations:>10}  {situation.__name__:<14} {median:>8.3f} "
                f"{median / tasks * 1e6:>8.1f} {at_location:>12} "
                f"{on_processor:>13} {len(run.task_processor) - on_processor:>7}"
            )
    growth(64)


def growth(tasks: int) -> None:
    """Print what becomes of the tasks of an app whose executors double, each of them on a node of its own.

    `times as fast` is what tasks of equal work allow: all of them by the largest share of an executor.
    """
    heads = ("tasks", "executors", "largest share", "times as fast", "moved", "least possible")
    print("\n" + "".join(f"{head:>16}" for head in heads))
    places: dict[str, str] = {}
    ran: dict[str, str] = {}
    for doubled in range(tasks.bit_length()):
        hosts = {f"exec-{number}": f"node-{number}" for number in range(2**doubled)}
        names = [f"partition-{number}" for number in range(tasks)]
        processors = assign(names, hosts, places, ran).processor_of()
        largest = max(Counter(processors.values()).values())
        moved, least = (sum(ran[task] != processors[task] for task in ran), tasks // 2 if ran else 0)
        figures = (tasks, len(hosts), largest, tasks / largest, moved, least)
        print("".join(f"{figure:>16,.0f}" for figure in figures))
        ran, places = dict(processors), {task: hosts[name] for task, name in processors.items()}


if __name__ == "__main__":
    main()
