"""The job of an app whose rows pass through Python alone: slots that stay, for as long as there are cores for all.

A Spark job for each batch costs as much as a hundred small batches. All slots that stay run at once, so where that many
cores are not there, as after an executor was lost, each batch is a job of its own, as for apps whose rows pass through
Spark SQL. A slot that was lost in a batch may have committed: asked again, it says so. Must not know what slots do.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from pyspark.sql import SparkSession

from holdfast_runtime.slot.batch_plan import BatchPlan
from holdfast_runtime.slot.kept_stores import KeptStores
from holdfast_runtime.slot.slot import Slot
from holdfast_runtime.spark.located import SlotLocation
from holdfast_runtime.spark.slot_job import PackedProgram, SlotJob, worker_tools
from holdfast_runtime.spark.stints import Stints
from holdfast_runtime.streams.kafka.write.agent import write_alone
from holdfast_runtime.worker_resources import calling_functions


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
        self._stints = Stints(spark, locations, partial(_StayingSlot, packed.content, tuple(slots.values())), host)
        self._room, self._job_for_each = room, partial(SlotJob, spark, packed, slots, executors)
        self._each: SlotJob | None = None

    def run(self, batch: str) -> list[str]:
        """Run all slots with this plan and return their answers."""
        answers = self._stints.ask(batch) if self._stints.present or self._room() else None
        if answers is not None:
            return answers
        self._each = self._each or self._job_for_each()
        return self._each.run(batch)

    def end(self) -> None:
        """End the slots, also such as are at work."""
        self._stints.end()


class _StayingSlot:
    """A slot in its process, for the length of a stint."""

    def __init__(self, content: bytes, slots: Sequence[tuple[str, ...]], number: int) -> None:
        self._content, self._tasks, self._number = content, slots[number], number
        self._stores, self._stack = KeptStores(), ExitStack()
        self._stack.enter_context(calling_functions())
        write_alone()

    def answer(self, batch: str) -> str:
        """Run a batch with this plan."""
        tools, plan = worker_tools(self._content), BatchPlan.parse(batch)
        return Slot(tools, plan, self._number, self._tasks, stores=self._stores).answer()

    def let_go(self) -> None:
        """Let other processes have the stores."""
        self._stores.close()

    def end(self) -> None:
        """Let other processes have the stores, and close what functions have set up."""
        with self._stack:
            self.let_go()
