"""Why: from a placement to slots: one Spark task for each core of each processor, carrying its share of tasks.

Must not decide which processor a task goes to, nor import Spark.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast_runtime.coordination.coordinator import Placement
from holdfast_runtime.coordination.packing import tasks_by_slot


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Which slots there are, and where Spark finds them."""

    placement: Placement
    where: Mapping[str, str | None]
    """Processor -> its executor, as Spark names it; None: the driver itself."""
    cores: int
    """Of each processor."""

    @property
    def slots(self) -> dict[str, tuple[str, ...]]:
        """Slot -> its tasks."""
        return tasks_by_slot(self.placement.assignment, self.cores)

    @property
    def places(self) -> dict[str, str | None]:
        """Slot -> where it should run."""
        return {slot: self.where.get(slot.rpartition("/")[0]) for slot in self.slots}

    def followed(self, newer: Placement | None, found: Mapping[str, str]) -> "Arrangement":
        """With a newer placement, if there is one, and where processors are found now; itself where nothing changed.

        A processor that is not found stays where it was: its slots run elsewhere until it is back.
        """
        placement = newer or self.placement
        where = {one: found.get(one) or self.where.get(one) for one in placement.assignment.tasks_of}
        if newer is None and where == self.where:
            return self
        return Arrangement(placement, where, self.cores)
