"""The job of an app whose rows pass through Python alone: slots that stay, for as long as there are cores for all.

A Spark job for each batch costs as much as a hundred small batches. All slots that stay run at once, so where that many
cores are not there, as after an executor was lost, each batch is a job of its own, as for apps whose rows pass through
Spark SQL. A slot that was lost in a batch may have committed: asked again, it says so. Must not know what slots do.
"""

from collections.abc import Callable, Mapping
from functools import partial

from pyspark.sql import SparkSession

from holdfast_runtime.job import BatchTexts
from holdfast_runtime.spark.located import SlotLocation
from holdfast_runtime.spark.slot_job import SlotJob
from holdfast_runtime.spark.stint_job import starting_in_spark
from holdfast_runtime.stints.packed_program import PackedProgram
from holdfast_runtime.stints.staying_slot import StayingSlot
from holdfast_runtime.stints.stints import Stints


class ResidentJob:
    """The job of an assignment."""

    def __init__(
        self,
        spark: SparkSession,
        packed: PackedProgram,
        slots: Mapping[str, tuple[str, ...]],
        executors: Mapping[str, str | None],
        room: Callable[[], bool],
        host: str | None = None,
    ) -> None:
        """`room`: whether all slots can run at once. `host`: as `Stints` has it."""
        locations = [SlotLocation(name, executors[name]) for name in slots]
        begin = partial(StayingSlot, packed.content, tuple(slots.values()))
        self._slots = tuple(slots.values())
        self._stints = Stints(len(locations), starting_in_spark(spark, locations, begin), host)
        self._room, self._job_for_each = room, partial(SlotJob, spark, packed, slots, executors)
        self._each: SlotJob | None = None

    def run(self, batch: BatchTexts) -> list[str]:
        """Run all slots with this plan and return their answers."""
        answers = self._stints.ask(batch.texts(self._slots)) if self._stints.present or self._room() else None
        if answers is not None:
            return answers
        self._each = self._each or self._job_for_each()
        return self._each.run(batch)

    def end(self) -> None:
        """End the slots, also such as are at work."""
        self._stints.end()
