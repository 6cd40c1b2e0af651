"""TestDriver, which plays Spark's part: asks for batches, makes them durable, has slots run, when the test says so.

    feed -> run: plan -> offsets durable -> slots -> done        restart: a new attempt goes on from what is durable

Must not do what the engine does: all decisions are the engine's own.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from holdfast.control.messages import EndOfStreamMessage, Position, encode
from holdfast.errors import RetrySoonError
from holdfast.suggest import did_you_mean
from holdfast_runtime.checkpoint.data_dir import DataDir
from holdfast_runtime.checkpoint.jumps import DueJump, JumpFile
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.clocks import BatchClock, Instant
from holdfast_runtime.coordination.local import LocalCoordinator
from holdfast_runtime.coordination.placements import tasks_by_slot
from holdfast_runtime.driver.attempt import Attempt
from holdfast_runtime.loop.next_batch import batch_to, next_offsets
from holdfast_runtime.loop.task_ledger import TaskLedger
from holdfast_runtime.segments.graph import compile_graph
from holdfast_runtime.slot.report import TaskReport, read_reports
from holdfast_runtime.state.durable import SnapshotPolicy
from holdfast_runtime.state.place import drop
from holdfast_runtime.steps.key_state import Timer
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.log.open_partitions import close_under
from holdfast_runtime.testing.apps import AppLike, app_of, grown, offline
from holdfast_runtime.testing.failures import CrashPoint, TestMisuseError
from holdfast_runtime.testing.history import History
from holdfast_runtime.testing.jobs import columns_of_selects, job_of
from holdfast_runtime.testing.records import AppStreams, ControlRecord, Record
from holdfast_runtime.testing.states import TaskStates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 1, 1, tzinfo=UTC)
_HERE = "here"
_TRIES = 10
_MOST_BATCHES = 10_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What one batch did."""

    number: int
    """In the life of the run, from 1."""
    now: datetime
    """Its clock."""
    replay: bool
    """An earlier attempt had planned it."""
    tasks: tuple[TaskReport, ...]
    """What became of each task that took part."""

    @property
    def rows_in(self) -> int:
        """Over all tasks."""
        return sum(task.rows_in for task in self.tasks)

    @property
    def rows_out(self) -> int:
        """Over all tasks and streams."""
        return sum(sum(task.rows_out.values()) for task in self.tasks)


@dataclass(frozen=True, slots=True)
class Lab:
    """What tests of the engine itself may change."""

    at: Callable[[str], None] = lambda _: None
    """Told each step that a batch reaches."""
    snapshots: SnapshotPolicy | None = None
    exclusive: bool = True
    """False: other drivers may be at work on the directory."""


