"""Pure decisions on placements: whether an assignment fits, the driver's own assignment, how tasks share cores.

Must not wait, do I/O, or import Spark: tests without a JVM also assign tasks to slots.
"""

from collections.abc import Collection, Sequence
from itertools import chain

from holdfast.placement.assignment import assign
from holdfast.protocol.assignment import Assignment, VersionedAssignment
from holdfast.tasks.record import PlacementRecord
from holdfast_runtime.coordination.coordinator import Placement, RunPlacement

_SHOWN = 3


def misfit(handed: VersionedAssignment, attempt: int, tasks: Sequence[str], up: Collection[str]) -> str | None:
    """Return why an assignment can't be applied now; None if it can."""
    if handed.attempt != attempt:
        return f"it is meant for attempt {handed.attempt}"
    if sorted(chain.from_iterable(handed.assignment.tasks_of.values())) != sorted(tasks):
        return "its tasks are not those of the app, each once"
    if missing := sorted(handed.processors.keys() - up):
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        return f"{', '.join(missing[:_SHOWN])}{more} did not register with Spark yet"
    return None


def own_placement(tasks: Sequence[str], up: Collection[str], record: PlacementRecord | None) -> Placement:
    """Return the best assignment over the processors that are up.

    Each is at its last known location, or else at one of its own: a processor is a pod with a stable name, and its disk
    follows the name. If that is not so, state is restored.
    """
    if record is None:
        locations = {processor: processor for processor in up}
        return Placement(0, locations, assign(tasks, locations, {}, {}))
    known = {processor: record.task_location.get(task) for task, processor in sorted(record.task_processor.items())}
    locations = {processor: known.get(processor) or processor for processor in up}
    return Placement(0, locations, assign(tasks, locations, record.task_location, record.task_processor))


def count_in_place(before: PlacementRecord | None, what: RunPlacement) -> int:
    """Return how many tasks run where their state was, or had no state."""
    was = {} if before is None else before.task_location
    return sum(
        was.get(task) in (None, what.placement.locations[processor])
        for task, processor in what.placement.assignment.processor_of().items()
    )


def tasks_by_slot(assignment: Assignment, cores: int) -> dict[str, tuple[str, ...]]:
    """Return slot -> tasks: a processor's tasks go to its cores in turn; a core without tasks has no slot."""
    slots = {
        f"{processor}/{core}": tasks[core::cores]
        for processor, tasks in assignment.tasks_of.items()
        for core in range(cores)
    }
    return {slot: tasks for slot, tasks in slots.items() if tasks}
