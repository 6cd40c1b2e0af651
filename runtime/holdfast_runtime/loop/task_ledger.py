"""What tasks have reported in an attempt, kept for as long as it lives: what the next batch is decided by.

Must not decide anything, nor read streams or clocks: `next_batch` decides, and all else is an argument.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.clocks import BatchTime
from holdfast_runtime.loop.fed_tables import DataSetsSeen
from holdfast_runtime.loop.joined_sides import JoinedTasks, spread_of
from holdfast_runtime.loop.next_batch import LoopSnapshot
from holdfast_runtime.progress import BufferedRows
from holdfast_runtime.slot.report import TaskReport
from holdfast_runtime.streams.records import LogCut, OffsetBounds

_KEEP = 0.8
"""The weight of the known size when a new one is measured."""


class TaskMark(NamedTuple):
    """The watermark of a task, and what holds it back."""

    watermark: int | None = None
    held_back: str | None = None
    held_by: str | None = None
    """The other app that is waited for, if it is one."""


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
    buffers: dict[str, dict[str, BufferedRows]] = field(default_factory=dict)
    """Step and side -> task -> the rows that wait there for a partner."""
    stream_marks: dict[str, Mapping[str, int | None]] = field(default_factory=dict)
    """Task -> stream -> its watermark there."""
    spreads: dict[str, int] = field(default_factory=dict)
    """Task -> how far its known watermarks are apart."""
    unjoined: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """Task -> step -> rows that a join has put aside."""
    marks: dict[str, TaskMark] = field(default_factory=dict)
    """Task -> its watermark, and what holds it back."""
    began: dict[StreamPartition, int] = field(default_factory=dict)
    """Partition -> where it ended when the attempt looked first."""

    def seen(
        self,
        bounds: Mapping[StreamPartition, OffsetBounds],
        time: BatchTime,
        ids: Mapping[str, str] | None = None,
        assumed: Mapping[str, float] | None = None,
        data_sets: DataSetsSeen | None = None,
        cut: Mapping[StreamPartition, LogCut] | None = None,
    ) -> LoopSnapshot:
        """Return what the decision about the next batch is based on."""
        self.began = self.began or {partition: bound.end for partition, bound in bounds.items()}
        return LoopSnapshot(
            bounds,
            time.now,
            self.first,
            wakes=self.wakes,
            record_bytes=self.record_bytes,
            assumed_bytes=assumed or {},
            ids=ids or {},
            skew=time.skew,
            joined=JoinedTasks(self.stream_marks, self.unjoined, self.spreads),
            began=self.began,
            data_sets=data_sets or DataSetsSeen(),
            cut=cut or {},
        )

    def note(self, tasks: Iterable[TaskReport], now: int, *, replay: bool) -> None:
        """Note the reports of a batch that ran at this clock. `replay`: an earlier attempt had planned it."""
        for task in tasks:
            self._note(task, now)
        # Tasks that took no part in a replay have not reported: without a first batch, their timers would be forgotten.
        self.first = self.first and replay

    def lowest(self) -> TaskMark:
        """Return the lowest watermark of all tasks, and what holds it back."""
        waiting = [mark for mark in self.marks.values() if mark.watermark is None and mark.held_back is not None]
        if waiting:
            return waiting[0]
        return min((mark for mark in self.marks.values() if mark.watermark is not None), default=TaskMark(), key=_time)

    def watermarks(self) -> dict[str, int]:
        """Return the lowest watermark that tasks know of each stream."""
        lowest = dict[str, int]()
        for marks in self.stream_marks.values():
            for stream, mark in marks.items():
                if mark is not None and mark < lowest.get(stream, mark + 1):
                    lowest[stream] = mark
        return lowest

    def unread_from(
        self, lags: Mapping[str, Sequence[int]], readers: Mapping[StreamPartition, Sequence[str]]
    ) -> dict[str, dict[int, int]]:
        """Return the watermark of each partition that has unread records, by stream; of its readers the lowest."""
        unread = dict[str, dict[int, int]]()
        for stream, lag_of in lags.items():
            if not any(lag_of):
                continue
            for number in (number for number, lag in enumerate(lag_of) if lag):
                tasks = readers.get(StreamPartition(stream, number), ())
                marks = (self.stream_marks.get(task, {}).get(stream) for task in tasks)
                if (mark := min((mark for mark in marks if mark is not None), default=None)) is not None:
                    unread.setdefault(stream, {})[number] = mark
        return unread

    def buffered(self) -> dict[str, BufferedRows]:
        """Return the rows of all tasks that wait for a partner, by step and side."""
        return {side: BufferedRows.of_all(tasks.values()) for side, tasks in self.buffers.items() if tasks}

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
            self.marks[task.task] = TaskMark(task.watermark, task.held_back, task.held_by)
            self._note_buffers(task)
            self.stream_marks[task.task] = task.stream_marks
            self.spreads[task.task] = spread_of(task.stream_marks)
            self.unjoined.pop(task.task, None)
            if task.unjoined:
                self.unjoined[task.task] = task.unjoined
        for stream, size in task.bytes_read.items():
            # A range may hold no records at all, only a gap of offsets: that does not mean that records are small.
            if size and (records := task.read.get(stream, 0)):
                average, measured = self.record_bytes.get(stream), size / records
                self.record_bytes[stream] = measured if average is None else _KEEP * average + (1 - _KEEP) * measured

    def _note_buffers(self, task: TaskReport) -> None:
        for side, rows in task.buffered.items():
            self.buffers.setdefault(side, {})[task.task] = rows
        for side, tasks in self.buffers.items():
            if side not in task.buffered:
                tasks.pop(task.task, None)


def _time(mark: TaskMark) -> int:
    return 0 if mark.watermark is None else mark.watermark
