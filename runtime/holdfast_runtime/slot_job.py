"""Why: slots as a Spark job: a Python segment, and behind it Spark SQL and Python in turn, prepared once.

The only place where segments meet Spark. Must not know what they do.
"""

import pickle
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast_runtime.batch_plan import BatchPlan
from holdfast_runtime.located import LocatedJob, Segment, batch_plan
from holdfast_runtime.located import Slot as Place
from holdfast_runtime.program import Program
from holdfast_runtime.segments.sql import sql_segment
from holdfast_runtime.slot import Slot
from holdfast_runtime.workshop import workshop_of

_RESULT = "result STRING"


def slot_job(spark: SparkSession, program: Program, places: Mapping[str, str | None]) -> LocatedJob:
    """The job for an assignment: slot -> where it should run."""
    content = pickle.dumps(program, protocol=5)

    def build(frame: DataFrame) -> DataFrame:
        compiled = program.compiled
        if not compiled.has_sql:
            return frame.mapInArrow(_only(content), _RESULT)
        frame = frame.mapInArrow(_first(content), compiled.layout(0).spark_schema)
        for level in range(1, compiled.last):
            if level % 2:
                frame = sql_segment(frame, compiled, level)
            else:
                frame = frame.mapInArrow(_between(content, level), compiled.layout(level).spark_schema)
        return frame.mapInArrow(_last(content), _RESULT)

    return LocatedJob(spark, [Place(name, at) for name, at in places.items()], build)


def _only(content: bytes) -> Segment:
    def segment(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _drain(batches)
        yield from _slot(content).only()

    return segment


def _first(content: bytes) -> Segment:
    def segment(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _drain(batches)
        yield from _slot(content).first()

    return segment


def _between(content: bytes, level: int) -> Segment:
    def segment(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _slot(content).between(level, batches)

    return segment


def _last(content: bytes) -> Segment:
    def segment(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _slot(content).last(batches)

    return segment


def _drain(batches: Iterator[pa.RecordBatch]) -> None:
    """The one row that makes Spark run the slot says nothing that its number does not."""
    for _ in batches:
        pass


def _slot(content: bytes) -> Slot:
    """The slot this Spark task is: they are numbered in the order of the program."""
    from pyspark import TaskContext  # noqa: PLC0415 - only inside a Spark task

    shop = workshop_of(content)
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - `batch_plan` says so better
    tasks = list(shop.program.slots.values())[context.partitionId()]
    plan = BatchPlan.parse(batch_plan())
    return Slot(shop, plan, tasks)
