"""Why: the verb `process`: a user's function is called per key and batch, with the rows of the key and its state.

First the rows, then the timers whose time has come with this batch: first those of event time, then those of
processing time, each in order of time and key. At the end of the streams all event time has passed, and processing time
counts no more. Must not read a clock, and must not write anything but the two tables of its step.
"""

import gc
import heapq
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.spec.steps import Process
from holdfast.spec.values import millis
from holdfast_runtime.steps.clock import Clock
from holdfast_runtime.steps.errors import FunctionResultError, UserFunctionError
from holdfast_runtime.steps.key_groups import key_groups
from holdfast_runtime.steps.key_rows import key_of, row_key
from holdfast_runtime.steps.key_state import KeyState, Moment, timer, waiting
from holdfast_runtime.steps.key_table import KeyTable
from holdfast_runtime.steps.key_values import KeyReader
from holdfast_runtime.steps.result_rows import Fault, result_rows, short
from holdfast_runtime.steps.row_dicts import row_dicts
from holdfast_runtime.steps.state_values import Unsupported
from holdfast_runtime.steps.tables import Tables
from holdfast_runtime.steps.timers import LATEST, Due, Kind, index_key
from holdfast_runtime.timed import Timed


class StateValueError(UserActionError):
    """A user's function left something in its state that can't be kept."""


Function = Callable[[Any, list[dict[str, Any]], KeyState], Iterable[dict[str, Any]] | None]

_FIRED_AT_ONCE = 10_000
"""So many timers are in memory together, however many are due."""


def _column(given: pa.Schema, name: str, step: str) -> str:
    """A column as it is written where it comes from: Spark does not look at case."""
    found = [one for one in given.names if one == name] or [one for one in given.names if one.lower() == name.lower()]
    if not found:
        message = f"step {step}: the rows it is given have no column {name}, only {', '.join(given.names)}"
        raise FunctionResultError(message)
    return str(found[0])


