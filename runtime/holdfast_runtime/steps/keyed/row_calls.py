"""The calls of a `process` function for the rows of a batch, with the due event-time timers of a key between its rows.

A key gets its rows and timers in the order of event time, as if rows came one by one: a timer fires before the first
row whose mark has reached its time, whatever batch that row is in. One call takes all rows of a key, up to the next one
before which a timer fires. If it turns out to have set a timer that fires between these rows, it is made again for each
row, from the state and the rows as they were. Without marks, all rows of a batch have the watermark before it. Must not
touch tables.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from holdfast_runtime.steps.context import UNKNOWN
from holdfast_runtime.steps.keyed.grouped_keys import KeyGroups
from holdfast_runtime.steps.keyed.key_calls import Function, KeyCalls, Rows
from holdfast_runtime.steps.keyed.key_state import LATEST, BatchMoment, DueInstant, KeyState, TimerKind, waiting
from holdfast_runtime.steps.keyed.key_table import KeyTable, LoadedKeys


@dataclass(slots=True)
class CallResults:
    """The results of a batch's calls."""

    single: KeyCalls | None = None
    """Calls keys one by one, after some call has failed; None otherwise."""
    rows: list[Any] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """How many rows there were after each call."""
    times: list[int | None] = field(default_factory=list)
    """The event time of the rows of each call, in microseconds."""

    def called(self, key: Any, time: int | None) -> None:
        """Note that a call was made, whose rows have been found already and have this time."""
        self.keys.append(key)
        self.ends.append(len(self.rows))
        self.times.append(time)

    def forget_after(self, calls: int) -> None:
        """Forget all but the first calls."""
        del self.rows[self.ends[calls - 1] if calls else 0 :]
        del self.keys[calls:], self.ends[calls:], self.times[calls:]


