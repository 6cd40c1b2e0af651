"""The verb `aggregate`: results over the rows of a key, in windows, in sessions, or over all rows.

    rows -> late ones apart -> a partial per key and pane, appended to layers
         -> Final: what the watermark has closed is finished, in the order of its end, and dropped
         -> Update: the results of all keys and windows that this batch has touched

Where more groups leave than a batch should carry, the next batches go on, and the watermark behind the step waits for
them. A result's event time is the last microsecond of its window, as Spark's `window_time` has it, so that it falls
where it belongs in windows over windows, and is not late there however a session ends; without a window it is the
latest event time of the key's rows. Must not write anything but the table of its step.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.spec.values import millis
from holdfast.times import Micros, floor_millis, micros, row_moment
from holdfast_runtime.columns.hashed_rows import HashedRows
from holdfast_runtime.columns.key_columns import Mask
from holdfast_runtime.state.sorted.key_rows import SingleKey
from holdfast_runtime.state.sorted.layered_rows import LayeredRows, LayeredTable
from holdfast_runtime.state.sorted.schema import LayeredSchema
from holdfast_runtime.steps.accumulators.accumulator import AggregateResult
from holdfast_runtime.steps.context import StepClock, TaskTables
from holdfast_runtime.steps.failures import FailedRow, FailedRows
from holdfast_runtime.steps.late_rows import LateRows
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.steps.windows.aggregate_plan import AggregatePlan, with_times
from holdfast_runtime.steps.windows.closing import ClosedWindows, ClosingMark, Times, WindowGroups
from holdfast_runtime.steps.windows.pane_windows import PaneWindows
from holdfast_runtime.steps.windows.panes import END_OF_TIME
from holdfast_runtime.steps.windows.partials import Partials
from holdfast_runtime.steps.windows.session_windows import SessionWindows

MOST_LEAVING = 128 * 1024
"""About how many groups leave in a batch."""
_MARK = b"c"
_BOUND = pa.timestamp("us", "UTC")
_BOUNDS = [pa.field("window_start", _BOUND), pa.field("window_end", _BOUND)]


class Windows(Protocol):
    """How rows fall into windows, and how these are kept."""

    schema: pa.Schema
    """The columns that are kept."""

    @property
    def width(self) -> int | None:
        """The length of a bucket in microseconds; None for one of all time."""

    def combine(self, mark: ClosingMark, partials: HashedRows) -> HashedRows:
        """Make one of what several layers hold."""

    def late(self, times: Times, mark: ClosingMark) -> Mask:
        """Return which rows come too late."""

    def add(
        self, rows: pa.RecordBatch, times: Times, layered: LayeredRows, mark: ClosingMark
    ) -> Mapping[int, HashedRows]:
        """Append what these rows leave behind; return it by pane."""

    def close(self, layered: LayeredRows, mark: ClosingMark, most: int) -> ClosedWindows:
        """Let all groups leave whose windows are closed, about so many at most."""

    def drop(self, layered: LayeredRows, mark: ClosingMark) -> None:
        """Drop what no open window holds."""

    def touched(
        self, layered: LayeredRows, mark: ClosingMark, added: Mapping[int, HashedRows]
    ) -> Iterable[WindowGroups]:
        """Return the groups of all open windows that a batch has added to."""

    def unfinished(self, layered: LayeredRows, mark: ClosingMark, key: SingleKey | None) -> Iterable[WindowGroups]:
        """Return all groups that have not left, or those of one key, as they are by now."""


@dataclass(frozen=True, slots=True)
class UnfinishedResults:
    """Results of groups that have not left, as they would be if they left now."""

    rows: pa.RecordBatch
    impossible: Mapping[str, str]
    """Column that is null in some row because its value can't be given -> why."""


