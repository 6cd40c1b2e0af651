"""Growth of inputs while an app runs: notices new partitions, and decides whether the app can read them.

Growth that the app can't take is reported once; the app continues with the partitions it has. Must not apply growth:
the next attempt does, starting where this one's last batch ended.
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
    """An input has grown, and `spec.onPartitionGrowth` is `Halt`."""


@dataclass(slots=True)
class Growth:
    """Watches the inputs of one attempt."""

    app: StreamApp
    plan: Plan
    record: Callable[[], PlacementRecord | None]
    listen: Listener
    _planned: PartitionCounts = field(init=False)
    """Stream of the spec -> partitions in the plan; streams that the app creates for itself are left out."""
    _refused: PartitionCounts = field(default_factory=dict)
    """The last growth that was refused."""

    def __post_init__(self) -> None:
        declared = {stream.name for stream in self.app.spec.streams}
        self._planned = {
            stream.name: stream.count.actual
            for stream in self.plan.streams
            if stream.count is not None and stream.name in declared
        }

    def taken(self, bounds: Collection[StreamPartition]) -> bool:
        """Return whether inputs have grown and another attempt can read the new partitions."""
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
