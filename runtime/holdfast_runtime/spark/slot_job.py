"""Why: slots as a Spark job: a Python segment, and behind it Spark SQL and Python in turn, prepared once.

The only place where segments meet Spark. Must not know what they do.
"""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast_runtime.segments.sql import sql_segment
from holdfast_runtime.slot.batch_plan import BatchPlan
from holdfast_runtime.slot.program import Program
from holdfast_runtime.slot.slot import Slot
from holdfast_runtime.slot.worker_tools import worker_tools_of
from holdfast_runtime.spark.failed_expression import failed_expression, sql_texts
from holdfast_runtime.spark.located import LocatedJob, Segment, batch_plan_text
from holdfast_runtime.spark.located import SlotLocation as Place

_RESULT = "result STRING"


@dataclass(frozen=True, slots=True)
class PackedProgram:
    """A program as workers get it: the same bytes in all jobs, so that tasks that move find a worker's tools ready."""

    program: Program
    content: bytes

    @classmethod
    def of(cls, program: Program) -> "PackedProgram":
        """Of this program."""
        return cls(program, pickle.dumps(program, protocol=5))


@dataclass(frozen=True, slots=True)
class _Work:
    """What the processes of a job are told."""

    content: bytes
    """The program."""
    slots: Sequence[tuple[str, ...]]
    """The tasks of each slot, in the order of the job."""


class SlotJob:
    """The slots of an app, run batch by batch."""

    def __init__(self, job: LocatedJob, texts: Mapping[str, str]) -> None:
        self._job, self._texts = job, texts

    def run(self, batch: str) -> list[str]:
        """Run all slots with this plan of the batch; what each answers. Raises what Spark SQL fails on by its step."""
        try:
            return self._job.run(batch)
        except (PySparkException, Py4JError) as error:
            if (known := failed_expression(error, self._texts)) is not None:
                raise known from error
            raise


def slot_job(
    spark: SparkSession,
    packed: PackedProgram,
    slots: Mapping[str, tuple[str, ...]],
    places: Mapping[str, str | None],
) -> SlotJob:
    """The job for an assignment: slot -> its tasks, and where it should run."""
    work = _Work(packed.content, tuple(slots.values()))

    def build(frame: DataFrame) -> DataFrame:
        compiled = packed.program.compiled
        if not compiled.has_sql:
            return frame.mapInArrow(_only(work), _RESULT)
        frame = frame.mapInArrow(_first(work), compiled.layout(0).spark_schema)
        for level in range(1, compiled.last):
            if level % 2:
                frame = sql_segment(frame, compiled, level)
            else:
                frame = frame.mapInArrow(_between(work, level), compiled.layout(level).spark_schema)
        return frame.mapInArrow(_last(work), _RESULT)

    job = LocatedJob(spark, [Place(name, places[name]) for name in slots], build)
    return SlotJob(job, sql_texts(packed.program.spec.steps))


def _only(work: _Work) -> Segment:
    def segment(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _drain(batches)
        yield from _slot(work).only()

    return segment


def _first(work: _Work) -> Segment:
    def segment(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _drain(batches)
        yield from _slot(work).first()

    return segment


def _between(work: _Work, level: int) -> Segment:
    def segment(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _slot(work).between(level, batches)

    return segment


def _last(work: _Work) -> Segment:
    def segment(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _slot(work).last(batches)

    return segment


def _drain(batches: Iterator[pa.RecordBatch]) -> None:
    """The one row that makes Spark run the slot says nothing that its number does not."""
    for _ in batches:
        pass


def _slot(work: _Work) -> Slot:
    """The slot this Spark task is: they are numbered in the order of the job."""
    from pyspark import TaskContext  # noqa: PLC0415 - only inside a Spark task

    shop = worker_tools_of(work.content)
    plan = BatchPlan.parse(batch_plan_text())
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - `batch_plan_text` says so better
    number = context.partitionId()
    return Slot(shop, plan, number, work.slots[number])
