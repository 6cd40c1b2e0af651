"""The producers of a stream's control messages, and what follows where a message says otherwise than the plan.

For the app's own intermediate streams the plan knows the tasks, and the plan counts: messages of an earlier attempt,
which may have had other tasks, are still in the topic after a growth. For a stream of another app only its messages
know; then the largest count ever said counts, because an end that comes too early loses rows, and one that comes too
late is seen waiting. Must not remember anything.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import floor
from typing import NamedTuple

from holdfast.control.messages import ControlMessage
from holdfast.errors import HoldfastError
from holdfast.tasks.partitions import StreamPartition


@dataclass(frozen=True, slots=True)
class Producers:
    """What is known of the producers of one stream before any message has come."""

    count: int = 0
    """How many tasks write it; 0: not known. A source has none, and those of another app's stream say how many."""
    names: frozenset[str] = frozenset()
    """The tasks, where the plan names them: then messages of any other task count for nothing."""
    idle_after: int | None = None
    """Milliseconds of silence after which a producer is left out; None: it is waited for, for ever."""
    quorum: float = 0.5
    """The share of producers that must be active for the others to be left out."""

    @classmethod
    def of(cls, tasks: Iterable[str], idle_after: int | None = None, quorum: float = 0.5) -> "Producers":
        """Producers as `Plan.producers` names them."""
        names = frozenset(tasks)
        return cls(len(names), names, idle_after, quorum)

    def expected(self, said: int) -> int:
        """How many tasks must speak, if messages have said `said`; 0: none is known to exist."""
        return self.count or said

    def knows(self, task: str) -> bool:
        """Whether a message of this task counts."""
        return not self.names or task in self.names

    def needed(self, running: int) -> int:
        """How many of so many running producers make a quorum."""
        # The nudge undoes what 0.29 * 100 loses; no share anybody writes is that close below a whole number.
        return max(1, floor(running * self.quorum + 1e-9))


SOURCE = Producers()
"""Of a stream whose records come from outside: nobody is waited for."""


class Delivery(NamedTuple):
    """A control message and the partition it was read from."""

    partition: StreamPartition
    message: ControlMessage


class UntrackedPartitionError(HoldfastError):
    """A message of a partition that the task does not read: an error of whoever routed it."""

    def __init__(self, partition: StreamPartition, tracked: Iterable[StreamPartition]) -> None:
        super().__init__(
            f"a control message of {partition} came to a task that reads {', '.join(map(str, sorted(tracked)))}"
        )


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A message that says otherwise than the plan. Nothing stops; it is to be counted and shown."""

    stream: str
    task: str
    said: int | None
    expected: int
    message: str


def disagreements(deliveries: Iterable[Delivery], producers: Mapping[str, Producers]) -> tuple[Disagreement, ...]:
    """Each way in which messages and plan disagree on who writes a stream, once per stream and task."""
    found: dict[tuple[str, str, int | None], Disagreement] = {}
    for partition, message in deliveries:
        rule = producers.get(partition.stream, SOURCE)
        task, said = message.task, message.task_count
        if task is None or not rule.count or (said == rule.count and rule.knows(task)):
            continue
        key = (partition.stream, task, said)
        if key not in found:
            found[key] = Disagreement(
                partition.stream, task, said, rule.count, _sentence(partition.stream, task, said, rule)
            )
    return tuple(found[key] for key in sorted(found, key=str))


def _sentence(stream: str, task: str, said: int | None, rule: Producers) -> str:
    if not rule.knows(task):
        return (
            f"{stream} has a control message of task {task}, which is none of the {rule.count} tasks that write it in "
            f"this plan; it is ignored. After a change of tasks this passes; otherwise another app writes to its topic "
            f"too: give that one a topic of its own"
        )
    return (
        f"task {task} says that {said} tasks write {stream}, the plan says {rule.count}; the plan counts. After a "
        f"change of tasks this passes once old messages are read; otherwise two apps write to its topic: give each one "
        f"of its own"
    )