class TestDriver:
    """One app on one directory, run batch by batch in this process. A context manager."""

    __test__ = False

    def __init__(
        self,
        app: AppLike,
        data: Path | None = None,
        *,
        slots: int = 1,
        now: datetime | None = None,
        spark: "SparkSession | None" = None,
        lab: Lab | None = None,
    ) -> None:
        """Begin the first attempt of this driver.

        `data`: where logs, state and checkpoint are, a temporary directory unless given. `slots`: over how many
        slots tasks are spread. `now`: where the clock begins; without, where the last batch was, or at 2026-01-01 UTC.
        `spark`: a session, for apps with filter or select. Topics of Kafka are played by the embedded log.
        """
        self._app, self._slots, self._spark, self._lab = offline(app_of(app)), slots, spark, lab or Lab()
        self._crash = CrashPoint()
        self._stack = ExitStack()
        folder = data or Path(self._stack.enter_context(TemporaryDirectory(prefix="holdfast-test-")))
        self._data = DataDir(folder)
        self.late = 0
        """Rows that came behind the watermark, since this driver was made."""
        self.ahead = 0
        """Records whose event time was farther ahead of the clock than `maxAhead`, since this driver was made."""
        self.undecoded = 0
        """Records that could not be decoded and were skipped, since this driver was made."""
        self.failed = 0
        """Rows on which steps failed and that became dead letters, since this driver was made."""
        self.tombstones = 0
        """Records whose value is null, since this driver was made."""
        self.clock_jumped: str | None = None
        """What a run would have said last of a clock that was set."""
        try:
            if self._lab.exclusive:
                self._stack.enter_context(self._data.app(self._app.name).taken())
            self._places = self._data.app(self._app.name).run(self._app.spec.run_id)
            self._history = History(self._places.query)
            offsets = self._history.unfinished() or self._history.done()
            last = offsets.now - offsets.skew
            self._now, self._passed = _millis(now) if now is not None else last or _millis(START), 0
            self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let others in; a temporary directory is removed."""
        close_under(self._data.log)
        self._stack.close()

    @property
    def now(self) -> datetime:
        """The clock."""
        return _datetime(self._now)

    @property
    def attempt(self) -> int:
        """The number of the attempt."""
        return self._epoch

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of the app."""
        return tuple(self._program.tasks)

    @property
    def completed(self) -> bool:
        """Whether everything has ended: no row can come to any task any more."""
        return set(self.tasks) <= self._standing.ended

    def feed(self, stream: str, rows: Sequence[Mapping[str, Any]] | pa.RecordBatch) -> None:
        """Write rows into an input, each to the partition of its key."""
        self._records.feed(stream, rows, self._now)

    def feed_bytes(self, stream: str, values: Sequence[bytes | None], key: bytes | None = None) -> None:
        """Write record values as they are, whatever they hold."""
        self._records.feed_bytes(stream, values, key, self._now)

    def end(self, stream: str) -> None:
        """Let a stream end where it is now: one that is `bounded`, or another app's that carries control messages."""
        declared = self._records.declared(stream)
        if declared.control:
            self._records.say(stream, encode(EndOfStreamMessage(stream, Position(self._done.batch, 0))), self._now)
        elif declared.bounded:
            self._ending.add(stream)
            for task, inputs in self._program.tasks.items():
                if any(one.stream == stream for one in inputs):
                    self._standing.wakes[task] = self._done.now
        else:
            message = f"stream {stream} never ends: set bounded: true in the spec, or control: true for another app's"
            raise TestMisuseError(message)

    def advance(self, by: float | timedelta) -> None:
        """Let so many seconds pass; of fewer than none, the clock alone goes back. See `set_clock`."""
        later = (by if isinstance(by, timedelta) else timedelta(seconds=by)) // _MILLISECOND
        self._now += later
        self._passed += max(later, 0)

    def set_clock(self, to: datetime) -> None:
        """Set the host's clock, in no time: as an administrator does, or a time service that was away."""
        self._now = _millis(to)

    def run(self, batches: int = 1) -> tuple[BatchResult, ...]:
        """Run so many batches; fewer where there is nothing to do."""
        results: list[BatchResult] = []
        while len(results) < batches and (result := self._batch()) is not None:
            results.append(result)
        return tuple(results)

    def run_until_idle(self) -> tuple[BatchResult, ...]:
        """Run batches until there is nothing to do at this time of the clock."""
        results = self.run(_MOST_BATCHES)
        if len(results) == _MOST_BATCHES:
            message = f"the app is not idle after {_MOST_BATCHES} batches: does it feed itself, or set timers for now?"
            raise TestMisuseError(message)
        return results

    def crash_at(self, step: str, after: int = 1) -> None:
        """Die when this step is reached, the so-manieth time from now on: `run` raises `Crashed`. See `ALL_STEPS`."""
        if self._program.compiled.has_sql:
            message = "an app with filter or select steps runs in processes of Spark, where crash_at can't reach"
            raise TestMisuseError(message)
        self._crash.arm(step, after)

    def restart(self, app: AppLike | None = None) -> None:
        """Begin a new attempt, of a changed app if one is given. A batch that was cut off is its first."""
        if app is not None:
            self._app = app_of(app)
        self._crash.disarm()
        self._begin()

    def grow(self, stream: str, partitions: int) -> None:
        """Give an input more partitions, which the next attempt (`restart`) will see."""
        self._records.declared(stream)
        self._log.grow(self._program.plan.stream(stream).topic, partitions)
        self._app = grown(self._app, stream, partitions)

    def lose_local_state(self, task: str | None = None) -> None:
        """Take the local store of a task away, or all of them: their disk is lost."""
        for one in (self._task(task),) if task is not None else self.tasks:
            drop(self._program.state.place(self._program.identity(one)))

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """The rows that stand in a stream, by partition and offset."""
        return self._records.rows(stream)

    def records(self, stream: str) -> list[Record]:
        """Its records as they are stored, control messages among them."""
        return self._records.records(stream)

    def control(self, stream: str) -> list[ControlRecord]:
        """The control messages that stand in a stream, by partition and offset."""
        return self._records.control(stream)

    def state(self, step: str, key: Any) -> dict[Any, Any] | None:
        """What a `process` step keeps of a key (of several columns: a tuple); None: nothing."""
        found = self._kept().key(step, key, self._now)
        return None if found is None else dict(found)

    def timers(self, step: str, key: Any) -> tuple[Timer, ...]:
        """The timers of a key that wait."""
        found = self._kept().key(step, key, self._now)
        return () if found is None else found.timers

    def tables(self, task: str) -> dict[str, dict[bytes, bytes]]:
        """All that a task keeps, as bytes: for comparing."""
        return self._kept().tables(self._task(task))

    def watermark(self, name: str) -> datetime | None:
        """How far event time has come: in a stream, or in a task as it last reported; None: not known yet."""
        if name in self._program.tasks:
            found = self._marks.get(name)
        else:
            self._records.planned(name)
            found = self._kept().stream_watermark(name, self._now)
        return None if found is None else _datetime(found)

    def _begin(self) -> None:
        spec = self._app.spec
        if self._slots < 1:
            message = f"tasks can't be spread over {self._slots} slots; give one or more"
            raise TestMisuseError(message)
        with LocalCoordinator(self._places.metadata, self._app.name, spec.run_id) as coordinator:
            places = self._data.places(self._app.name, spec.run_id)
            attempt = Attempt(self._app, places, coordinator, lambda: self._now)
            compiled = compile_graph(spec, attempt.plan, columns_of_selects(spec, self._spark))
            placement = coordinator.placement(list(attempt.tasks), [_HERE], 1)
            assert placement is not None  # noqa: S101 - the one processor is up
            number = attempt.shut_out(self._slots)
            attempt.take_up(number, self._history.logged())
            begun = attempt.begin(number, placement)
            program = attempt.program(compiled)
            if self._lab.snapshots is not None:
                program = replace(program, state=replace(program.state, snapshots=self._lab.snapshots))
            slots = tasks_by_slot(placement.assignment, self._slots)
            job = job_of(program, slots, self._spark, lambda: self._now, self._reached)
        self._program, self._job, self._epoch, self._reading = program, job, begun.number, begun.reading
        self._bounds, self._assumed_bytes = attempt.bounds, attempt.assumed_bytes
        self._log = EmbeddedLog(self._data.log, sync=program.where.sync)
        self._records = AppStreams(spec, program.plan, compiled, self._log)
        self._standing, self._marks, self._dead = TaskLedger(), dict[str, int | None](), False
        self._clock = BatchClock()
        self._done, self._jump = self._history.done(), DueJump(JumpFile.beside(self._places.query))
        # A bounded stream ends where the test ends it, also if that was in another process.
        self._ending = {partition.stream for partition in (self._history.unfinished() or self._done).ends}

    def _batch(self) -> BatchResult | None:
        if self._dead:
            message = "the last batch did not end; `restart` begins a new attempt, which runs it again"
            raise TestMisuseError(message)
        # A batch that fails ends its attempt.
        self._dead = True
        result = self._planned_and_run()
        self._dead = False
        return result

    def _planned_and_run(self) -> BatchResult | None:
        unfinished = self._history.unfinished() if self._standing.first else None
        offsets = unfinished or self._next()
        if offsets is None:
            return None
        plan = batch_to(offsets, self._program.tasks, self._epoch, first=self._standing.first)
        tasks = self._reports(plan.text())
        self._reached("slots done")
        self._history.finish(offsets)
        self._done = offsets
        self._standing.note(tasks, offsets.now, replay=unfinished is not None)
        self._count(tasks)
        return BatchResult(offsets.batch, _datetime(offsets.now - offsets.skew), unfinished is not None, tasks)

    def _next(self) -> Offsets | None:
        reading = replace(self._reading, bounded=self._reading.bounded & self._ending)
        jump = self._jump.after(self._done)
        time, said = self._clock.at(Instant(self._now, self._passed), self._done.time)
        self.clock_jumped = said or self.clock_jumped
        assumed = self._assumed_bytes({*self._done.record_bytes, *self._standing.record_bytes})
        seen = self._standing.seen(self._bounds(), time, assumed=assumed)
        after = next_offsets(self._done, reading, seen, jump)
        if after is self._done:
            return None
        self._history.plan(after)
        self._reached("offsets durable")
        return after

    def _reports(self, plan: str) -> tuple[TaskReport, ...]:
        for left in reversed(range(_TRIES)):
            try:
                return tuple(task for slot in read_reports(self._job.run(plan)) for task in slot.tasks)
            except RetrySoonError:
                if not left:
                    raise
        return ()

    def _count(self, tasks: Sequence[TaskReport]) -> None:
        for task in tasks:
            self.late += task.late
            self.ahead += task.ahead
            self.undecoded += task.undecoded
            self.failed += sum(task.failed.values())
            self.tombstones += task.tombstones
            if not task.replayed:
                self._marks[task.task] = task.watermark

    def _reached(self, step: str) -> None:
        self._lab.at(step)
        self._crash.reached(step)

    def _kept(self) -> TaskStates:
        return TaskStates(self._program, self._done)

    def _task(self, name: str) -> str:
        if name not in self._program.tasks:
            message = f"there is no task {name}{did_you_mean(name, self.tasks)}"
            raise TestMisuseError(message)
        return name


def _millis(moment: datetime) -> int:
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND


def _datetime(millis: int) -> datetime:
    return _EPOCH + millis * _MILLISECOND
