"""The producers of a stream's control messages, and what applies if a message contradicts the plan.

For the app's own intermediate streams the plan names the producing tasks and takes precedence: after a growth, the
topic still has messages of an earlier attempt with other tasks. For a stream of another app only its messages say how
many producers there are. Then the tasks of the latest attempt apply (`WriterRuns`), and in it the largest count: an end
that comes too early loses rows, while one that comes too late is visible as waiting. Must not keep state.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor
from typing import NamedTuple

from holdfast.control.messages import ControlMessage
from holdfast.control.runs import WriterTasks
from holdfast.errors import HoldfastError
from holdfast.tasks.partitions import StreamPartition


@dataclass(frozen=True, slots=True)
class Producers:
    """What is known of the producers of one stream before any message is read."""

    count: int = 0
    """How many tasks write it; 0: unknown. A source has none; for a stream of another app, messages have the count."""
    names: frozenset[str] = frozenset()
    """The tasks, if the plan names them: then messages of any other task are ignored."""
    idle_after: int | None = None
    """Milliseconds of silence after which a producer is left out; None: never."""
    quorum: float = 0.5
    """The share of producers that must be active for the others to be left out."""

    @classmethod
    def of(cls, tasks: Iterable[str], idle_after: int | None = None, quorum: float = 0.5) -> "Producers":
        """Return the producers that `Plan.producers` names."""
        names = frozenset(tasks)
        return cls(len(names), names, idle_after, quorum)

    def expected(self, named_count: int) -> int:
        """Return how many tasks must send messages, if messages name `named_count` tasks; 0: none is known to exist."""
        return self.count or named_count

    def named_by(self, message: ControlMessage) -> WriterTasks | None:
        """Return the tasks that a message names as producers, where they count; None: the plan has them."""
        return None if self.count else message.writers

    def knows(self, task: str) -> bool:
        """Whether messages of this task count."""
        return not self.names or task in self.names

    def needed(self, running: int) -> int:
        """Return how many of `running` producers make a quorum."""
        # 1e-9 corrects rounding errors such as 0.29 * 100 < 29; no real share is that close below a whole number.
        return max(1, floor(running * self.quorum + 1e-9))


SOURCE = Producers()
"""The producers of a stream from outside: there are none to wait for."""


class Delivery(NamedTuple):
    """A control message and the partition it was read from."""

    partition: StreamPartition
    message: ControlMessage


class UntrackedPartitionError(HoldfastError):
    """A message of a partition that the task does not read: a bug in the routing."""

    def __init__(self, partition: StreamPartition, tracked: Iterable[StreamPartition]) -> None:
        super().__init__(
            f"a control message of {partition} came to a task that reads {', '.join(map(str, sorted(tracked)))}"
        )
