"""One slot in one batch, from ranges to commit: the heart of the engine.

    first segment:   open stores -> fetch, decode -> move event time -> steps           task by task
    other segments:  steps                                                              task by task
    last segment:    steps -> encode -> deltas -> outputs with markers -> local stores  all tasks at once

Only the last segment commits. The others read a task's store as the last batch left it; the changes of their steps
travel in a note behind the rows. If all steps fit into one segment, first and last are the same and nothing travels.
Must not know Spark: rows come and go as Arrow batches.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import pyarrow as pa

from holdfast.errors import HoldfastError
from holdfast_runtime.slot.batch_plan import (
    BatchPlan,
    check_delta,
    check_offsets,
    check_outputs,
    keep_offsets,
    keep_outputs,
)
from holdfast_runtime.slot.clock.clock_marks import MARKS
from holdfast_runtime.slot.clock.clock_messages import outgoing_messages
from holdfast_runtime.slot.clock.task_clock import ClockInput, StoredClock, advance_clock, clock_after, stopped_clock
from holdfast_runtime.slot.kept_stores import KeptStores
from holdfast_runtime.slot.outputs import write
from holdfast_runtime.slot.report import Failure, PhaseTimes, SlotReport, TaskReport, TurnNote
from holdfast_runtime.slot.slot_transaction import SlotTransaction
from holdfast_runtime.slot.worker_tools import WorkerTools
from holdfast_runtime.state.commit import Outputs, TaskCommit, commit, is_decided
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.opening import OpenedStore, StoreRequest, open_stores
from holdfast_runtime.state.durable.restorable import keep_restorable
from holdfast_runtime.state.errors import StateUnreadableError
from holdfast_runtime.state.store.delta import Delta
from holdfast_runtime.state.store.directory import StoreDirectory
from holdfast_runtime.state.store.environment import mark_damaged
from holdfast_runtime.state.store.table import state_view
from holdfast_runtime.state.store.task_store import CONTROL, TaskStore
from holdfast_runtime.steps.context import StepClock, TaskTables
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.markers import AttemptSlot, Decided, is_written
from holdfast_runtime.streams.records import Marker

Batches = Iterator[pa.RecordBatch]
Rows = dict[int, TimedRows]
At = Callable[[str], None]
RESULT = pa.schema([("result", pa.string())])


def _going_on(_: str) -> None:
    pass


class Slot:
    """One slot in one batch; `at` is called with each step of the commit, so that tests can crash there."""

    def __init__(
        self,
        workshop: WorkerTools,
        plan: BatchPlan,
        number: int,
        tasks: Sequence[str],
        at: At = _going_on,
        stores: KeptStores | None = None,
    ) -> None:
        """`stores`: where stores come from and go to; None: they are closed, as any process may run the next batch."""
        self._shop, self._plan, self._at = workshop, plan, at
        self._sender = AttemptSlot(workshop.program.who(plan.epoch), number)
        self._turns = {task: plan.turns[task] for task in tasks if task in plan.turns}
        self._phases, self._stores = PhaseTimes(), stores
        self._transaction = SlotTransaction(workshop.program, workshop.streams, self._sender, stores is not None)
        self._restored: set[str] = set()
        """Tasks whose stores were restored from their durable copies in this batch."""

    def first(self, batches: Batches) -> Batches:
        """Run the first of several segments."""
        for _ in batches:
            pass
        self._expect()
        for task in self._turns:
            yield from self._passed_on(0, task, *self._shielded(task, partial(self._started, task)))

    def between(self, batches: Batches, level: int) -> Batches:
        """Run a segment between two others."""
        for number, rows, notes in self._shop.layouts[level - 1].gathered(batches):
            task, note = self._shop.names[number], TurnNote.unpacked(notes)
            yield from self._passed_on(
                level, task, *self._shielded(task, partial(self._continued, task, level, note, rows))
            )

    def last(self, batches: Batches) -> Batches:
        """Run the last of several segments, and commit."""
        last = self._shop.program.compiled.last
        notes_and_rows: dict[str, tuple[TurnNote, Rows]] = {}
        for number, rows, notes in self._shop.layouts[last - 1].gathered(batches):
            note = TurnNote.unpacked(notes)
            self._phases.add(note.phases)
            notes_and_rows[self._shop.names[number]] = note, rows
        failures = [note.failure for note, _ in notes_and_rows.values() if note.failure is not None]

        def compute(store: TaskStore) -> tuple[TurnNote, Rows]:
            note, rows = notes_and_rows[store.task]
            for table, changes in note.changes.items():
                store.table(table).put_many([key for key, _ in changes], [value for _, value in changes])
            return self._finished(note, rows, store)

        reports = {task: note.report for task, (note, _) in notes_and_rows.items()}
        yield _text(failures[0].text() if failures else self._answer(compute, reports))

    def only(self, batches: Batches) -> Batches:
        """Run the only segment of an app without Spark SQL, and commit."""
        for _ in batches:
            pass
        yield _text(self.answer())

    def answer(self) -> str:
        """Run all of an app without Spark SQL, and commit."""
        self._expect()
        reports = {task: TaskReport(task) for task in self._turns}

        def compute(store: TaskStore) -> tuple[TurnNote, Rows]:
            return self._finished(*self._read(store, reports[store.task]), store)

        return self._answer(compute, reports)

    def _expect(self) -> None:
        """Announce what the slot will fetch, to be read ahead."""
        # Errors show at the fetch.
        with suppress(HoldfastError):
            self._shop.streams.expect([offset_range for turn in self._turns.values() for offset_range in turn.fetched])

    def _started(self, task: str) -> tuple[TurnNote, Rows]:
        """Do the first segment's work for a task."""
        turn, report = self._turns[task], TaskReport(task)
        with ExitStack() as stack:
            (part,) = self._parts([task], {task: report}, stack)
            stored = part.durable.find_delta(turn.number, self._plan.epoch)
            if stored is not None and is_decided(stored.delta, self._transaction):
                return TurnNote(report, decided=True), {}
            note, rows = self._read(part.store, report)
            step_rows = self._stepped(0, note, rows, part.store)
            note.changes = {
                name: changed for name in part.store.tables() if (changed := part.store.table(name).changes())
            }
            return note, step_rows

    def _continued(self, task: str, level: int, note: TurnNote, rows: Rows) -> tuple[TurnNote, Rows]:
        """Do the work of a middle segment for a task."""
        if note.failure is None and not note.decided:
            with state_view(self._store_directory(task), note.changes) as view:
                rows = self._stepped(level, note, rows, view)
                note.changes = view.changes()
        return note, rows

    def _read(self, store: TaskStore, report: TaskReport) -> tuple[TurnNote, Rows]:
        """Read the ranges of a task's turn, and advance its event time."""
        turn, plan = self._turns[store.task], self._plan
        note = TurnNote(report, generations=plan.tables, quiet=plan.quiet, now=plan.now)
        with self._trusting(store.task):
            check_offsets(store, turn)
        with self._phases.measured("fetch"):
            fetched = self._shop.fetch(turn, plan.now, report)
        clock_input = ClockInput(
            attempt=plan.epoch,
            turn=turn.number,
            now=plan.now,
            first=plan.first,
            deliveries=fetched.deliveries,
            latest=fetched.latest,
            ended=turn.ended,
            rows=sum(report.rows_in.values()),
        )
        stored = StoredClock(dict(store.control.scan()), dict(store.table(MARKS).scan()))
        note.letters, note.dataset_ends = fetched.letters, fetched.dataset_ends
        keep_offsets(store, turn)
        if plan.quiet:
            with self._trusting(store.task):
                _put(store, CONTROL, stopped_clock(self._shop.clock_plan(store.task), stored, clock_input))
            return note, fetched.rows
        clock_plan = self._shop.clock_plan(store.task)
        with self._trusting(store.task):
            now = advance_clock(clock_plan, stored, clock_input)
        self._shop.mark_rows(clock_plan, fetched, now.known, clock_input)
        note.clocks = {
            step: StepClock(
                plan.now, mark, now.ended[step], now.before[step], now.horizon, plan.skew, step in clock_plan.marked
            )
            for step, mark in now.watermarks.items()
        }
        note.pending_messages, report.wake = now.pending_messages, now.wake
        report.stream_marks = dict(now.streams)
        report.note_ahead(now.disbelieved)
        _put(store, CONTROL, now.control)
        return note, fetched.rows

    def _finished(self, note: TurnNote, rows: Rows, store: TaskStore) -> tuple[TurnNote, Rows]:
        """Run the last steps of a task, and make the messages that follow its rows."""
        step_rows = self._stepped(self._shop.program.compiled.last, note, rows, store)
        if note.latest:
            self._set_times(note, store)
        if note.pending_messages is not None:
            plan, marks = self._shop.clock_plan(store.task), dict(store.table(MARKS).scan())
            after = outgoing_messages(plan, marks, note.pending_messages, note.unfired)
            note.control_messages, report = after.control_messages, note.report
            report.watermark, report.ended = after.watermark, after.all_ended
            report.held_back, report.held_by = after.held_back, after.held_by
            _put(store, MARKS, after.marks)
        return note, step_rows

    def _set_times(self, note: TurnNote, store: TaskStore) -> None:
        """Move the watermarks of steps that gave rows their event times, for the next batch."""
        clock_plan, turn = self._shop.clock_plan(store.task), self._turns[store.task].number
        with self._trusting(store.task):
            stored = dict(store.control.scan())
            control, moved = clock_after(clock_plan, stored, note.latest, turn, self._plan.now)
        _put(store, CONTROL, control)
        if moved:
            note.report.wake = self._plan.now

    def _stepped(self, level: int, note: TurnNote, rows: Rows, tables: TaskTables) -> Rows:
        with self._phases.measured("tables"):
            self._shop.shared_tables.bring_up(self._plan, note.report, self._at)
        with self._phases.measured("steps"), self._trusting(note.report.task):
            return self._shop.steps.run(level, rows, note, tables)

    @contextmanager
    def _trusting(self, task: str) -> Iterator[None]:
        """Mark a local store that can't be read as damaged, so that it is restored, unless it was restored just now."""
        try:
            yield
        except StateUnreadableError as error:
            if task in self._restored:
                raise
            raise mark_damaged(self._store_directory(task), str(error.__cause__)) from error

    def _answer(self, compute: Callable[[TaskStore], tuple[TurnNote, Rows]], reports: Mapping[str, TaskReport]) -> str:
        try:
            return self._committed(compute, reports).text()
        except HoldfastError as error:
            return Failure.of(error, f"tasks {', '.join(self._turns)}").text()

    def _committed(
        self, compute: Callable[[TaskStore], tuple[TurnNote, Rows]], reports: Mapping[str, TaskReport]
    ) -> SlotReport:
        """Commit all tasks of the slot in the required order, and return the report."""
        sizes: dict[str, int] = {}

        def computed(stores: Sequence[TaskStore]) -> dict[str, Outputs]:
            return {store.task: self._encoded(store, *compute(store), sizes) for store in stores}

        def written(deltas: Sequence[Delta], decided: Decided) -> None:
            for delta in deltas:
                check_delta(delta, self._turns[delta.identity.task])
            program = self._shop.program
            outputs_by_marker = {program.marker(delta, self._plan.epoch): delta.outputs for delta in deltas}
            # Before any write: if one partition has this batch with other content, no partition may get ours.
            for marker in outputs_by_marker:
                self._check_sent(marker)
            with self._phases.measured("write"):
                write(outputs_by_marker, self._shop.streams, self._sender, self._at, decided)

        with ExitStack() as stack, self._phases.measured("commit"):
            parts = self._parts([*self._turns], reports, stack)
            commit(parts, self._plan.epoch, computed, written, self._transaction, self._at)
            for part in parts:
                self._tidied(part, reports[part.store.task])
            freed = self._shop.cleanup.after(self._plan.epoch, self._at, committed=bool(parts))
            if self._stores is not None:
                self._stores.keep(parts)
                stack.pop_all()
        for report in reports.values():
            report.replayed = report.task not in sizes
            report.bytes_out = sizes.get(report.task, 0)
        return SlotReport(tuple(reports.values()), self._phases.taken(), freed)

    def _encoded(self, store: TaskStore, note: TurnNote, rows: Rows, sizes: dict[str, int]) -> Outputs:
        turn = self._turns[store.task]
        with self._phases.measured("encode"):
            outbox = self._shop.outbox(turn, self._plan.wall, rows, note)
            outputs = outbox.outgoing()
        in_log = (str(to) for to in outputs.partitions() if self._shop.streams.in_log(to.stream))
        keep_outputs(store, turn.number, in_log)
        note.report.rows_out, note.report.unwritable = outbox.rows, outbox.unwritable
        note.report.expired = outbox.expired
        sizes[store.task] = outputs.size
        return outputs

    def _tidied(self, part: TaskCommit, report: TaskReport) -> None:
        """Take a snapshot if one is due, and remove what it makes obsolete."""
        report.state_bytes = part.store.used()
        with self._phases.measured("snapshot"):
            keep_restorable(part.store, part.durable, self._shop.program.state.snapshots, self._plan.epoch)

    def _parts(self, tasks: Sequence[str], reports: Mapping[str, TaskReport], stack: ExitStack) -> list[TaskCommit]:
        """Return what these tasks commit to; the stack closes their stores."""
        copies = {task: self._shop.program.state.copy(self._shop.program.identity(task), self._at) for task in tasks}
        stores: dict[str, TaskStore] = {}
        for task in tasks:
            if (store := self._kept(task)) is not None:
                stores[task] = store
                stack.callback(store.close)
        missing = [task for task in tasks if task not in stores]
        opened_stores = self._opened({task: copies[task] for task in missing}) if missing else []
        for opened in opened_stores:
            stores[opened.store.task] = opened.store
            stack.callback(opened.store.close)
        for opened in opened_stores:
            self._note_opened(opened, reports[opened.store.task])
        return [
            TaskCommit(stores[task], copies[task], self._turns[task].number, self._sent(task), task not in missing)
            for task in tasks
        ]

    def _kept(self, task: str) -> TaskStore | None:
        return None if self._stores is None else self._stores.take(task, self._turns[task].number, self._plan.epoch)

    def _opened(self, copies: Mapping[str, DurableCopy]) -> list[OpenedStore]:
        turns, epoch = self._turns, self._plan.epoch
        with self._phases.measured("open"):
            return open_stores(
                [
                    StoreRequest(self._store_directory(task), durable, number, epoch, new=number == 1)
                    for task, durable in copies.items()
                    for number in [turns[task].number]
                ]
            )

    def _sent(self, task: str) -> int | None:
        sent = self._shop.program.sent.get(task)
        return None if sent is None else sent.marker.batch

    def _note_opened(self, opened: OpenedStore, report: TaskReport) -> None:
        """Note what became of a task's local store, and check that it is of the history of its outputs."""
        task = opened.store.task
        if opened.distrust is not None and self._turns[task].number > 1:
            self._restored.add(task)
            snapshots = () if opened.restored is None else opened.restored.damaged
            report.restored = "; ".join((opened.distrust.message, *snapshots))
        if self._plan.first:
            # Once per attempt: outputs that are restored from a copy while an attempt runs are not noticed.
            with self._trusting(task):
                check_outputs(
                    opened.store, partial(self._shop.streams.log_marker, owner=self._shop.program.owner, task=task)
                )

    def _store_directory(self, task: str) -> StoreDirectory:
        return self._shop.program.state.store_directory(self._shop.program.identity(task))

    def _check_sent(self, marker: Marker) -> None:
        if (sent := self._shop.program.sent.get(marker.task)) is not None:
            is_written(marker, sent.marker, sent.holder)

    def _shielded(self, task: str, act: Callable[[], tuple[TurnNote, Rows]]) -> tuple[TurnNote, Rows]:
        """Pass a Holdfast error on to the last segment, which then commits nothing. Other errors end the Spark task."""
        try:
            note, rows = act()
        except HoldfastError as error:
            note, rows = TurnNote(TaskReport(task), failure=Failure.of(error, f"task {task}")), {}
        note.phases = {**note.phases, **self._phases.taken()}
        return note, rows

    def _passed_on(self, level: int, task: str, note: TurnNote, rows: Rows) -> Batches:
        """Yield the rows that later segments need, and then the note."""
        layout, number = self._shop.layouts[level], self._shop.number[task]
        for node in self._shop.crossings[level]:
            if (node_rows := rows.get(node.index)) is not None and node_rows.count:
                yield from layout.packed(number, node.index, node_rows)
        yield layout.pack_note(number, note.packed())


def _put(tables: TaskStore, name: str, rows: Mapping[bytes, bytes | None]) -> None:
    tables.table(name).put_many(list(rows), list(rows.values()))


def _text(text: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([text])], schema=RESULT)
