"""The ledger of what tasks have reported in an attempt: wake-ups, ended inputs, sizes of records, watermarks.

It lives as long as an attempt; the next attempt asks all tasks again. Must not decide whether there is a batch:
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
"""The weight of the known size when a new one is measured."""


@dataclass(slots=True)
class TaskLedger:
    """What tasks have reported in this attempt."""

    first: bool = True
    """No batch that the attempt planned itself has run yet, so not all tasks have reported."""
    wakes: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    """Tasks whose inputs have all ended."""
    record_bytes: dict[str, float] = field(default_factory=dict)
    state_bytes: dict[str, int] = field(default_factory=dict)
    marks: dict[str, tuple[int | None, str | None]] = field(default_factory=dict)
    """Task -> its watermark, and what holds it back."""

    def seen(
        self,
        bounds: Mapping[StreamPartition, OffsetBounds],
        time: BatchTime,
        ids: Mapping[str, str] | None = None,
        assumed: Mapping[str, float] | None = None,
    ) -> LoopSnapshot:
        """Return what the decision about the next batch is based on."""
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
        """Note the reports of a batch that ran at this clock. `replay`: an earlier attempt had planned it."""
        for task in tasks:
            self._note(task, now)
        # Tasks that took no part in a replay have not reported: without a first batch, their timers would be forgotten.
        self.first = self.first and replay

    def lowest(self) -> tuple[int | None, str | None]:
        """Return the lowest watermark of all tasks, and what holds it back."""
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
            # A range may hold no records at all, only a gap of offsets: that does not mean that records are small.
            if size and (records := task.read.get(stream, 0)):
                known, measured = self.record_bytes.get(stream), size / records
                self.record_bytes[stream] = measured if known is None else _KEEP * known + (1 - _KEEP) * measured


def _time(mark: tuple[int | None, str | None]) -> int:
    return 0 if mark[0] is None else mark[0]
