"""The slots of an app as one Spark job: a Python segment, and behind it Spark SQL and Python in turn, prepared once.

In a new JVM a job takes seconds to build and to run for the first time, and so does the query to start: so it is
built, and run once with nothing to do, in a thread meanwhile (`PreparingJob`). A Spark SQL expression that fails on a
row ends the whole job; its error becomes a sentence with the step instead of Java's stack. The only place where
segments meet Spark. Must not know what they do, nor decide what becomes of a batch.
"""

import gc
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import UserActionError
from holdfast.planning.types.findings import excerpt
from holdfast.spec.steps import Step
from holdfast_runtime.clocks import now
from holdfast_runtime.job import Job, start_early
from holdfast_runtime.segments.sql import sql_segment
from holdfast_runtime.slot.batch_plan import BatchPlan
from holdfast_runtime.slot.program import Program
from holdfast_runtime.slot.slot import Slot
from holdfast_runtime.slot.worker_tools import WorkerTools
from holdfast_runtime.spark.java import java_causes
from holdfast_runtime.spark.located import LocatedJob, Segment, SlotLocation, batch_plan_text
from holdfast_runtime.streams.systems.app_streams import Streams


@cache
def _worker_tools(content: bytes) -> WorkerTools:
    """The tools for a pickled program: made once per process and program."""
    program: Program = pickle.loads(content)  # noqa: S301 - from the driver of this app
    tools = WorkerTools(program, Streams(program.app, program.spec, program.plan, program.where, now))
    # They live as long as the process: no need to look through them for garbage after every batch.
    gc.collect()
    gc.freeze()
    return tools


class PreparingJob:
    """A job that gets ready while others work."""

    def __init__(self, build: Callable[[], Job], nothing: str) -> None:
        """`nothing`: the plan of a batch that concerns no task."""
        self._ready = start_early(lambda: _prepared(build, nothing))

    def run(self, batch: str) -> list[str]:
        """Run all slots with this plan, as the job does; raises what went wrong when the job was built."""
        return self._ready().run(batch)


def _prepared(build: Callable[[], Job], nothing: str) -> Job:
    job = build()
    # What fails here fails in the first batch too, where it is explained.
    with suppress(PySparkException, Py4JError):
        job.run(nothing)
    return job


_DATA_EXCEPTION = "22"
"""The class of the SQL standard's states for values with which an expression can't be computed."""
_NOT_HERE = " If necessary set "
"""What Spark advises behind this is to turn off ANSI mode, which can't be turned off here."""


class ExpressionFailedError(UserActionError):
    """An expression of a step fails on a row."""


def sql_texts(steps: Sequence[Step]) -> Mapping[str, str]:
    """Step -> its Spark SQL, for steps that stop the app where it fails."""
    return {
        step.name: step.filter or ", ".join(step.select or ())
        for step in steps
        if (step.filter or step.select) and step.dead_letter is None
    }


def failed_expression(error: Exception, texts: Mapping[str, str]) -> ExpressionFailedError | None:
    """What an error of Spark says of the expressions in these texts; None: it is another error."""
    for cause in java_causes(error):
        if not is_instance_of(SparkContext._gateway, cause, "org.apache.spark.SparkThrowable"):  # noqa: SLF001
            continue
        if str(cause.getSqlState()).startswith(_DATA_EXCEPTION):
            fragments = [str(one.fragment()) for one in cause.getQueryContext()]
            return _explained(str(cause.getMessage()), fragments, texts)
    return None


def _explained(said: str, fragments: Sequence[str], texts: Mapping[str, str]) -> ExpressionFailedError:
    steps = [name for name, text in texts.items() if any(one in text for one in fragments)] or list(texts)
    sentence = said.partition("\n")[0].partition(" SQLSTATE")[0].partition("] ")[2].partition(_NOT_HERE)[0]
    where = f" in {excerpt(fragments[0])}" if fragments else ""
    message = (
        f"step {' or '.join(steps)}: Spark SQL fails on a row{where}: {sentence or said} Correct the expression and "
        f"run again, or put such rows aside: onError: DeadLetter of the step"
    )
    return ExpressionFailedError(message)


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

    job = LocatedJob(spark, [SlotLocation(name, places[name]) for name in slots], build)
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

    shop = _worker_tools(work.content)
    plan = BatchPlan.parse(batch_plan_text())
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - `batch_plan_text` says so better
    number = context.partitionId()
    return Slot(shop, plan, number, work.slots[number])
