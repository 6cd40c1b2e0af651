"""The slots of a test's batch, run in this process or through Spark where that computes a part, and what they did.

Must not plan a batch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.errors import RetrySoonError
from holdfast_runtime.job import BatchTexts, Job
from holdfast_runtime.slot.batch_plan import BatchPlan
from holdfast_runtime.slot.kept_stores import KeptStores
from holdfast_runtime.slot.program import Program
from holdfast_runtime.slot.report import TaskReport, read_reports
from holdfast_runtime.slot.slot import Slot
from holdfast_runtime.slot.worker_tools import WorkerTools
from holdfast_runtime.streams.systems import Streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TRIES = 10


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What one batch did."""

    number: int
    """The number of the batch in its run, from 1."""
    now: datetime
    """The clock when the batch was planned."""
    replay: bool
    """Whether an earlier attempt had planned the batch."""
    tasks: tuple[TaskReport, ...]
    """A report for each task that took part."""

    @property
    def rows_in(self) -> int:
        """Rows read, over all tasks."""
        return sum(sum(task.rows_in.values()) for task in self.tasks)

    @property
    def rows_out(self) -> int:
        """Rows written, over all tasks and streams."""
        return sum(sum(task.rows_out.values()) for task in self.tasks)


Slots = Mapping[str, tuple[str, ...]]
"""Slot -> its tasks."""


class JobHere:
    """A job that runs all slots in this process."""

    def __init__(self, shop: WorkerTools, slots: Slots, at: Callable[[str], None], stores: KeptStores) -> None:
        self._shop, self._slots, self._at, self._stores = shop, slots, at, stores

    def run(self, batch: BatchTexts) -> list[str]:
        """Run one slot after the other, each with its part of the plan, and return their answers."""
        slots = tuple(self._slots.values())
        return [
            Slot(self._shop, BatchPlan.parse(part), number, tasks, self._at, self._stores).answer()
            for number, (tasks, part) in enumerate(zip(slots, batch.texts(slots), strict=True))
        ]

    def end(self) -> None:
        """Do nothing: slots are not processes."""


def job_of(
    program: Program,
    slots: Slots,
    spark: "SparkSession | None",
    clock: Callable[[], int],
    at: Callable[[str], None],
    stores: KeptStores,
) -> Job:
    """Return a job that runs in this process, or through Spark if that computes a part of it."""
    if not program.compiled.has_sql or spark is None:
        return JobHere(
            WorkerTools(program, Streams(program.app, program.spec, program.plan, program.environment, clock)),
            slots,
            at,
            stores,
        )
    from holdfast_runtime.spark.slot_job import SlotJob  # noqa: PLC0415 - as above
    from holdfast_runtime.stints.packed_program import PackedProgram  # noqa: PLC0415 - tests without SQL need no Spark

    return SlotJob(spark, PackedProgram.of(program), slots, dict.fromkeys(slots))


def run_slots(job: Job, plan: BatchTexts) -> tuple[TaskReport, ...]:
    """Run a batch, again where it may be tried again, and return the reports of its tasks."""
    for left in reversed(range(_TRIES)):
        try:
            return tuple(task for slot in read_reports(job.run(plan)) for task in slot.tasks)
        except RetrySoonError:
            if not left:
                raise
    return ()
