"""TestDriver, which does Spark's part when the test says so: plan a batch, make it durable, run its slots.

    feed -> run: plan -> offsets durable -> slots -> done        restart: a new attempt continues from what is durable

Must not decide anything itself: all decisions are the engine's.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from holdfast.control.messages import EndOfStreamMessage, MessageNumber, encode
from holdfast.suggest import did_you_mean
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.checkpoint.offsets import DueJump, JumpFile, Offsets
from holdfast_runtime.clocks import BatchClock
from holdfast_runtime.coordination.coordinator import tasks_by_slot
from holdfast_runtime.coordination.local import LocalCoordinator
from holdfast_runtime.driver.attempt import Attempt
from holdfast_runtime.driver.file_tables import FileTables
from holdfast_runtime.driver.slot_memory import bytes_per_slot
from holdfast_runtime.functions import Timer
from holdfast_runtime.loop.next_batch import batch_to, next_offsets
from holdfast_runtime.loop.task_ledger import TaskLedger
from holdfast_runtime.slot.kept_stores import KeptStores
from holdfast_runtime.slot.report import TaskReport
from holdfast_runtime.state.durable.copy import SnapshotPolicy
from holdfast_runtime.state.shared.shared_table import TABLES
from holdfast_runtime.state.store.directory import drop
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog, close_under
from holdfast_runtime.streams.modules_beside import modules_beside
from holdfast_runtime.testing.batches import BatchResult, job_of, run_slots
from holdfast_runtime.testing.failures import CrashPoint, TestMisuseError
from holdfast_runtime.testing.records import AppStreams, ControlRecord, Record
from holdfast_runtime.testing.stand_ins import (
    AppLike,
    History,
    StoppedClock,
    app_of,
    compiled_for,
    folder_of,
    grown,
    millis_of,
    moment_of,
    offline,
)
from holdfast_runtime.testing.states import ALL_KEYS, TaskStates
from holdfast_runtime.worker_resources import calling_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 1, 1, tzinfo=UTC)
_HERE = "here"
_MOST_BATCHES = 10_000


@dataclass(frozen=True, slots=True)
class Lab:
    """Settings for tests of the engine itself."""

    at: Callable[[str], None] = lambda _: None
    """Called with each step that a batch reaches."""
    snapshots: SnapshotPolicy | None = None
    exclusive: bool = True
    """If false, other drivers may use the directory at the same time."""


class TestDriver:
    """Runs one app on one directory, batch by batch, in this process. A context manager."""

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
        """Start the first attempt of this driver.

        `data`: the directory for logs, state and checkpoint; by default a temporary one. `slots`: the number of slots
        that tasks are spread over. `now`: the initial clock; by default that of the last batch, or 2026-01-01 UTC.
        `spark`: a session, needed where Spark SQL computes something. Kafka topics are replaced by the embedded log.
        """
        self._app, self._slots, self._spark, self._lab = offline(app_of(app)), slots, spark, lab or Lab()
        self._folder = folder_of(app)
        self._crash, self._stores = CrashPoint(), KeptStores()
        self._stack = ExitStack()
        directory = data or Path(self._stack.enter_context(TemporaryDirectory(prefix="holdfast-test-")))
        self._data = DataDir(directory)
        self.late = 0
        """Rows that were late for a step, since this driver was created."""
        self.ahead = 0
        """Records whose event time was farther ahead of the clock than `maxAhead`, since this driver was created."""
        self.undecoded = 0
        """Records that could not be decoded and were skipped, since this driver was created."""
        self.failed = 0
        """Rows on which a step failed and that became dead letters, since this driver was created."""
        self.tombstones = 0
        """Records whose value is null, since this driver was created."""
        self.clock_jumped: str | None = None
        """The last message about a changed clock that a run would have shown; None if there was none."""
        self._ending = set[str]()
        try:
            if self._lab.exclusive:
                self._stack.enter_context(self._data.app(self._app.name).taken())
            self._stack.enter_context(calling_functions())
            self._directory = self._data.app(self._app.name).run(self._app.spec.run_id)
            self._history = History(self._directory.query)
            offsets = self._history.unfinished() or self._history.done()
            last = offsets.now - offsets.skew
            self._clock = StoppedClock(now or (moment_of(last) if last else START))
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
        """Release the directory; a temporary one is removed."""
        close_under(self._data.log)
        self._stack.close()

    @property
    def now(self) -> datetime:
        """The test's clock."""
        return moment_of(self._clock.wall)

    @property
    def attempt(self) -> int:
        """The number of the current attempt."""
        return self._epoch

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the app's tasks."""
        return tuple(self._program.tasks)

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Tables that lack rows which were read before, or were gone before they could be."""
        return self._done.incomplete

    @property
    def completed(self) -> bool:
        """Whether all inputs have ended, so that no task can get another row."""
        return set(self.tasks) <= self._standing.ended

    def feed(self, stream: str, rows: Sequence[Mapping[str, Any]] | pa.RecordBatch) -> None:
        """Write rows to an input, each to the partition of its key."""
        self._records.feed(self._kept_name(stream), rows, self._clock.wall)

    def feed_bytes(self, stream: str, values: Sequence[bytes | None], key: bytes | None = None) -> None:
        """Write record values unchanged, even if the stream's format can't decode them."""
        self._records.feed_bytes(self._kept_name(stream), values, key, self._clock.wall)

    def end(self, stream: str) -> None:
        """End a stream at its present end. It must be `bounded`, or have `control: true` (another app writes it)."""
        stream = self._kept_name(stream)
        declared = self._records.declared(stream)
        if declared.control:
            self._records.say(
                stream, encode(EndOfStreamMessage(stream, MessageNumber(self._done.batch, 0))), self._clock.wall
            )
        elif declared.bounded:
            self._ending.add(stream)
            for task, inputs in self._program.tasks.items():
                if any(partition.stream == stream for partition in inputs):
                    self._standing.wakes[task] = self._done.now
        else:
            message = f"stream {stream} never ends: set bounded: true in the spec, or control: true for another app's"
            raise TestMisuseError(message)

    def advance(self, by: float | timedelta) -> None:
        """Let this many seconds pass. A negative number only sets the clock back, as `set_clock` does."""
        self._clock.advance(by if isinstance(by, timedelta) else timedelta(seconds=by))

    def set_clock(self, to: datetime) -> None:
        """Set the host's clock while no time passes, as an administrator or a time service would."""
        self._clock.wall = millis_of(to)

    def run(self, batches: int = 1) -> tuple[BatchResult, ...]:
        """Run this many batches, fewer if there is nothing left to do."""
        results: list[BatchResult] = []
        # Between runs a test may look into the stores, and remove them.
        with self._names.explaining(), closing(self._stores):
            while len(results) < batches and (batch_result := self._batch()) is not None:
                results.append(batch_result)
        return tuple(results)

    def run_until_idle(self) -> tuple[BatchResult, ...]:
        """Run batches until nothing is left to do at the current clock."""
        results = self.run(_MOST_BATCHES)
        if len(results) == _MOST_BATCHES:
            message = f"the app is not idle after {_MOST_BATCHES} batches: does it feed itself, or set timers for now?"
            raise TestMisuseError(message)
        return results

    def crash_at(self, step: str, after: int = 1) -> None:
        """Crash when a batch reaches this step for the `after`-th time: `run` raises `Crashed`. Steps: `ALL_STEPS`."""
        if self._program.compiled.has_sql:
            message = "what Spark SQL computes runs in processes of Spark, where crash_at can't reach"
            raise TestMisuseError(message)
        self._crash.arm(step, after)

    def restart(self, app: AppLike | None = None) -> None:
        """Start a new attempt, of a changed app if one is given. It first runs a batch that was cut off."""
        if app is not None:
            self._app, self._folder = app_of(app), folder_of(app) or self._folder
        self._crash.disarm()
        self._begin()

    def grow(self, stream: str, partitions: int) -> None:
        """Give an input more partitions. The next attempt (`restart`) reads them."""
        kept_name = self._kept_name(stream)
        self._records.declared(kept_name)
        self._log.grow(self._program.plan.stream(kept_name).topic, partitions)
        self._app = grown(self._app, stream, partitions)

    def lose_local_state(self, task: str | None = None) -> None:
        """Remove the local store of a task, or of all tasks with Broadcast tables, as if their disk were lost."""
        for name in (self._task(task),) if task is not None else self.tasks:
            drop(self._program.state.store_directory(self._program.identity(name)))
        if task is None:
            rmtree(self._program.state.local / TABLES, ignore_errors=True)

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """Return all rows of a stream, by partition and offset."""
        return self._records.rows(self._kept_name(stream))

    def records(self, stream: str) -> list[Record]:
        """Return all records of a stream as they are stored, control messages included."""
        return self._records.records(self._kept_name(stream))

    def control(self, stream: str) -> list[ControlRecord]:
        """Return all control messages of a stream, by partition and offset."""
        return self._records.control(self._kept_name(stream))

    def state(self, step: str, key: Any) -> dict[Any, Any] | None:
        """Return what a `process` step keeps for a key (a tuple if of several columns); None if it keeps nothing."""
        key_state = self._kept().key(step, key, self._clock.wall)
        return None if key_state is None else dict(key_state)

    def timers(self, step: str, key: Any) -> tuple[Timer, ...]:
        """Return the pending timers of a key."""
        key_state = self._kept().key(step, key, self._clock.wall)
        return () if key_state is None else key_state.timers

    def kept_rows(self, step: str, key: Any = ALL_KEYS) -> list[dict[str, Any]]:
        """Return the rows that a step keeps in layers, or those of one key (a tuple if of several columns).

        They come as they are kept: task by task, the oldest stretch of time first, otherwise in no useful order.
        """
        return list(self._kept().rows(step, key))

    def tables(self, task: str) -> dict[str, dict[bytes, bytes]]:
        """Return all state of a task as table -> key -> value, in bytes, for comparisons."""
        return self._kept().tables(self._task(task))

    def watermark(self, name: str) -> datetime | None:
        """Return the watermark of a stream or of a step with `eventTime`, or the one that a task last reported.

        None if it is not known yet.
        """
        if name in self._program.tasks:
            mark = self._marks.get(name)
        else:
            stream = self._kept_name(name)
            if all(step.name != name or step.event_time is None for step in self._app.spec.steps):
                self._records.planned(stream)
            mark = self._kept().stream_watermark(stream, self._clock.wall)
        return None if mark is None else moment_of(mark)

    def _begin(self) -> None:
        spec = self._app.spec
        if self._slots < 1:
            message = f"tasks can't be spread over {self._slots} slots; give one or more"
            raise TestMisuseError(message)
        with LocalCoordinator(self._directory.metadata, self._app.name, spec.run_id) as coordinator:
            paths = self._data.paths(self._app.name, spec.run_id)
            beside = modules_beside(spec, self._folder)
            attempt = Attempt(self._app, paths, coordinator, lambda: self._clock.wall, beside=beside)
            self._names, spec = attempt.names, attempt.app.spec
            compiled = compiled_for(spec, attempt.plan, self._spark)
            placement = coordinator.placement(list(attempt.tasks), [_HERE], 1)
            assert placement is not None  # noqa: S101 - the one processor is up
            number = attempt.shut_out(self._slots)
            attempt.take_up(number, self._history.logged())
            reading = attempt.begin(placement, compiled, bytes_per_slot(0, 1, spec.runtime.executors.memory))
            program = attempt.program(compiled)
            if self._lab.snapshots is not None:
                program = replace(program, state=replace(program.state, snapshots=self._lab.snapshots))
            slots = tasks_by_slot(placement.assignment, self._slots)
            job = job_of(program, slots, self._spark, lambda: self._clock.wall, self._reached, self._stores)
        self._program, self._job, self._epoch, self._reading = program, job, number, reading
        self._bounds, self._assumed_bytes = attempt.bounds, attempt.assumed_bytes
        file_tables = attempt.file_tables(compiled)
        self._files = FileTables(file_tables, paths.state, number, lambda: self._clock.wall, lambda _: None)
        self._log = EmbeddedLog(self._data.log, sync=program.environment.sync)
        self._records = AppStreams(spec, program.plan, compiled, self._log)
        self._standing, self._marks, self._dead = TaskLedger(), dict[str, int | None](), False
        self._batch_clock = BatchClock()
        self._done, self._jump = self._history.done(), DueJump(JumpFile.beside(self._directory.query))
        # A bounded stream ends where the test ended it, even if that was in another process.
        self._ending |= {partition.stream for partition in (self._history.unfinished() or self._done).ends}

    def _batch(self) -> BatchResult | None:
        if self._dead:
            message = "the last batch did not end; `restart` begins a new attempt, which runs it again"
            raise TestMisuseError(message)
        # A batch that fails ends its attempt.
        self._dead = True
        batch_result = self._planned_and_run()
        self._dead = False
        return batch_result

    def _planned_and_run(self) -> BatchResult | None:
        unfinished = self._history.unfinished() if self._standing.first else None
        offsets = unfinished or self._next()
        if offsets is None:
            return None
        plan = batch_to(offsets, self._program.tasks, self._epoch, first=self._standing.first)
        tasks = run_slots(self._job, plan)
        self._reached("slots done")
        self._history.finish(offsets)
        self._done = offsets
        self._standing.note(tasks, offsets.now, replay=unfinished is not None)
        self._count(tasks)
        shown = tuple(task.under(self._names) for task in tasks)
        return BatchResult(offsets.batch, moment_of(offsets.now - offsets.skew), unfinished is not None, shown)

    def _kept_name(self, stream: str) -> str:
        """Return the name by which the run knows a stream."""
        return self._names.kept.get(stream, stream)

    def _next(self) -> Offsets | None:
        reading = replace(self._reading, bounded=self._reading.bounded & self._ending)
        jump = self._jump.after(self._done)
        time, jump_message = self._batch_clock.at(self._clock.instant, self._done.time)
        self.clock_jumped = jump_message or self.clock_jumped
        assumed = self._assumed_bytes({*self._done.record_bytes, *self._standing.record_bytes})
        self._files.look(self._done.tables)
        self._files.follow()
        sets = self._files.look(self._done.tables)
        loop_snapshot = self._standing.seen(self._bounds(), time, assumed=assumed, data_sets=sets)
        after = next_offsets(self._done, reading, loop_snapshot, jump)
        if after is self._done:
            return None
        self._history.plan(after)
        self._reached("offsets durable")
        return after

    def _count(self, tasks: Sequence[TaskReport]) -> None:
        for task in tasks:
            self.late += sum(task.late.values())
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
