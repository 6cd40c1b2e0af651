"""The verb `process`: a user function called per key and batch, with the rows of the key and its state.

Rows come first, with the timers of their keys that are due between them (`row_calls`). Then the other timers that are
due in this batch fire: first event time, then processing time, each ordered by time and key. Timers beyond the limit of
a batch wait for the next batches, which follow at once. At the end of the streams all event time has passed, and
processing-time timers no longer fire. Must not read a clock, and must not write anything but the two tables of its
step.
"""

import gc
import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import UserActionError
from holdfast.spec.steps import Process
from holdfast.spec.values import millis
from holdfast.times import micros
from holdfast_runtime.functions import Tables
from holdfast_runtime.steps.context import StepClock, TaskTables
from holdfast_runtime.steps.failures import FailedRow, FailedRows, FunctionResultError, UserFunctionError, row_named
from holdfast_runtime.steps.keyed.grouped_keys import KeyReader, key_groups
from holdfast_runtime.steps.keyed.key_calls import Function, KeyCalls
from holdfast_runtime.steps.keyed.key_state import (
    LATEST,
    BatchMoment,
    DueInstant,
    KeyState,
    TimerKind,
    index_key,
    timer,
    waiting,
)
from holdfast_runtime.steps.keyed.key_table import TIMERS_SUFFIX, KeyTable, key_of, row_key
from holdfast_runtime.steps.keyed.row_calls import CallResults, RowCalls
from holdfast_runtime.steps.keyed.state_values import UnsupportedValue
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.row_dicts import RowFault, TimeUnusableError, result_rows, row_dicts, short
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.codecs import event_times
from holdfast_runtime.streams.record_keys import holds_floats, one_zero


class StateValueError(UserActionError):
    """A user function left a value in its state that can't be stored."""


_FIRED_AT_ONCE = 10_000
"""How many timers are in memory at a time, however many are due."""
_MOST_FIRED = 50_000
"""How many timer calls of one kind a batch makes at most.

Their results are in memory, and a batch should not take minutes because many timers have the same time.
"""


def _column(schema: pa.Schema, name: str, step: str) -> str:
    """Return the column's name as the input spells it: Spark ignores case."""
    names = [column for column in schema.names if column == name] or [
        column for column in schema.names if column.lower() == name.lower()
    ]
    if not names:
        message = f"step {step}: the rows it is given have no column {name}, only {', '.join(schema.names)}"
        raise FunctionResultError(message)
    return str(names[0])


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause Python's cycle collector: scanning so many new dicts again and again takes a third of the time."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


@dataclass(frozen=True, slots=True)
class ProcessSetting:
    """What a step has of what is around it."""

    event_time: str | None = None
    """The event-time column, if the function keeps it."""
    state: str | None = None
    """The name its state is kept under, if not its own."""
    tables: Tables = field(default_factory=Tables)
    """The tables in which its function looks rows up."""