@dataclass(slots=True)
class RowCalls:
    """The rows of a batch by key, and the calls for them."""

    function: Function
    groups: KeyGroups
    keys: Sequence[Any]
    """The key of each group, as the function gets it."""
    loaded: LoadedKeys
    table: KeyTable
    moment: BatchMoment
    late: npt.NDArray[np.intp]
    """Which rows are late."""
    anew: Callable[[int, int], Rows]
    """Builds the rows from one index to before another anew: a call may have changed those it was given."""
    fire: Callable[[DueInstant, KeyState, Any], object]
    """Makes the call for timers of a key."""
    fail: Callable[[Exception, Any, Any, int], NoReturn]
    """Raises the failure of a call: the error, its key, what it gave, and its first row."""
    results: CallResults
    _again: BatchMoment | None = None
    """The rows anew, for keys that are called again."""
    _noted: int = 0
    """How many keys have their calls among the results."""

    def run(self) -> None:
        """Make all calls."""
        if self.results.single is None:
            self._all()
        else:
            for key_index, start in enumerate([0, *self.groups.ends[:-1]]):
                self._in_order(key_index, start)
        self._note(len(self.keys))

    def _all(self) -> None:
        # One Python call for each key, where no timer fires between its rows.
        function, moment, marks, rows = self.function, self.moment, self.moment.marks, self.moment.rows
        result_rows, ends, start = self.results.rows, self.results.ends, 0
        for key_index, (key, end, state) in enumerate(
            zip(self.keys, self.groups.ends, self.loaded.states, strict=True)
        ):
            timers, moment.row = state._timers, start  # noqa: SLF001 - hidden from users, not from steps
            if timers is not None and timers[0] and min(timers[0].values()) <= marks[end - 1]:
                self._in_order(key_index, start)
                start = end
                continue
            returned = None
            try:
                returned = function(key, rows[start:end], state)
                if returned is not None:
                    result_rows.extend(returned)
            except Exception as error:  # noqa: BLE001 - whatever a user's function raises
                again = self._disturbed(start, end)
                if not again:
                    self.fail(error, key, returned, start)
            else:
                again = moment.earliest_set != LATEST and self._disturbed(start, end)
            if again:
                self._one_by_one(key_index, start)
            else:
                ends.append(len(result_rows))
            start = end

    def _note(self, key_index: int) -> None:
        """Note the keys up to this one, to which one call each has been made."""
        self.results.keys.extend(self.keys[self._noted : key_index])
        self.results.times.extend(self.groups.latest[self._noted : key_index])
        self._noted = key_index + 1

    def _disturbed(self, start: int, end: int) -> bool:
        """Whether the call for these rows has set a timer that fires between them."""
        earliest, self.moment.earliest_set = self.moment.earliest_set, LATEST
        return end - start > 1 and earliest <= self.moment.marks[end - 1]

    def _in_order(self, key_index: int, start: int) -> None:
        """Call for the rows of a key as many at a time as possible, with timers between them."""
        self._note(key_index)
        calls, single = len(self.results.ends), self.results.single
        failed = 0 if single is None else len(single.failed)
        row, end, state = start, self.groups.ends[key_index], self.loaded.states[key_index]
        while row < end:
            self._fire_before(row, key_index, state)
            due = min(waiting(state, TimerKind.EVENT).values(), default=LATEST)
            upto = bisect_left(self.moment.marks, due, row + 1, end)
            if not self._called(row, upto, key_index, state):
                self.results.forget_after(calls)
                if single is not None:
                    del single.failed[failed:]
                self._one_by_one(key_index, start)
                return
            row = upto

    def _one_by_one(self, key_index: int, start: int) -> None:
        """Call for each row of a key, from the state and the rows as they were."""
        self._note(key_index)
        self.results.forget_after(len(self.results.ends))
        state = self.loaded.states[key_index] = self.table.load_again(self.loaded, key_index, self._moment_again())
        for row in range(start, self.groups.ends[key_index]):
            self._fire_before(row, key_index, state)
            self._called(row, row + 1, key_index, state)

    def _moment_again(self) -> BatchMoment:
        """Return the moment of keys that are called again, with rows as they were."""
        if self.results.single is not None:
            return self.moment  # such calls get rows of their own
        if self._again is None:
            self._again = replace(self.moment)
            self._again.give(self.anew(0, self.groups.rows.num_rows), self.late)
        return self._again

    def _fire_before(self, row: int, key_index: int, state: KeyState) -> None:
        """Fire the timers that are due before a row; of those that they set, the ones that are later than they are."""
        moment, key, served = state._moment, self.loaded.keys[key_index], UNKNOWN  # noqa: SLF001 - as above
        moment.row = row
        while (due := self._due(state, served, moment.marks[row])) is not None:
            served = due
            self.fire(DueInstant(due, key), state, self.keys[key_index])
            state.fired = ()
        moment.earliest_set = LATEST

    def _due(self, state: KeyState, served: int, mark: int) -> int | None:
        return min((time for time in waiting(state, TimerKind.EVENT).values() if served < time <= mark), default=None)

    def _called(self, row: int, upto: int, key_index: int, state: KeyState) -> bool:
        """Call for these rows of a key; return whether it counts: no timer that it set fires between them."""
        if self.results.single is not None:
            indices = [self.groups.first_index(grouped) for grouped in range(row, upto)]
            again = partial(self._given, row, upto)
            result_rows = self.results.single.rows(
                self.keys[key_index], self.groups.keys[key_index], again, indices, state
            )
            self.results.rows.extend(result_rows)
        elif not self._tried(row, upto, key_index, state):
            return False
        self.results.called(self.keys[key_index], self.groups.latest_of(row, upto))
        return not self._disturbed(row, upto)

    def _tried(self, row: int, upto: int, key_index: int, state: KeyState) -> bool:
        key, returned = self.keys[key_index], None
        try:
            returned = self.function(key, state._moment.rows[row:upto], state)  # noqa: SLF001 - as above
            if returned is not None:
                self.results.rows.extend(returned)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            if self._disturbed(row, upto):
                return False
            self.fail(error, key, returned, row)
        return True

    def _given(self, start: int, end: int) -> Rows:
        fresh_rows = self.anew(start, end)
        self.moment.give(fresh_rows, self.late[(self.late >= start) & (self.late < end)] - start)
        return fresh_rows
