"""The ledger of what tasks have reported in an attempt: wake-ups, ends of inputs, sizes of records.

Lives as long as an attempt; the next one asks all tasks anew. Must not decide whether there is a batch:
`next_offsets` does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.clocks import BatchTime
from holdfast_runtime.loop.next_batch import LoopSnapshot
from holdfast_runtime.slot.report import TaskReport
from holdfast_runtime.streams.records import OffsetBounds

_KEEP = 0.8
"""How much of a known size stays when a new one is seen."""


@dataclass(slots=True)
class TaskLedger:
    """What tasks have said in this attempt."""

    first: bool = True
    """No batch that the attempt planned itself has run yet: not all tasks have said where they stand."""
    wakes: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    """Tasks to which nothing more will come."""
    record_bytes: dict[str, float] = field(default_factory=dict)
    state_bytes: dict[str, int] = field(default_factory=dict)
    marks: dict[str, tuple[int | None, str | None]] = field(default_factory=dict)
    """Task -> how far event time has come in it, and what holds it back."""

    def seen(
        self,
        bounds: Mapping[StreamPartition, OffsetBounds],
        time: BatchTime,
        ids: Mapping[str, str] | None = None,
        assumed: Mapping[str, float] | None = None,
    ) -> LoopSnapshot:
        """What the next batch is decided by."""
        return LoopSnapshot(
            bounds,
            time.now,
            self.first,
            wakes=self.wakes,
            record_bytes=self.record_bytes,
            assumed_bytes=assumed or {},
            ids=ids or {},
            skew=time.skew,
        )

    def note(self, tasks: Iterable[TaskReport], now: int, *, replay: bool) -> None:
        """A batch has run at this clock; `replay`: one that an earlier attempt had planned, for tasks of its choice."""
        for task in tasks:
            self._note(task, now)
        # Tasks that had no part in a replay have not been asked: their timers would be forgotten.
        self.first = self.first and replay

    def lowest(self) -> tuple[int | None, str | None]:
        """How far event time has come in all tasks, and what holds it back."""
        waiting = [mark for mark in self.marks.values() if mark[0] is None and mark[1] is not None]
        if waiting:
            return waiting[0]
        return min((mark for mark in self.marks.values() if mark[0] is not None), default=(None, None), key=_time)

    def _note(self, task: TaskReport, now: int) -> None:
        wake = now if task.replayed else task.wake
        if wake is None:
            self.wakes.pop(task.task, None)
        else:
            self.wakes[task.task] = wake
        if task.ended:
            self.ended.add(task.task)
        self.state_bytes[task.task] = task.state_bytes
        if not task.replayed:
            self.marks[task.task] = task.watermark, task.held_back
        for stream, size in task.bytes_read.items():
            # A range may be a hole from end to end: what is behind it is not known to be small.
            if size and (records := task.read.get(stream, 0)):
                known, measured = self.record_bytes.get(stream), size / records
                self.record_bytes[stream] = measured if known is None else _KEEP * known + (1 - _KEEP) * measured


def _time(mark: tuple[int | None, str | None]) -> int:
    return 0 if mark[0] is None else mark[0]
