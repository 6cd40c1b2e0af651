"""Growth of inputs while an app runs: noticing new partitions, and whether the app can go on with them.

Growth that can't be taken is said once and left alone: the app goes on with what it has. Must not apply it: the next
attempt does, which begins where this one's last batch ended.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from holdfast.errors import UserActionError
from holdfast.planning.plan import Plan, PlanningFacts, plan
from holdfast.spec.app import StreamApp
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import PlacementRecord
from holdfast_runtime.progress import GrowthRefused, Listener

PartitionCounts = Mapping[str, int]


class GrowthHaltedError(UserActionError):
    """An input has grown, and the spec says to stop then."""


@dataclass(slots=True)
class Growth:
    """Watches the inputs of one attempt."""

    app: StreamApp
    plan: Plan
    record: Callable[[], PlacementRecord | None]
    listen: Listener
    _planned: PartitionCounts = field(init=False)
    """What the attempt reads and writes, without what the app makes for itself."""
    _refused: PartitionCounts = field(default_factory=dict)
    """What was found not to be possible."""

    def __post_init__(self) -> None:
        declared = {stream.name for stream in self.app.spec.streams}
        self._planned = {
            stream.name: stream.count.actual
            for stream in self.plan.streams
            if stream.count is not None and stream.name in declared
        }

    def taken(self, bounds: Collection[StreamPartition]) -> bool:
        """Whether there are more partitions than are read, and another attempt can read them."""
        grown = self._grown(bounds)
        if not grown or grown == self._refused:
            return False
        if self.app.spec.on_partition_growth == "Halt":
            message = f"{self._said(grown)}; set spec.onPartitionGrowth to Restart or Live to go on"
            raise GrowthHaltedError(message)
        found = plan(self.app, PlanningFacts(topics={**self._planned, **grown}, record=self.record()))
        if found.valid:
            return True
        self._refused = grown
        told = "; ".join(f"{problem.reason}: {problem.message}" for problem in found.problems)
        self.listen(GrowthRefused(f"{self._said(grown)}, and the app goes on with what it had: {told}"))
        return False

    def _grown(self, bounds: Collection[StreamPartition]) -> dict[str, int]:
        there = Counter(partition.stream for partition in bounds)
        return {name: there[name] for name, planned in self._planned.items() if there[name] > planned}

    def _said(self, grown: PartitionCounts) -> str:
        told = (f"{name} has grown from {self._planned[name]} to {now} partitions" for name, now in grown.items())
        return ", ".join(told)
