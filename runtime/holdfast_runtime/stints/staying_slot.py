"""A slot in its process, for the length of a stint. Must not know who starts the process."""

from collections.abc import Sequence
from contextlib import ExitStack

from holdfast_runtime.slot.batch_plan import BatchPlan
from holdfast_runtime.slot.kept_stores import KeptStores
from holdfast_runtime.slot.slot import Slot
from holdfast_runtime.stints.packed_program import worker_tools
from holdfast_runtime.streams.kafka.write.agent import write_alone
from holdfast_runtime.worker_resources import calling_functions


class StayingSlot:
    """A slot that answers batch after batch, with its stores open."""

    def __init__(self, content: bytes, slots: Sequence[tuple[str, ...]], number: int) -> None:
        """`content`: a pickled program; `slots`: the tasks of each slot; `number`: which slot this is."""
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
