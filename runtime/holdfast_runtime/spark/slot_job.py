"""The slots of an app as one prepared Spark job: a Python segment, followed by Spark SQL and Python segments in turn.

In a new JVM a job takes seconds to build and run for the first time, and the query takes seconds to start. So the job
is built, and run once with nothing to do, in a thread meanwhile (`PreparingJob`). A Spark SQL expression that fails on
a row ends the whole job; the error then names the step instead of showing Java's stack. Only this module joins
segments to Spark. Must not know what segments do, nor decide what becomes of a batch.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.errors import UserActionError
from holdfast.planning.problems import excerpt
from holdfast.spec.verbs import SQL_VERBS
from holdfast_runtime.job import BatchTexts, Job, JobFailedError, start_early
from holdfast_runtime.segments.graph import CompiledGraph
from holdfast_runtime.segments.sql import sql_segment
from holdfast_runtime.slot.batch_plan import BatchPlan
from holdfast_runtime.slot.slot import Batches, Slot
from holdfast_runtime.spark.located import LocatedJob, Segment, SlotLocation, batch_plan_text
from holdfast_runtime.spark.session import java_causes
from holdfast_runtime.stints.packed_program import PackedProgram, worker_tools


class PreparingJob:
    """A job that is built and warmed up in a thread."""

    def __init__(self, build: Callable[[], Job], nothing: BatchTexts) -> None:
        """`nothing`: the plan of a batch without tasks."""
        self._ready = start_early(lambda: _prepared(build, nothing))

    def run(self, batch: BatchTexts) -> list[str]:
        """Wait for the job and run it with this plan; raise what went wrong while it was built."""
        return self._ready().run(batch)

    def end(self) -> None:
        """Wait for the job and end it."""
        with suppress(Exception):
            self._ready().end()


def _prepared(build: Callable[[], Job], nothing: BatchTexts) -> Job:
    job = build()
    # An error here comes again in the first batch, where it is explained.
    with suppress(PySparkException, Py4JError, JobFailedError):
        job.run(nothing)
    return job


_DATA_EXCEPTION = "22"
"""The SQLSTATE class of data exceptions: values with which an expression can't be computed."""
_NOT_HERE = " If necessary set "
"""Here begins Spark's advice to turn off ANSI mode, which is fixed in Holdfast."""


def sql_texts(compiled: CompiledGraph) -> Mapping[str, str]:
    """Return step -> its Spark SQL, for steps that stop the app when an expression fails; an aggregate has several."""
    texts: dict[str, list[str]] = {}
    for node in compiled.nodes:
        step = node.step
        if node.verb in SQL_VERBS and step is not None and step.dead_letter is None:
            texts.setdefault(step.name, []).append(step.filter or ", ".join(step.select or ()))
    return {name: ", ".join(parts) for name, parts in texts.items()}


def failed_expression(error: Exception, texts: Mapping[str, str]) -> UserActionError | None:
    """Return the error that names the failed expression among these texts; None if Spark failed for another reason."""
    for cause in java_causes(error):
        if not is_instance_of(SparkContext._gateway, cause, "org.apache.spark.SparkThrowable"):  # noqa: SLF001
            continue
        if str(cause.getSqlState()).startswith(_DATA_EXCEPTION):
            fragments = [str(context.fragment()) for context in cause.getQueryContext()]
            return _explained(str(cause.getMessage()), fragments, texts)
    return None


def _explained(cause: str, fragments: Sequence[str], texts: Mapping[str, str]) -> UserActionError:
    steps = [name for name, text in texts.items() if any(fragment in text for fragment in fragments)] or list(texts)
    sentence = cause.partition("\n")[0].partition(" SQLSTATE")[0].partition("] ")[2].partition(_NOT_HERE)[0]
    expression = f" in {excerpt(fragments[0])}" if fragments else ""
    message = (
        f"step {' or '.join(steps)}: Spark SQL fails on a row{expression}: {sentence or cause} Correct the expression "
        f"and run again, or put such rows aside: onError: DeadLetter of the step"
    )
    return UserActionError(message, code="ExpressionFailedError")


_RESULT = "result STRING"


class SlotJob:
    """The job that runs the slots of an app."""

    def __init__(
        self,
        spark: SparkSession,
        packed: PackedProgram,
        slots: Mapping[str, tuple[str, ...]],
        executors: Mapping[str, str | None],
    ) -> None:
        """Prepare the job for an assignment; `slots`: slot -> its tasks, `executors`: slot -> where it should run."""
        compiled, content, tasks = packed.program.compiled, packed.content, tuple(slots.values())

        def segment(run: Callable[[Slot, Batches], Batches]) -> Segment:
            return lambda batches: run(_slot(content, tasks), batches)

        def build(frame: DataFrame) -> DataFrame:
            if not compiled.has_sql:
                return frame.mapInArrow(segment(Slot.only), _RESULT)
            frame = frame.mapInArrow(segment(Slot.first), from_arrow_schema(compiled.layout(0).arrow_schema))
            for level in range(1, compiled.last):
                if level % 2:
                    frame = sql_segment(frame, compiled, level)
                else:
                    between = segment(partial(Slot.between, level=level))
                    frame = frame.mapInArrow(between, from_arrow_schema(compiled.layout(level).arrow_schema))
            return frame.mapInArrow(segment(Slot.last), _RESULT)

        self._job = LocatedJob(spark, [SlotLocation(name, executors[name]) for name in slots], build)
        self._texts = sql_texts(packed.program.compiled)

    def run(self, batch: BatchTexts) -> list[str]:
        """Run all slots with this plan and return their answers; raise `ExpressionFailedError` if Spark SQL fails."""
        try:
            return self._job.run(batch.text())
        except (PySparkException, Py4JError) as error:
            if (failure := failed_expression(error, self._texts)) is not None:
                raise failure from error
            raise

    def end(self) -> None:
        """Do nothing: no slot stays."""


def _slot(content: bytes, slots: Sequence[tuple[str, ...]]) -> Slot:
    """Return the slot that this Spark task runs; slots are numbered in the order of the job."""
    from pyspark import TaskContext  # noqa: PLC0415 - only inside a Spark task

    shop = worker_tools(content)
    plan = BatchPlan.parse(batch_plan_text())
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - `batch_plan_text` says so better
    number = context.partitionId()
    return Slot(shop, plan, number, slots[number])
