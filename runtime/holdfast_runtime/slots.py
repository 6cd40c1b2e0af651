"""Why: from an assignment to slots: one Spark task for each core of each processor, carrying its share of tasks.

Must not decide which processor a task goes to: that is `assign`.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from holdfast.errors import WorldChangeError
from holdfast.placement.assignment import Assignment
from holdfast_runtime.located import executors
from holdfast_runtime.packing import packed

_DEADLINE = 120.0
_LOOK_EVERY = 0.1
_HERE = "local"
"""The one processor, and its location, where all runs in the driver."""


class ExecutorsMissingError(WorldChangeError):
    """The executors that were asked for did not come up."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots with their tasks and places."""

    tasks: Mapping[str, tuple[str, ...]]
    """Slot -> its tasks."""
    places: Mapping[str, str | None]
    """Slot -> where it should run, as Spark names it."""
    processors: Mapping[str, str]
    """Processor -> location."""
    assignment: Assignment


def slots_of(spark: SparkSession, master: str, assign: Callable[[Mapping[str, str]], Assignment]) -> Slots:
    """The slots for the processors that are up."""
    wanted, cores = _shape(master)
    found = _waited_for(spark, wanted) if wanted else {_HERE: None}
    # One host, one disk: whatever the executor, state is where it was.
    processors = dict.fromkeys(found, _HERE)
    assignment = assign(processors)
    tasks = packed(assignment, cores)
    places = {slot: found[slot.rpartition("/")[0]] for slot in tasks}
    return Slots(tasks, places, processors, assignment)


def _shape(master: str) -> tuple[int, int]:
    """How many executors (none: all runs in the driver) of how many cores."""
    cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]", master)
    if cluster is not None:
        return int(cluster[1]), int(cluster[2])
    local = re.fullmatch(r"local\[(\d+)\]", master)
    return 0, 1 if local is None else int(local[1])


def _waited_for(spark: SparkSession, wanted: int) -> dict[str, str | None]:
    deadline = time.monotonic() + _DEADLINE
    while len(found := executors(spark)) < wanted:
        if time.monotonic() > deadline:
            message = f"{len(found)} of {wanted} executors came up in {_DEADLINE:.0f} s; see Spark's log for the others"
            raise ExecutorsMissingError(message)
        time.sleep(_LOOK_EVERY)
    return dict(found)
