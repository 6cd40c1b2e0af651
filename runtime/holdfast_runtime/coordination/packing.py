"""Why: how the tasks of a processor share its cores. Must not import Spark: tests without a JVM pack tasks too."""

from holdfast.placement.assignment import Assignment


def tasks_by_slot(assignment: Assignment, cores: int) -> dict[str, tuple[str, ...]]:
    """Slot -> tasks: those of a processor are dealt to its cores in turn; a core without any has no slot."""
    slots = {
        f"{processor}/{core}": tasks[core::cores]
        for processor, tasks in assignment.tasks_of.items()
        for core in range(cores)
    }
    return {slot: tasks for slot, tasks in slots.items() if tasks}
