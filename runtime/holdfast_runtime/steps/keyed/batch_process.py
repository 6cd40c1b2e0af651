"""The verb `process` with `form: Batch`: a user function over all rows of a batch, and the states of all their keys.

The function gets the rows with those of one key beside each other, and a row of state for each key; it returns rows,
and the states after them. Nothing is written before both were checked, so a failing call leaves no trace. Failing keys
are searched only after a failure, by calling again with ever fewer keys, and of a single key row after row. There are
no timers. Must not read a clock, and must not write anything but the table of its step.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.planning.types.ddl import parse_schema
from holdfast.spec.steps import Process
from holdfast.spec.values import millis
from holdfast_runtime.columns.grouping import group_rows
from holdfast_runtime.columns.key_columns import KeyColumns, same_keys
from holdfast_runtime.steps.context import StepClock, TaskTables
from holdfast_runtime.steps.failures import (
    ColumnValueError,
    FailedRow,
    FailedRows,
    FunctionResultError,
    UserFunctionError,
    no_row_is_to_blame,
    reason,
    row_named,
)
from holdfast_runtime.steps.keyed.kept_states import BatchKeys, KeptStates
from holdfast_runtime.steps.keyed.key_batch import Indices, KeyBatch, whole_column
from holdfast_runtime.steps.keyed.process import ProcessSetting
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.plain.apply import UserFunction, call_function, checked_result, timed_result
from holdfast_runtime.steps.timed_rows import TimedRows, find_column
from holdfast_runtime.streams.codecs.arrow_types import arrow_schema
from holdfast_runtime.streams.record_keys import key_bytes

BatchFunction = Callable[[pa.RecordBatch, pa.RecordBatch, KeyBatch], Any]
Failure = UserFunctionError | ColumnValueError


@dataclass(frozen=True, slots=True)
class _Grouped:
    """The rows of a batch, those of one key beside each other."""

    rows: TimedRows
    order: Indices
    """The original index of each row."""
    starts: Indices
    """The first index of each key."""
    late: pa.BooleanArray
    keys: BatchKeys

    def end(self, key: int) -> int:
        """Return the index behind the last row of a key."""
        return int(self.starts[key + 1]) if key + 1 < len(self.starts) else self.rows.count


@dataclass(frozen=True, slots=True)
class _Called:
    """What a call gave."""

    rows: TimedRows
    states: list[pa.Array]


_OWN = ProcessSetting()


class BatchProcessStep:
    """A step of this form, for any number of tasks."""

    def __init__(
        self,
        name: str,
        verb: Process,
        function: BatchFunction,
        schema: pa.Schema,
        out: pa.Schema,
        setting: ProcessSetting = _OWN,
    ) -> None:
        self.name, self.out = name, out
        self._kept_as, self._tables = setting.state or name, setting.tables
        self._key = pa.schema([schema.field(find_column(schema, column)) for column in verb.by])
        self._states = arrow_schema(parse_schema(verb.state or ""))
        self._ttl = None if verb.ttl is None else millis(verb.ttl)
        event_time = setting.event_time
        column = None if event_time is None else out.field(find_column(out, event_time)).name
        self._function = UserFunction(name, verb.function, function, out, column)
        self._returned_states = replace(self._function, path=f"in its states, {verb.function}", schema=self._states)

    def run(self, rows: TimedRows, tables: TaskTables, clock: StepClock) -> StepOutcome:
        """Run one batch of one task; an error names the first key on which the function fails by itself."""
        return self._run(rows, tables, clock, self._or_name)

    def run_apart(self, rows: TimedRows, tables: TaskTables, clock: StepClock) -> StepOutcome:
        """Run one batch, where failing rows change nothing and are put aside."""
        failed: list[FailedRow] = []

        def called(grouped: _Grouped, states: list[pa.Array], now: int) -> _Called:
            return _Apart(self, grouped, now, failed).run(states)

        outcome = self._run(rows, tables, clock, called)
        return replace(outcome, failed=[FailedRows(rows, failed)])

    def _run(
        self,
        rows: TimedRows,
        tables: TaskTables,
        clock: StepClock,
        called: Callable[[_Grouped, list[pa.Array], int], _Called],
    ) -> StepOutcome:
        kept_states = KeptStates(tables.table(self._kept_as), self._key, self._states, self._ttl, clock.now)
        kept_states.begin()
        if not rows.count:
            return StepOutcome(TimedRows.nothing(self.out), wake=kept_states.wake())
        grouped = self._grouped(rows, clock)
        found_rows = kept_states.find(grouped.keys)
        before = kept_states.values(found_rows)
        result = called(grouped, before, clock.wall)
        kept_states.put(grouped.keys, found_rows, before, result.states)
        return StepOutcome(result.rows, late={self.name: grouped.late.true_count}, wake=kept_states.wake())

    def _grouped(self, rows: TimedRows, clock: StepClock) -> _Grouped:
        columns = [rows.rows.column(name) for name in self._key.names]
        keys = KeyColumns.of(columns, rows.count)
        by_hash = group_rows(keys, keys.hashes())
        starts, order = by_hash.starts, pa.array(by_hash.order)
        late = clock.late(rows.times, rows.marks).take(order)
        firsts = pa.array(by_hash.order[starts])
        batch_keys = BatchKeys(by_hash.hashes[starts], [column.take(firsts) for column in columns])
        timed = TimedRows(rows.rows.take(order), rows.times.take(order))
        return _Grouped(timed, by_hash.order, starts, late, batch_keys)

    def call(self, grouped: _Grouped, states: list[pa.Array], now: int, keys: range, rows: range) -> _Called:
        """Call the function for these keys with these rows of theirs; `states` are those of these keys."""
        part = grouped.rows.part(rows.start, rows.stop)
        key_columns = [column.slice(keys.start, len(keys)) for column in grouped.keys.columns]
        key_states = pa.RecordBatch.from_arrays([*key_columns, *states], schema=pa.schema([*self._key, *self._states]))
        starts = np.maximum(grouped.starts[keys.start : keys.stop], rows.start) - rows.start
        batch = KeyBatch.of(starts, grouped.late.slice(rows.start, len(rows)), now, self._tables)
        result = call_function(self._function, part.rows, key_states, batch)
        if not isinstance(result, tuple) or len(result) != 2:  # noqa: PLR2004 - rows and states
            message = (
                f"{self._function} gave a {type(result).__name__}; with form: Batch it returns two batches: "
                "rows, and a state for each key"
            )
            raise FunctionResultError(message)
        rows_after = TimedRows.nothing(self.out) if result[0] is None else timed_result(self._function, result[0], part)
        return _Called(rows_after, self._checked_states(result[1], key_states))

    def _checked_states(self, returned: Any, key_states: pa.RecordBatch) -> list[pa.Array]:
        function = self._returned_states
        if isinstance(returned, pa.Table | pa.RecordBatch):
            if returned.num_rows != key_states.num_rows:
                message = (
                    f"{function} gave {returned.num_rows} rows for {key_states.num_rows} keys; give one for each key"
                )
                raise FunctionResultError(message)
            # Who gives back the keys shows whether they are still in their order.
            names, indices = (
                [name for name in self._key.names if name in returned.schema.names],
                np.arange(key_states.num_rows),
            )
            for name in names:
                returned_keys, keys = (
                    KeyColumns.of([whole_column(batch.column(name))], batch.num_rows)
                    for batch in (returned, key_states)
                )
                if not same_keys(returned_keys, indices, keys, indices).all():
                    message = (
                        f"{function} gave the keys ({name}) in another order; give states in the order of the keys"
                    )
                    raise FunctionResultError(message)
            returned = returned.drop_columns(names)
        columns: list[pa.Array] = checked_result(function, returned).columns
        return columns

    def _or_name(self, grouped: _Grouped, states: list[pa.Array], now: int) -> _Called:
        try:
            return self._all(grouped, states, now)
        except (UserFunctionError, ColumnValueError) as error:
            if no_row_is_to_blame(error):
                raise
            named = self._naming(grouped, states, now)
            if named is None:
                raise
            raise named from named.__cause__ or error

    def _all(self, grouped: _Grouped, states: list[pa.Array], now: int) -> _Called:
        return self.call(grouped, states, now, range(grouped.keys.count), range(grouped.rows.count))

    def _naming(self, grouped: _Grouped, states: list[pa.Array], now: int) -> Failure | None:
        """Return the failure of the first key on which the function fails by itself, with its name; None if of none."""
        start, end = 0, grouped.keys.count
        while end - start > 1:
            middle = (start + end) // 2
            start, end = (start, middle) if self.fails(grouped, states, now, range(start, middle)) else (middle, end)
        failure = self.fails(grouped, states, now, range(start, end))
        if failure is None:
            return None
        about = f" for the key whose first row is {row_named(grouped.rows, int(grouped.starts[start]))}"
        if isinstance(failure, ColumnValueError):
            return ColumnValueError(f"{failure}. It fails{about}", failure.column)
        return UserFunctionError.raised(failure.__cause__ or failure, self.name, self._function.path, about)

    def fails(self, grouped: _Grouped, states: list[pa.Array], now: int, keys: range) -> Failure | None:
        """Return how the function fails on these keys, or None."""
        rows = range(int(grouped.starts[keys.start]), grouped.end(keys.stop - 1))
        try:
            self.call(grouped, [column.slice(keys.start, len(keys)) for column in states], now, keys, rows)
        except (UserFunctionError, ColumnValueError) as error:
            return error
        return None

    def record_key(self, grouped: _Grouped, row: int) -> bytes | None:
        """Return the key of a row as in stream records."""
        key: bytes | None = key_bytes(grouped.rows.rows.slice(row, 1), self._key.names)[0].as_py()
        return key


@dataclass(slots=True)
class _Apart:
    """Keys split into ever smaller parts to find the failing ones."""

    step: BatchProcessStep
    grouped: _Grouped
    now: int
    failed: list[FailedRow]
    made: list[_Called] = field(default_factory=list)

    def run(self, states: list[pa.Array]) -> _Called:
        """Call for all keys, and return what the calls gave that did not fail, in the order of the keys."""
        self._keys(states, range(self.grouped.keys.count))
        columns = [pa.concat_arrays(parts) for parts in zip(*(called.states for called in self.made), strict=True)]
        rows = [called.rows for called in self.made]
        return _Called(TimedRows.joined(rows, self.step.out), columns)

    def _keys(self, states: list[pa.Array], keys: range) -> None:
        rows = range(int(self.grouped.starts[keys.start]), self.grouped.end(keys.stop - 1))
        if self._tried(states, keys, rows) is None:
            return
        if len(keys) > 1:
            middle = len(keys) // 2
            self._keys([column.slice(0, middle) for column in states], keys[:middle])
            self._keys([column.slice(middle) for column in states], keys[middle:])
            return
        results = []
        for row in rows:
            why = self._tried(states, keys, range(row, row + 1))
            if why is None:
                called = self.made.pop()
                results.append(called.rows)
                states = called.states
            else:
                column = getattr(why, "column", None)
                index, key = int(self.grouped.order[row]), self.step.record_key(self.grouped, row)
                self.failed.append(FailedRow(index, reason(why), column, key))
        self.made.append(_Called(TimedRows.joined(results, self.step.out), states))

    def _tried(self, states: list[pa.Array], keys: range, rows: range) -> Failure | None:
        try:
            self.made.append(self.step.call(self.grouped, states, self.now, keys, rows))
        except (UserFunctionError, ColumnValueError) as error:
            if no_row_is_to_blame(error):
                raise
            return error
        return None
