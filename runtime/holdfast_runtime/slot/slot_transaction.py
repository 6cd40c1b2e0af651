"""The transactions of a slot: whether they decide its batches, and which they have decided.

They decide where all that the app writes is in one Kafka system, exactly once, and the slot's process stays: it then
holds the slot's name from batch to batch. Must not write.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.errors import UserActionError
from holdfast_runtime.slot.program import Program
from holdfast_runtime.state.store.delta import Delta
from holdfast_runtime.streams.app_streams import StreamAccess
from holdfast_runtime.streams.markers import AttemptSlot, TaskMarkers, is_written


@dataclass(slots=True)
class SlotTransaction:
    """The transactions of one slot, in one batch."""

    program: Program
    streams: StreamAccess
    sender: AttemptSlot
    stays: bool
    """Whether this process runs the slot's next batch too."""
    _committed: TaskMarkers = field(default_factory=dict)
    """Task -> its last batch that this attempt has committed, as was learnt when the name was taken."""

    @property
    def decides(self) -> str | None:
        """The Kafka system that has all outputs; None: they go into deltas."""
        return self.program.decides if self.stays else None

    def hold(self) -> None:
        """Hold the slot's name until the commit, or fail to commit."""
        if self.decides is not None:
            self.streams.hold(self.decides, self.sender)

    def take(self) -> None:
        """Take the slot's name from any other process, and learn what has been committed under it."""
        if self.program.decides is not None:
            self._committed = self.streams.hold(self.program.decides, self.sender, anew=True)

    def has(self, delta: Delta) -> bool:
        """Whether the outputs of a delta without them have been committed, as far as was learnt."""
        before, task = markers_of(delta, self.program.environment.before), delta.identity.task
        last_marker = self._committed.get(task) or before.get(task)
        return is_written(
            self.program.marker(delta, self.sender.who.number), last_marker, f"Kafka system {delta.withheld}"
        )


def markers_of(delta: Delta, before: Mapping[str, TaskMarkers]) -> TaskMarkers:
    """Return the markers that earlier attempts left where a delta's outputs would be; raise if nobody has read them.

    `before`: Kafka system that the app writes -> its markers.
    """
    if delta.withheld is not None and delta.withheld in before:
        return before[delta.withheld]
    message = (
        f"batch {delta.batch} of {delta.identity} may have been written into Kafka system {delta.withheld}, as attempt "
        f"{delta.epoch} ended in the middle of it, and the app writes nothing there any more, so this is not known. "
        f"Bring back the former spec until one more batch is done, or start under a new spec.runId"
    )
    raise UserActionError(message, code="OutputsUnknownError")
