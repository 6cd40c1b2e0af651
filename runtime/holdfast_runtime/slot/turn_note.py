"""The note about a task that one segment of a slot passes to the next, besides the rows.

It travels between processes of one Spark task within one batch and is never stored. Must not outlive the batch.
"""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from holdfast_runtime.slot.clock_messages import PendingMessages
from holdfast_runtime.slot.report import Failure, TaskReport
from holdfast_runtime.steps.context import StepClock

TableChanges = Sequence[tuple[bytes, bytes | None]]


@dataclass(slots=True)
class TurnNote:
    """What is known of a task's turn so far."""

    report: TaskReport
    decided: bool = False
    """An earlier try has written the delta of this turn, so nothing is computed."""
    failure: Failure | None = None
    changes: dict[str, TableChanges] = field(default_factory=dict)
    """State table -> the changes that steps made in it."""
    clocks: Mapping[str, StepClock] = field(default_factory=dict)
    """Step -> its event time in this turn."""
    unfired: dict[str, int] = field(default_factory=dict)
    """Step -> the time of its first event-time timer that is due and waits for the next batch."""
    telling: PendingMessages | None = None
    """The messages that follow the rows, before it is known which timers have not fired."""
    says: Sequence[tuple[str, tuple[int, ...], bytes]] = ()
    """Control messages to write: stream, partitions, message."""
    letters: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    """Dead letter stream -> the dead letters of this turn."""
    phases: dict[str, float] = field(default_factory=dict)

    def put_aside(self, step: str, stream: str, letters: pa.RecordBatch) -> None:
        """Add the dead letters of a step to those of this turn."""
        self.letters.setdefault(stream, []).append(letters)
        self.report.failed[step] = self.report.failed.get(step, 0) + letters.num_rows

    def packed(self) -> bytes:
        """Return the note as bytes."""
        return pickle.dumps(self, protocol=5)

    @classmethod
    def unpacked(cls, notes: Sequence[bytes]) -> "TurnNote":
        """Return the one note that came with a task's rows."""
        (only,) = notes
        note = pickle.loads(only)  # noqa: S301 - from the process before this one in the same Spark task
        assert isinstance(note, cls)  # noqa: S101
        return note
