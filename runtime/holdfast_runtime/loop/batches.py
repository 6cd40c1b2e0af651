"""One batch after the other: decides what the next one reads, has it run, and knows when the run ends.

    Spark's query, or `direct`:  ask -> offsets into the log -> run -> commit log -> ask ...
    after:                       bounds -> next offsets, or none yet
    run:                         batch plan -> job -> reports -> progress

A run ends only between batches: `ending` says so, and who runs them ends. Must not know how batches are planned, nor
what slots do, nor who asks.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from holdfast.errors import AwayError, HoldfastError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.offsets import DueJump, Jump, Offsets
from holdfast_runtime.clocks import BatchClock, instant, now
from holdfast_runtime.job import Job, JobFailedError
from holdfast_runtime.loop.fed_tables import DataSetsSeen
from holdfast_runtime.loop.leader_epochs import CutQuestion, PositionChecks
from holdfast_runtime.loop.next_batch import (
    AttemptInputs,
    LeftBehind,
    LoopSnapshot,
    batch_to,
    check_replay,
    left_behind,
    next_offsets,
)
from holdfast_runtime.loop.ranges import slot_of
from holdfast_runtime.loop.stopping import StopCondition, Totals, WaitEndedError, patiently
from holdfast_runtime.loop.task_ledger import TaskLedger
from holdfast_runtime.progress import (
    BatchBegun,
    BatchWaiting,
    ClockJumped,
    EndCause,
    Freed,
    Listener,
    Progress,
    RunDraining,
    RunEnded,
    TablesLoading,
)
from holdfast_runtime.slot.batch_plan import BatchPlan
from holdfast_runtime.slot.report import SlotReport, TaskReport, read_reports
from holdfast_runtime.spark.session import too_busy
from holdfast_runtime.streams.records import OffsetBounds

_LOOK_EVERY = 0.05
_LONGEST = 4000
_SAID_EVERY = 30.0
_TOLD_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class LoopParts:
    """The values and functions from which the loop is made."""

    interval: int
    """Milliseconds from the start of one batch to the start of the next."""
    epoch: int
    reading: AttemptInputs
    bounds: Callable[[], Mapping[StreamPartition, OffsetBounds]]
    written: Callable[[], Mapping[StreamPartition, int]]
    """Returns the ends of streams that the app writes for itself, with records that nobody can read yet."""
    assumed_bytes: Callable[[Collection[str]], Mapping[str, float]]
    """Takes the measured streams; returns the assumed bytes per record of the others."""
    grown: Callable[[Collection[StreamPartition]], bool]
    """Whether inputs have grown and the next attempt can read the new partitions."""
    ids: Callable[[], Mapping[str, str]]
    """Returns stream -> id of its topic, where the system gives one."""
    cut: CutQuestion
    jump: DueJump
    """Positions that a user has set since the last attempt."""
    data_sets: Callable[[Mapping[str, int]], DataSetsSeen]
    """Takes the generations of tables after the last batch; returns what is known of tables of files."""
    job: Callable[[], Job]
    """Returns the job of the next batch; called between batches."""
    slots: Callable[[], Sequence[Sequence[str]]]
    """Returns the tasks of each slot of that job; the same object until tasks move."""
    processed: Callable[[Mapping[StreamPartition, int]], None]
    """Called with the positions before which everything is processed for good."""
    end: Callable[[], None]
    """Ends the job, also one that runs."""
    check: Callable[[], None]
    """Raises an error if the run must not go on."""
    until: StopCondition
    listen: Listener
    drain: threading.Event
    totals: Totals
    """Counts over all attempts of this driver."""
    reported: Callable[[Sequence[SlotReport]], None] | None = None
    """Called with what slots report of a batch, before its progress; None: nobody looks at single slots."""


class Batches:
    """The batches of one attempt. `after` and `run` are never called at once."""

    def __init__(self, loop: LoopParts) -> None:
        self._loop = loop
        self._job = loop.job()
        self._totals = loop.totals
        self._totals.begin()
        self._standing, self._clock, self._checks = TaskLedger(), BatchClock(), PositionChecks(loop.cut)
        self._left = LeftBehind({}, (), {})
        self._slots: Sequence[Sequence[str]] | None = None
        self._slot_of: Mapping[StreamPartition, int] = {}
        self._planned_in = 0.0
        self._looked = False
        """Whether all positions were found to hold: to delete what is before them would hide it if they do not."""
        self._draining = False
        self._ending: EndCause | None = None
        self._failure: Exception | None = None
        self._said_waiting = -_SAID_EVERY
        self._tables, self._told_of_tables = TablesLoading({}, {}), -_TOLD_EVERY
        self._between = threading.Event()
        """Set when no batch is running and none will start."""

    @property
    def over(self) -> bool:
        """Whether no batch is running and none will start."""
        return self._between.is_set()

    @property
    def ending(self) -> EndCause | None:
        """Why the run is to end; None: it goes on."""
        return self._ending

    @property
    def failure(self) -> Exception | None:
        """What went wrong."""
        return self._failure

    def end(self) -> None:
        """Note that no batch is running and none will start."""
        self._between.set()

    def fail(self, error: Exception) -> None:
        """Note what went wrong, to be raised where the run is waited for."""
        self._failure = error
        self._between.set()

    def after(self, before: Offsets) -> Offsets:
        """Return where the next batch ends; `before` itself if there is none, as when the run is to end."""
        if self._between.is_set():
            return before
        return self._after(before)

    def run(self, offsets: Offsets, *, replay: bool) -> None:
        """Run the batch that ends at these offsets, which are logged; `replay`: another attempt has planned it."""
        try:
            self._run(offsets, replay=replay)
        except WaitEndedError as error:
            # No slot is running, and the batch does not count as done: the next run begins with it.
            why = str(error).removesuffix(".")
            self._loop.listen(BatchWaiting(f"{why}. The run ends here, and the next one repeats the batch"))
            self._ending = EndCause.DRAINED
            self._between.set()
            raise

    def wait(self, has_ended: Callable[[float], bool]) -> None:
        """Wait until all has ended; raise what went wrong.

        `has_ended`: waits for so many seconds, and returns whether what calls `after` and `run` has ended.
        """
        while not self._between.is_set():
            self._loop.check()
            self._tell_draining()
            if has_ended(_LOOK_EVERY) and not self._between.is_set():
                message = "Spark ended the query without giving a reason. Look into Spark's log"
                raise self._failure or HoldfastError(message, code="QueryDiedError")
        self._tell_draining()
        if self._failure is not None:
            raise self._failure

    def ended(self) -> RunEnded:
        """Return the event that says how the run ended."""
        totals = self._totals
        ending = self._ending or EndCause.DRAINED
        return RunEnded(ending, totals.batches, totals.rows_in, totals.rows_out, totals.seconds)

    def _after(self, before: Offsets) -> Offsets:
        self._job = self._loop.job()
        jump = self._loop.jump.after(before)
        if self._loop.drain.is_set():
            if self._looked:
                self._loop.processed(before.positions)
            return self._over(EndCause.DRAINED, before)
        began = time.perf_counter()
        try:
            bounds, ids = self._loop.bounds(), self._loop.ids()
            cut = self._checks.cut(before, bounds)
            assumed = self._loop.assumed_bytes({*before.record_bytes, *self._standing.record_bytes})
        except AwayError as error:
            self._waits(error)
            return before
        self._looked = not cut
        if self._looked:
            self._loop.processed(before.positions)
        if self._loop.grown(bounds):
            return self._over(EndCause.GROWN, before)
        time_now, clock_jumped = self._clock.at(instant(), before.time)
        if clock_jumped is not None:
            self._loop.listen(ClockJumped(clock_jumped))
        sets = self._loop.data_sets(before.tables)
        snapshot = self._standing.seen(bounds, time_now, ids, assumed, sets, cut)
        after = self._next(before, replace(snapshot, slot_of=self._by_slot()), jump)
        self._planned_in = (time.perf_counter() - began) * 1000
        return after

    def _by_slot(self) -> Mapping[StreamPartition, int]:
        """Return which slot reads a partition."""
        slots = self._loop.slots()
        if slots is not self._slots:
            self._slots, self._slot_of = slots, slot_of(slots, self._loop.reading.inputs)
        return self._slot_of

    def _next(self, before: Offsets, snapshot: LoopSnapshot, jump: Jump | None) -> Offsets:
        after = next_offsets(before, self._loop.reading, snapshot, jump)
        idle = after is before
        if self._loop.reading.inputs.keys() <= self._standing.ended and (idle or self._only_tables(after)):
            return self._over(EndCause.COMPLETED, before)
        totals = self._totals
        self._look_behind(after, snapshot)
        # Unread new partitions that wait for their parents count as work, though nothing is read meanwhile.
        done = (
            idle
            and not any(map(any, self._left.lags.values()))
            and (not self._loop.until.idle or self._sees_all(snapshot))
        )
        ending = self._loop.until.reached(batches=totals.batches, seconds=totals.seconds, idle=done)
        if ending is not None:
            return self._over(ending, before)
        if snapshot.data_sets.numbers:
            self._tell_of(TablesLoading(self._left.loading, snapshot.data_sets.problems))
        return after

    def _sees_all(self, snapshot: LoopSnapshot) -> bool:
        """Return whether the app saw all that it has written for itself: it is there a moment after its batch."""
        try:
            ends = self._loop.written()
        except AwayError as error:
            self._waits(error)
            return False
        bounds = snapshot.bounds
        return all(partition in bounds and end <= bounds[partition].end for partition, end in ends.items())

    def _look_behind(self, after: Offsets, snapshot: LoopSnapshot) -> None:
        """Note what is left and what is waited for after a batch."""
        self._left = left_behind(after, self._loop.reading, snapshot)

    def _look_behind_replayed(self, offsets: Offsets) -> None:
        """Note it for a batch that an earlier attempt has planned, and that this one reports."""

        def look() -> LoopSnapshot:
            sets = self._loop.data_sets(offsets.tables)
            bounds, ids = self._loop.bounds(), self._loop.ids()
            cut = self._checks.cut(offsets, bounds)
            return self._standing.seen(bounds, offsets.time, ids, data_sets=sets, cut=cut)

        snapshot = patiently(look, self._waits, self._loop.drain)
        check_replay(offsets, snapshot)
        self._looked = True
        self._look_behind(offsets, snapshot)

    def _only_tables(self, after: Offsets) -> bool:
        """Whether a batch would do nothing but change tables."""
        fed = {source for table in self._loop.reading.tables for source in table.sources}
        return bool(after.starts) and all(partition.stream in fed for partition in after.starts)

    def _tell_draining(self) -> None:
        if self._loop.drain.is_set() and not self._draining:
            self._draining = True
            self._loop.listen(RunDraining())

    def _tell_of(self, tables: TablesLoading) -> None:
        """Report what is loaded beside the batches, but not each record."""
        elapsed = time.monotonic() - self._told_of_tables
        if tables != self._tables and (tables.problems != self._tables.problems or elapsed >= _TOLD_EVERY):
            self._tables, self._told_of_tables = tables, time.monotonic()
            self._loop.listen(tables)

    def _waits(self, error: AwayError) -> None:
        """Report what the batch waits for, but not at each try."""
        if time.monotonic() - self._said_waiting >= _SAID_EVERY:
            self._said_waiting = time.monotonic()
            self._loop.listen(BatchWaiting(str(error)))

    def _over(self, ending: EndCause, before: Offsets) -> Offsets:
        self._ending = ending
        return before

    def _run(self, offsets: Offsets, *, replay: bool) -> None:
        if replay:
            self._look_behind_replayed(offsets)
        began = time.perf_counter()
        self._loop.listen(BatchBegun(offsets.batch, now()))
        plan = batch_to(offsets, self._loop.reading.inputs, self._loop.epoch, first=self._standing.first)
        slots = self._reports(plan)
        tasks = [task for slot in slots for task in slot.tasks]
        self._standing.note(tasks, offsets.now, replay=replay)
        seconds = time.perf_counter() - began + self._planned_in / 1000
        if self._loop.reported is not None:
            self._loop.reported(slots)
        self._loop.listen(self._progress(offsets, slots, tasks, seconds))

    def _reports(self, plan: BatchPlan) -> tuple[SlotReport, ...]:
        """Run the job and read its reports; run it again if a slot only lost a race."""
        try:
            return patiently(lambda: read_reports(self._job.run(plan)), self._waits, self._loop.drain)
        except (PySparkException, Py4JError, JobFailedError) as error:
            if (busy := too_busy(error)) is not None:
                raise busy from error
            message = (
                f"The batch could not be run. Nothing is lost: the next run repeats it, except for what slots have "
                f"committed. What is known: {shortened(error)}"
            )
            raise HoldfastError(message, code="SlotDiedError") from error

    def _progress(
        self, offsets: Offsets, slots: Sequence[SlotReport], tasks: Sequence[TaskReport], seconds: float
    ) -> Progress:
        read, streams, late, misplaced = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
        failed, unkeyed, expired = Counter[str](), Counter[str](), Counter[str]()
        for task in tasks:
            for total, counts in (
                (read, task.rows_in),
                (expired, task.expired),
                (streams, task.rows_out),
                (late, task.late),
                (misplaced, task.misplaced),
                (failed, task.failed),
                (unkeyed, task.unkeyed),
            ):
                # Most are empty or have one name, for which `update` costs twice as much.
                if counts:
                    for name, number in counts.items():
                        total[name] += number
        slowest = max((slot.phases for slot in slots), key=lambda phases: sum(phases.values()), default={})
        spark = max(0.0, seconds * 1000 - self._planned_in - sum(slowest.values()))
        rows_in, rows_out = read.total(), streams.total()
        self._totals.add(rows_in, rows_out)
        mark = self._standing.lowest()
        return Progress(
            batch=offsets.batch,
            at=now(),
            attempt=self._loop.epoch,
            tasks=len(tasks),
            rows_in=rows_in,
            rows_out=rows_out,
            bytes_out=sum(task.bytes_out for task in tasks),
            lag=sum(map(sum, self._left.lags.values())),
            lags=self._left.lags,
            unread_from=self._standing.unread_from(self._left.lags, self._loop.reading.readers),
            seconds=seconds,
            phases={"plan": self._planned_in, "spark": spark, **slowest},
            watermark=mark.watermark,
            watermarks=self._standing.watermarks(),
            held_back="; ".join([*self._left.held_inputs, *([] if mark.held_back is None else [mark.held_back])])
            or None,
            held_by=mark.held_by,
            state_bytes=sum(self._standing.state_bytes.values()),
            buffered=self._standing.buffered(),
            loading=self._left.loading,
            incomplete=offsets.incomplete,
            unkeyed=dict(unkeyed),
            late=dict(late),
            ahead=sum(task.ahead for task in tasks),
            first_ahead=next((task.first_ahead for task in tasks if task.first_ahead is not None), None),
            undecoded=sum(task.undecoded for task in tasks),
            unwritable=sum(task.unwritable for task in tasks),
            expired=dict(expired),
            tombstones=sum(task.tombstones for task in tasks),
            misplaced=dict(misplaced),
            failed=dict(failed),
            freed=reduce(Freed.with_more, (slot.freed for slot in slots), Freed()),
            restored=tuple(f"{task.task}: {task.restored}" for task in tasks if task.restored is not None),
            read=dict(read),
            streams=dict(streams),
        )


def shortened(error: Exception) -> str:
    """Return an error's text, as far as a message can hold it."""
    text = str(error)
    return text if len(text) < _LONGEST else f"{text[:_LONGEST]} ..."
