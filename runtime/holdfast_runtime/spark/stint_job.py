"""The slots of a stint as one long Spark job. Must not know what slots do."""

import threading
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession

from holdfast_runtime.spark.located import LocatedJob, Segment, SlotLocation, batch_plan_text
from holdfast_runtime.stints.slot_connections import DriverAddress
from holdfast_runtime.stints.stints import Begin, StartedSlots, StartSlots, stay

_ENDS_WITHIN = 5.0


def starting_in_spark(
    spark: SparkSession, slots: Sequence[SlotLocation], begin: Begin
) -> Callable[[DriverAddress], StartSlots]:
    """Return how the slots of a driver are started where Spark has executors."""

    def starting(driver: DriverAddress) -> StartSlots:
        segment = _staying(driver, begin)
        job = LocatedJob(spark, slots, lambda frame: frame.mapInArrow(segment, "left STRING"))

        def start(number: int) -> StartedSlots:
            return _StintJob(spark.sparkContext, job, number)

        return start

    return starting


class _StintJob:
    """The Spark job of a stint, in a thread."""

    def __init__(self, context: SparkContext, job: LocatedJob, number: int) -> None:
        self._context, self._group = context, f"holdfast-stint-{id(job)}-{number}"
        self.failure: Exception | None = None
        """Why the job has ended, unless because its slots did."""
        self._thread = threading.Thread(target=self._run, args=(job, number), name="stint", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return not self._thread.is_alive()

    def end(self) -> None:
        """Wait for the end of slots that are left; cancel those that take too long."""
        self._thread.join(_ENDS_WITHIN)
        if not self.over:
            self._context.cancelJobGroup(self._group)
            self._thread.join(_ENDS_WITHIN)

    def _run(self, job: LocatedJob, number: int) -> None:
        try:
            self._context.setJobGroup(self._group, "slots", interruptOnCancel=True)
            job.run(str(number))
        except Exception as error:  # noqa: BLE001 - it is raised where a batch waits
            self.failure = error


def _staying(driver: DriverAddress, begin: Begin) -> Segment:
    """Return what each Spark task of a stint does."""

    def segment(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext  # noqa: PLC0415 - only inside a Spark task

        for _ in batches:
            pass
        context = TaskContext.get()
        assert context is not None  # noqa: S101 - only Spark calls this
        slot = context.partitionId()
        stay(driver, int(batch_plan_text()), slot, begin)
        yield pa.RecordBatch.from_pydict({"left": [str(slot)]})

    return segment
