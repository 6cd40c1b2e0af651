"""The located Spark job: one job per batch whose slots run on the executors that hold their state, without exchange.

PySpark can't say where a slot should run, but its JVM can: with an RDD that has location preferences, followed only by
narrow steps. The job is built once per assignment; each batch only runs it, and the batch's plan travels as a job
property. An executor's id lasts as long as its process, a processor's name as long as its disk: a pod that dies comes
back under the same name but as another executor. Must not know what slots do.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import HoldfastError


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor that is registered with Spark."""

    id: str
    name: str
    """The name by which a slot asks for it."""
    pod: str | None = None
    """The name of its pod, if it gave one."""

    @property
    def processor(self) -> str:
        """The name of the processor in assignments."""
        return self.pod or self.id


def by_processor(executors: Iterable[Executor]) -> dict[str, str]:
    """Return processor -> its executor. Of two in one pod the newer counts: the older one has died."""
    return {executor.processor: executor.name for executor in sorted(executors, key=_age)}


def _age(executor: Executor) -> tuple[int, str]:
    """Sort key: Spark numbers executors upwards."""
    return (int(executor.id) if executor.id.isdigit() else -1, executor.id)


BATCH_PROPERTY = "holdfast.batch"
"""The job property that carries the plan of a batch to the slots."""
POD_ATTRIBUTE = "POD"
"""The attribute with the pod's name, from the pod's variable `SPARK_EXECUTOR_ATTRIBUTE_POD`."""

Segment = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class SlotLocation:
    """A slot, and where Spark should run it."""

    name: str
    executor: str | None = None
    """The executor, `host_id` as Spark names it; None: anywhere."""


class LocatedJob:
    """A job that is prepared once for a set of slots."""

    def __init__(
        self, spark: SparkSession, slots: Sequence[SlotLocation], build: Callable[[DataFrame], DataFrame]
    ) -> None:
        """`build` adds the steps to a frame with one row per slot, whose column `value` is the slot's name."""
        self._context = spark.sparkContext
        frame = build(_one_row_per_slot(spark, slots))
        execution = frame._jdf.queryExecution()  # noqa: SLF001 - Catalyst's work is paid once, here
        self.plan = str(execution.executedPlan().toString())
        if "Exchange" in self.plan:
            message = (
                f"the plan of the batch job has an exchange, so its parts would leave their executors:\n{self.plan}"
            )
            raise HoldfastError(message, code="ExchangeError")
        self._rdd = execution.toRdd()

    def run(self, batch: str) -> list[str]:
        """Run all slots with this batch plan; return one text per result row, in the order of slots."""
        self._context.setLocalProperty(BATCH_PROPERTY, batch)
        rows = self._rdd.collect()
        return [rows[i].getUTF8String(0).toString() for i in range(len(rows))]


def batch_plan_text() -> str:
    """Return the plan of the batch, inside a Spark task of the job."""
    from pyspark import TaskContext  # noqa: PLC0415 - only inside a Spark task

    context = TaskContext.get()
    plan = None if context is None else context.getLocalProperty(BATCH_PROPERTY)
    if plan is None:
        message = f"no {BATCH_PROPERTY} here: this must run inside a part of a LocatedJob"
        raise HoldfastError(message)
    return str(plan)


def registered(spark: SparkSession) -> tuple[Executor, ...]:
    """Return the live executors, with their pods on a cluster; none if everything runs in the driver."""
    context = spark.sparkContext._jsc.sc()  # noqa: SLF001 - PySpark has no way to ask
    live = context.statusStore().executorList(True)  # noqa: FBT003 - only those that live
    executors = [_executor(live.apply(i)) for i in range(live.length())]
    return tuple(executor for executor in executors if executor is not None)


def _executor(summary: Any) -> Executor | None:
    name, host = str(summary.id()), str(summary.hostPort()).rpartition(":")[0]
    # An executor that is still registering has no host.
    if name == "driver" or not host:
        return None
    pod = summary.attributes().get(POD_ATTRIBUTE)
    return Executor(name, f"{host}_{name}", str(pod.get()) if pod.isDefined() else None)


def _one_row_per_slot(spark: SparkSession, slots: Sequence[SlotLocation]) -> DataFrame:
    context, jvm = spark.sparkContext, cast("Any", spark._jvm)  # noqa: SLF001
    rows: Any = jvm.java.util.ArrayList()
    for slot in slots:
        preferred: Any = jvm.java.util.ArrayList()
        if slot.executor is not None:
            preferred.add(f"executor_{slot.executor}")
        rows.add(jvm.scala.Tuple2(slot.name, _seq(jvm, preferred)))
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.String"))
    rdd = context._jsc.sc().makeRDD(_seq(jvm, rows), tag)  # noqa: SLF001
    dataset = spark._jsparkSession.createDataset(rdd, jvm.org.apache.spark.sql.Encoders.STRING())  # noqa: SLF001
    return DataFrame(dataset.toDF(), spark)


def _seq(jvm: Any, items: Any) -> Any:
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(items).toSeq()