class ProcessStep:
    """A step of this verb, for any number of tasks."""

    def __init__(
        self,
        name: str,
        verb: Process,
        function: Function,
        schema: pa.Schema,
        out: pa.Schema,
        setting: ProcessSetting = ProcessSetting(),
    ) -> None:
        self.name = name
        self.out = out
        self._by = [_column(schema, column, name) for column in verb.by]
        self._path = verb.function
        self._whose = f"step {name}: "
        self._function = function
        self._kept_as, self._tables = setting.state or name, setting.tables
        self._ttl = None if verb.ttl is None else millis(verb.ttl)
        self._reader = KeyReader(schema, self._by)
        self._floating = any(holds_floats(schema.field(column).type) for column in self._by)
        time = setting.event_time
        self._event_time = None if time is None else _column(out, time, name)

    def run(self, rows: TimedRows, tables: TaskTables, clock: StepClock) -> StepOutcome:
        """Run one batch of one task."""
        with _collector_paused():
            return self._run(rows, tables, clock, CallResults())

    def run_apart(self, rows: TimedRows, tables: TaskTables, clock: StepClock) -> StepOutcome:
        """Run one batch, where failing calls change nothing and their rows are put aside."""
        unusable: dict[int, FailedRow] = {}
        try:
            return self.run(rows, tables, clock)
        except TimeUnusableError:
            unusable = self._unusable(rows)
        except (UserFunctionError, FunctionResultError, StateValueError):
            pass
        for name in (self._kept_as, self._kept_as + TIMERS_SUFFIX):
            tables.table(name).forget()
        usable = np.isin(np.arange(rows.count), list(unusable), invert=True)
        single = KeyCalls(self.name, self._path, self._function, self.out)
        with _collector_paused():
            outcome = self._run(rows.where(usable) if unusable else rows, tables, clock, CallResults(single))
        indices = np.flatnonzero(usable).tolist()
        failed = [
            failure if failure.row is None else replace(failure, row=indices[failure.row]) for failure in single.failed
        ]
        return replace(outcome, failed=[FailedRows(rows, [*unusable.values(), *failed])])

    def _unusable(self, rows: TimedRows) -> dict[int, FailedRow]:
        """Return the rows that no function can be given, by index."""
        unusable = {}
        for index in range(rows.count):
            try:
                row_dicts(rows.rows.slice(index, 1), self._whose)
            except TimeUnusableError as error:
                unusable[index] = FailedRow(index, str(error), error.column)
        return unusable

    def _run(self, rows: TimedRows, tables: TaskTables, clock: StepClock, calls: CallResults) -> StepOutcome:
        moment = BatchMoment(clock, self._ttl, self._tables)
        table = KeyTable(self._kept_as, tables, moment)
        late = self._call_rows(rows, table, calls, moment) if rows.count else 0
        moment.firing = True
        until = LATEST if clock.ended else clock.watermark
        unfired: int | None = None
        if until is not None and not self._fire(TimerKind.EVENT, until, table, calls):
            unfired = next((instant.time for instant in table.due(TimerKind.EVENT, until, b"", 1)), None)
        if not clock.ended:
            self._fire(TimerKind.PROCESSING, clock.now, table, calls)
        table.expire()
        wake = table.wake(clock)
        return StepOutcome(self._results(calls), late={self.name: late}, unfired=unfired, wake=wake)

    def _call_rows(self, rows: TimedRows, table: KeyTable, results: CallResults, moment: BatchMoment) -> int:
        """Make the calls for rows; return how many of these were late."""
        groups, clock = key_groups(rows, self._by), table.clock
        dicts, marks = row_dicts(groups.rows, self._whose), clock.marks(groups.marks, groups.rows.num_rows)
        late = np.flatnonzero(clock.late(groups.times, groups.marks).to_numpy(zero_copy_only=False))
        moment.marks = marks.to_pylist()
        moment.give(dicts, late)
        loaded = table.load([row_key(key) for key in groups.keys])
        RowCalls(
            function=self._function,
            groups=groups,
            keys=self._keys(dicts, [0, *groups.ends[:-1]]),
            loaded=loaded,
            table=table,
            moment=moment,
            late=late,
            anew=lambda start, end: row_dicts(groups.rows.slice(start, end - start), self._whose),
            fire=lambda instant, state, key: self._fire_one(TimerKind.EVENT, instant, state, key, results, clock),
            fail=lambda error, key, returned, row: self._failed(
                error, key, returned, f", whose first row here is {row_named(rows, groups.first_index(row))}"
            ),
            results=results,
        ).run()
        table.save(loaded, self._refuse_state)
        return len(late)

    def _keys(self, dicts: list[dict[str, Any]], starts: list[int]) -> list[Any]:
        """Return the keys of groups that start at these rows."""
        if len(self._by) == 1:
            (name,) = self._by
            keys = [dicts[start][name] for start in starts]
        else:
            keys = [tuple(dicts[start][name] for name in self._by) for start in starts]
        # The rows of one key may hold 0.0 and -0.0.
        return [one_zero(key) for key in keys] if self._floating else keys

    def _fire(self, kind: TimerKind, until: int, table: KeyTable, calls: CallResults) -> bool:
        """Serve due timers, the earliest first; return whether all were served.

        A timer set meanwhile fires now if it is later than the one that set it, otherwise in a later batch.
        """
        after, left = b"", _MOST_FIRED
        while served := table.due(kind, until, after, min(left, _FIRED_AT_ONCE)):
            last, queue = served[-1], served
            loaded = table.load(sorted({instant.key for instant in served}))
            states = dict(zip(loaded.keys, loaded.states, strict=True))
            keys = {key: self._key(key) for key in states}
            while queue and left:
                instant = heapq.heappop(queue)
                if self._fire_one(kind, instant, states[instant.key], keys[instant.key], calls, table.clock):
                    left -= 1
                    for when in waiting(states[instant.key], kind).values():
                        if when > instant.time and DueInstant(when, instant.key) <= last:
                            heapq.heappush(queue, DueInstant(when, instant.key))
            table.save(loaded, self._refuse_state)
            if not left:
                return False
            after = index_key(kind, last.time, last.key)
        return True

    def _fire_one(
        self,
        kind: TimerKind,
        instant: DueInstant,
        state: KeyState,
        key: Any,
        calls: CallResults,
        clock: StepClock,
    ) -> bool:
        timers = waiting(state, kind)
        names = sorted(name for name, when in timers.items() if when == instant.time)
        if not names:
            return False
        for name in names:
            del timers[name]
        state.fired = tuple(timer(kind, name, instant.time, clock) for name in names)
        if calls.single is not None:
            calls.rows += calls.single.timers(key, key_of(instant.key), state)
        else:
            self._call_timers(key, state, calls)
        moment = instant.time if kind is TimerKind.EVENT else clock.watermark
        calls.called(key, None if moment is None else micros(moment))
        return True

    def _call_timers(self, key: Any, state: KeyState, calls: CallResults) -> None:
        returned = None
        try:
            returned = self._function(key, [], state)
            if returned is not None:
                calls.rows.extend(returned)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            self._failed(error, key, returned)

    def _failed(self, error: Exception, key: Any, returned: Any, more: str = "") -> NoReturn:
        if returned is not None and not hasattr(returned, "__iter__"):
            self._refuse(key, f"gave {short(returned)}; it gives rows: `yield` them, or return a list")
        raise UserFunctionError.raised(error, self.name, self._path, f" for key {short(key)}{more}") from error

    def _key(self, row: bytes) -> Any:
        values = self._reader.values(key_of(row))
        return values[0] if len(self._by) == 1 else values

    def _refuse_state(self, row: bytes, fault: UnsupportedValue | None) -> NoReturn:
        path, why = ("", "") if fault is None else (fault.path, fault.why)
        message = (
            f"step {self.name}: in the state of key {short(self._key(row))}, {path} {why} ({self._path} left it there)"
        )
        raise StateValueError(message)

    def _results(self, calls: CallResults) -> TimedRows:
        if not calls.rows:
            return TimedRows.nothing(self.out)
        rows = result_rows(calls.rows, self.out)
        if isinstance(rows, RowFault):
            call = int(np.searchsorted(calls.ends, rows.row, side="right"))
            self._refuse(calls.keys[call], rows.message)
        times = pa.array(calls.times, pa.int64())
        times = times.take(pa.array(np.repeat(np.arange(len(times)), np.diff(calls.ends, prepend=0))))
        if self._event_time is not None:
            # A call for timers may leave the column out.
            times = pc.coalesce(event_times(rows, self._event_time), times)
        return TimedRows(rows, times)

    def _refuse(self, key: Any, complaint: str) -> NoReturn:
        message = f"step {self.name}: for key {short(key)}, {self._path} {complaint}"
        raise FunctionResultError(message)
