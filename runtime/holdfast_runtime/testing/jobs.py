"""The job of a test: runs the slots of a batch in turn in this process, or through Spark if a session is given.

Must not know what a batch is for.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.spec.app import AppSpec
from holdfast_runtime.job import Job
from holdfast_runtime.segments.graph import SQL_VERBS, SelectSchema
from holdfast_runtime.slot.batch_plan import BatchPlan
from holdfast_runtime.slot.program import Program
from holdfast_runtime.slot.slot import Slot
from holdfast_runtime.slot.worker_tools import WorkerTools
from holdfast_runtime.streams.systems import Streams
from holdfast_runtime.testing.failures import SparkNeededError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Slots = Mapping[str, tuple[str, ...]]
"""Slot -> its tasks."""


class JobHere:
    """A job that runs all slots in this process."""

    def __init__(self, shop: WorkerTools, slots: Slots, at: Callable[[str], None]) -> None:
        self._shop, self._slots, self._at = shop, slots, at

    def run(self, batch: str) -> list[str]:
        """Run one slot after the other and return their answers."""
        plan = BatchPlan.parse(batch)
        return [
            _answer(Slot(self._shop, plan, number, tasks, self._at))
            for number, tasks in enumerate(self._slots.values())
        ]


def job_of(
    program: Program,
    slots: Slots,
    spark: "SparkSession | None",
    clock: Callable[[], int],
    at: Callable[[str], None],
) -> Job:
    """Return a job that runs in this process, or through Spark if the app has SQL steps."""
    if not program.compiled.has_sql or spark is None:
        return JobHere(
            WorkerTools(program, Streams(program.app, program.spec, program.plan, program.where, clock)), slots, at
        )
    from holdfast_runtime.spark.slot_job import PackedProgram, slot_job  # noqa: PLC0415 - tests without SQL need no Spark

    return slot_job(spark, PackedProgram.of(program), slots, dict.fromkeys(slots))


def columns_of_selects(spec: AppSpec, spark: "SparkSession | None") -> SelectSchema:
    """Return what computes the columns of a `select`; raise `SparkNeededError` if SQL steps have no session."""
    if spark is not None:
        from holdfast_runtime.segments.catalyst import select_schema  # noqa: PLC0415 - as above

        return select_schema(spark)
    if steps := [f"{step.name} ({step.verb})" for step in spec.steps if step.verb in SQL_VERBS]:
        message = (
            f"Spark SQL computes {', '.join(steps)}: give the driver a session, TestDriver(app, spark=spark), as "
            'SparkSession.builder.master("local[1]").getOrCreate() makes it; apps without filter and select need none'
        )
        raise SparkNeededError(message)
    return _nobody_asks


def _nobody_asks(given: pa.Schema, _: tuple[str, ...]) -> pa.Schema:
    return given


def _answer(slot: Slot) -> str:
    (batch,) = slot.only()
    return str(batch.column("result")[0].as_py())