class AggregateStep:
    """A step of this verb, for any number of tasks."""

    def __init__(
        self, name: str, plan: AggregatePlan, kept_as: str, *, apart: bool = False, most: int = MOST_LEAVING
    ) -> None:
        """`apart`: whether results that can't be given are put aside."""
        self.name = name
        self._kept_as, self._plan, self._apart, self._most = kept_as, plan, apart, most
        self._partials = plan.partials(name)
        self._sent = plan.partials_sent(name) if plan.sent else None
        self._windows = _windows(plan, self._partials)
        self._kept = self._partials.made_by(self._windows.schema, plan.call_texts)
        self._names = plan.parts.results
        kinds = self._partials.results[: len(self._names)]
        results = [pa.field(name, kind) for name, kind in zip(self._names, kinds, strict=True)]
        self.key = pa.schema([self._partials.schema.field(index) for index in range(len(self._partials.by))])
        """The columns by which it groups."""
        self._keyed = pa.schema([*self.key, *(_BOUNDS if plan.verb.windowed else [])])
        self.schema = pa.schema([*self._keyed, *results])
        """The columns of its results."""

    def run(self, rows: TimedRows, tables: TaskTables, clock: StepClock) -> StepOutcome:
        """Run one batch of one task."""
        table = tables.table(self._kept_as)
        (encoded,) = table.get_many([_MARK])
        stored = ClosingMark.decoded(encoded, table.name)
        mark = stored if clock.ended or clock.horizon is None else stored.believed(micros(clock.horizon))
        layered = self._layered(table, mark)
        layered.purge()
        usable, late = rows.parted(~self._usable(rows, mark, clock))
        added = self._added(usable, layered, mark)
        reached, unfired = mark.begun(_event_time(clock)), None
        if self._plan.verb.updates:
            window_groups = list(self._windows.touched(layered, mark, added)) if added else []
            if reached != mark:
                self._windows.drop(layered, reached)
        elif reached != mark or mark.round is not None:
            closed = self._windows.close(layered, reached, self._most)
            window_groups, reached = closed.groups, closed.mark
            unfired = None if closed.waiting is None else floor_millis(Micros(closed.waiting - 1))
        else:
            window_groups = []
        if reached != stored:
            table.put_many([_MARK], [reached.encoded()])
        finished = [self._finished(groups) for groups in window_groups]
        return StepOutcome(
            TimedRows.joined([results for results, _ in finished], self.schema),
            late={self.name: late.count if self._sent is None else self._sent.rows_of(late.rows)},
            late_rows=[self._left_out(late, mark, clock)] if late.count and not self._plan.sent else (),
            failed=[failed for _, group_failures in finished for failed in group_failures],
            unfired=unfired,
            wake=None if unfired is None else clock.now,
        )

    def unfinished(self, table: LayeredTable, key: pa.RecordBatch | None = None) -> Iterator[UnfinishedResults]:
        """Yield the results of all groups that have not left, or those of one key; nothing is written.

        Raise `RunsSchemaError` if the table holds partials with other columns than this step has, or of other calls.
        """
        (encoded,) = table.get_many([_MARK])
        mark = ClosingMark.decoded(encoded, table.name)
        layered = self._layered(table, mark)
        LayeredSchema(self._kept, self._windows.width).check_makers(table)
        for groups in self._windows.unfinished(layered, mark, None if key is None else SingleKey.of(key)):
            results, parts = self._results(groups)
            named = zip(self._names, parts, strict=True)
            why = {name: part.why for name, part in named if part.failed is not None and part.failed.any()}
            yield UnfinishedResults(results.rows, why)

    def _layered(self, table: LayeredTable, mark: ClosingMark) -> LayeredRows:
        return LayeredRows(table, self._kept, partial(self._windows.combine, mark), width=self._windows.width)

    def _added(self, usable: TimedRows, layered: LayeredRows, mark: ClosingMark) -> Mapping[int, HashedRows]:
        """Append what the rows of the batch leave behind."""
        if not usable.count:
            return {}
        times = usable.times.fill_null(0).to_numpy()
        rows_in = usable.rows if self._plan.sent else with_times(usable)
        return self._windows.add(rows_in, times, layered, mark)

    def _left_out(self, late: TimedRows, mark: ClosingMark, clock: StepClock) -> LateRows:
        """Return late rows without the columns that Spark SQL has made for the step."""
        names = [name for name in late.rows.schema.names if name in self._plan.columns]
        closed = replace(clock, before=None if mark.until is None else floor_millis(mark.until))
        return LateRows(self.name, replace(late, rows=late.rows.select(names)), closed, "its window has closed")

    def _usable(self, rows: TimedRows, mark: ClosingMark, clock: StepClock) -> Mask:
        if not self._plan.verb.windowed:
            return np.ones(rows.count, np.bool_)
        timed = np.asarray(rows.times.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        times = rows.times.fill_null(0).to_numpy()
        if clock.horizon is not None:
            timed &= times <= micros(clock.horizon)
        return np.asarray(timed & ~self._windows.late(times, mark), np.bool_)

    def _finished(self, groups: WindowGroups) -> tuple[TimedRows, list[FailedRows]]:
        """Return the results of groups as rows, and the keys and windows of those that can't be given."""
        timed_rows, results = self._results(groups)
        keys = timed_rows.rows.columns[: len(self._keyed)]
        failed, failures = np.zeros(timed_rows.count, np.bool_), []
        for number, result in enumerate(results):
            if result.failed is not None and result.failed.any():
                failures.append(self._failed(number, keys, timed_rows.times, result.failed & ~failed, result.why))
                failed |= result.failed
        return timed_rows.where(~failed) if failures else timed_rows, failures

    def _results(self, groups: WindowGroups) -> tuple[TimedRows, list[AggregateResult]]:
        """Return the results of groups as rows, and by column; those that can't be given are null."""
        finished = self._partials.finish(groups.partials)
        keys = finished.keys
        times = pa.array(groups.ends - 1)
        if self._plan.verb.windowed:
            keys = [*keys, *(pa.array(bound).cast(_BOUND) for bound in (groups.starts, groups.ends))]
        else:
            times = finished.results[len(self._names)].values
        results = finished.results[: len(self._names)]
        rows = pa.RecordBatch.from_arrays([*keys, *(result.values for result in results)], schema=self.schema)
        return TimedRows(rows, times), results

    def _failed(self, number: int, keys: list[pa.Array], times: pa.Array, which: Mask, why: str) -> FailedRows:
        """Stop at results that can't be given, or return their keys."""
        column = self._names[number]
        rows = TimedRows(pa.RecordBatch.from_arrays(keys, schema=self._keyed), times).where(which)
        call = self._partials.call_text(number)
        if self._apart:
            explanation = f"{column}: {call} {why}"
            return FailedRows(rows, [FailedRow(row, explanation, column) for row in range(rows.count)])
        key = self._partials.key_text(rows.rows.columns, 0)
        when = f", window until {row_moment(Micros(rows.times[0].as_py() + 1))}" if self._plan.verb.windowed else ""
        message = (
            f"step {self.name}: {column} can't be computed for {key}{when}: {call} {why}; take a wider type (CAST "
            f"to DECIMAL(38, 0), or DOUBLE), write try_{call} to get null, or put such results aside: onError: "
            "DeadLetter of the step"
        )
        raise UserActionError(message, code="AggregateOverflowError")


def _event_time(clock: StepClock) -> Micros | None:
    """Return up to when windows are closed."""
    if clock.ended:
        return END_OF_TIME
    return None if clock.watermark is None else micros(clock.watermark)


def _windows(plan: AggregatePlan, partials: Partials) -> Windows:
    if plan.verb.session is not None:
        return SessionWindows(partials, micros(millis(plan.verb.session)))
    return PaneWindows(partials, plan.panes, sent=plan.sent)