@contextmanager
def _collector_paused() -> Iterator[None]:
    """So many dicts at once make Python look through all of them for cycles, again and again: a third of the time."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


@dataclass(slots=True)
class _Calls:
    """What the calls of a batch gave."""

    found: list[Any] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """How many rows there were after each call."""
    times: list[int | None] = field(default_factory=list)
    """Of the rows of each call."""


class ProcessStep:
    """A step of this verb, for any number of tasks."""

    def __init__(self, name: str, verb: Process, function: Function, given: pa.Schema, out: pa.Schema) -> None:
        self.name = name
        self.out = out
        self.wake: int | None = None
        """After a run: when it must run next although no row comes; at or before its `now`: at once."""
        self._by = [_column(given, column, name) for column in verb.by]
        self._path = verb.function
        self._function = function
        self._ttl = None if verb.ttl is None else millis(verb.ttl)
        self._reader = KeyReader(given, self._by)

    def run(self, rows: Timed, tables: Tables, clock: Clock) -> Timed:
        """One batch of one task."""
        with _collector_paused():
            return self._run(rows, tables, clock)

    def _run(self, rows: Timed, tables: Tables, clock: Clock) -> Timed:
        moment = Moment(clock, self._ttl)
        table, calls = KeyTable(self.name, tables, moment), _Calls()
        if rows.count:
            self._call_rows(rows, table, calls)
        moment.firing = True
        if clock.ended or clock.watermark is not None:
            self._fire(Kind.EVENT, LATEST if clock.ended else clock.watermark or 0, table, calls)
        if not clock.ended:
            self._fire(Kind.PROCESSING, clock.now, table, calls, clock.watermark)
        table.expire()
        self.wake = table.wake(clock)
        return self._results(calls)

    def look(self, tables: Tables, clock: Clock) -> int | None:
        """What `wake` would be if it ran now without rows: for the first batch after a restart."""
        return KeyTable(self.name, tables, Moment(clock, self._ttl)).wake(clock)

    def _call_rows(self, rows: Timed, table: KeyTable, calls: _Calls) -> None:
        groups = key_groups(rows, self._by)
        dicts, start = row_dicts(groups.rows), 0
        held = table.load([row_key(key) for key in groups.keys])
        keys = self._keys(dicts, [0, *groups.ends[:-1]])
        # The same as `_call`, without a call of Python more for each key.
        function, found, ends = self._function, calls.found, calls.ends
        key = given = None
        try:
            for key, end, state in zip(keys, groups.ends, held.states, strict=True):
                given = None
                given = function(key, dicts[start:end], state)
                if given is not None:
                    found.extend(given)
                ends.append(len(found))
                start = end
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            self._failed(error, key, given)
        calls.keys.extend(keys)
        calls.times.extend(groups.latest.to_pylist())
        table.save(held, self._refuse_state)

    def _keys(self, dicts: list[dict[str, Any]], starts: list[int]) -> list[Any]:
        """Of groups that start there."""
        if len(self._by) == 1:
            (name,) = self._by
            return [dicts[start][name] for start in starts]
        return [tuple(dicts[start][name] for name in self._by) for start in starts]

    def _fire(self, kind: Kind, until: int, table: KeyTable, calls: _Calls, time: int | None = None) -> None:
        """Serve what is due; a timer set meanwhile fires now if it is later than the one that set it, else later."""
        after = b""
        while served := table.due(kind, until, after, _FIRED_AT_ONCE):
            last, queue = served[-1], served
            held = table.load(sorted({one.key for one in served}))
            states = dict(zip(held.keys, held.states, strict=True))
            keys = {key: self._key(key) for key in states}
            while queue:
                at = heapq.heappop(queue)
                if self._fire_one(kind, at, states[at.key], keys[at.key], calls):
                    calls.times.append(at.time if kind is Kind.EVENT else time)
                    for when in waiting(states[at.key], kind).values():
                        if when > at.time and Due(when, at.key) <= last:
                            heapq.heappush(queue, Due(when, at.key))
            table.save(held, self._refuse_state)
            after = index_key(kind, last.time, last.key)

    def _fire_one(self, kind: Kind, at: Due, state: KeyState, key: Any, calls: _Calls) -> bool:
        timers = waiting(state, kind)
        names = sorted(name for name, when in timers.items() if when == at.time)
        if not names:
            return False
        for name in names:
            del timers[name]
        state.fired = tuple(timer(kind, name, at.time) for name in names)
        self._call(key, [], state, calls)
        return True

    def _call(self, key: Any, rows: list[dict[str, Any]], state: KeyState, calls: _Calls) -> None:
        given = None
        try:
            given = self._function(key, rows, state)
            if given is not None:
                calls.found.extend(given)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            self._failed(error, key, given)
        calls.keys.append(key)
        calls.ends.append(len(calls.found))

    def _failed(self, error: Exception, key: Any, given: Any) -> NoReturn:
        if given is not None and not hasattr(given, "__iter__"):
            self._refuse(key, f"gave {short(given)}; it gives rows: `yield` them, or return a list")
        raise UserFunctionError.raised(error, self.name, self._path, f" for key {short(key)}") from error

    def _key(self, row: bytes) -> Any:
        values = self._reader.values(key_of(row))
        return values[0] if len(self._by) == 1 else values

    def _refuse_state(self, row: bytes, fault: Unsupported | None) -> NoReturn:
        where, why = ("", "") if fault is None else (fault.path, fault.why)
        message = (
            f"step {self.name}: in the state of key {short(self._key(row))}, {where} {why} ({self._path} left it there)"
        )
        raise StateValueError(message)

    def _results(self, calls: _Calls) -> Timed:
        if not calls.found:
            return Timed.nothing(self.out)
        rows = result_rows(calls.found, self.out)
        if isinstance(rows, Fault):
            call = int(np.searchsorted(calls.ends, rows.row, side="right"))
            self._refuse(calls.keys[call], rows.message)
        times = pa.array(calls.times, pa.int64())
        return Timed(rows, times.take(pa.array(np.repeat(np.arange(len(times)), np.diff(calls.ends, prepend=0)))))

    def _refuse(self, key: Any, what: str) -> NoReturn:
        message = f"step {self.name}: for key {short(key)}, {self._path} {what}"
        raise FunctionResultError(message)
