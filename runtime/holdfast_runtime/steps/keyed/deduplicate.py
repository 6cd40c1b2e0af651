"""The verb `deduplicate`: the first row of each key passes, others within the time are dropped, in the order they come.

A row is a duplicate if a row of its key has passed whose event time is at most `within` away, before or behind it;
without `within`, if any has. What has passed is kept as (key, time) in layers, in buckets as long as `within`: a row
looks into three of them, and a bucket goes when the watermark is more than `within` past its end. A row behind the
watermark is late: whether its key has passed may be forgotten, so it does not pass, and is counted. So is a row without
an event time, where `within` needs one. Must not write anything but the table of its step.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.spec.steps import Deduplicate
from holdfast.spec.values import millis
from holdfast.times import Micros, micros
from holdfast_runtime.columns.grouping import GroupedRows, group_rows, starts_of
from holdfast_runtime.columns.hashed_rows import HashedRows, as_they_are
from holdfast_runtime.columns.key_columns import KeyColumns, Mask, Rows, same_keys
from holdfast_runtime.state.sorted.key_rows import SingleKey, read_keys
from holdfast_runtime.state.sorted.layered_rows import LayeredRows, LayeredTable
from holdfast_runtime.state.sorted.schema import LayeredSchema, time_column
from holdfast_runtime.steps.context import StepClock, TaskTables
from holdfast_runtime.steps.late_rows import LateRows, late_or_untimed
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.timed_rows import TimedRows, find_column

Times = npt.NDArray[np.int64]
_TIME = "#time"
_UNTIL = time_column("#remembered_until")
_FOR_EVER = 0
"""The one bucket of a step without `within`."""


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The rows of a batch that are not late, by key."""

    keys: KeyColumns
    grouped: GroupedRows
    times: Times
    """The event time at each index."""


class DeduplicateStep:
    """A step of this verb, for any number of tasks."""

    def __init__(self, name: str, verb: Deduplicate, schema: pa.Schema, kept_as: str) -> None:
        self.name = name
        self._kept_as = kept_as
        self._by = [schema.names[_index(schema, column)] for column in verb.by]
        self._within = None if verb.within is None else micros(millis(verb.within))
        self._schema = pa.schema([*(schema.field(column) for column in self._by), time_column(_TIME)])

    def run(self, rows: TimedRows, tables: TaskTables, clock: StepClock) -> StepOutcome:
        """Run one batch of one task."""
        layered = self._layered(tables)
        on_time, late = rows.parted(self._late(rows, clock))
        passed = self._passed(on_time, layered) if on_time.count else np.zeros(0, np.bool_)
        if self._within is not None and clock.watermark is not None:
            for bucket in list(layered.buckets(self._bucket(micros(clock.watermark)) - 1)):
                layered.drop(bucket)
        return StepOutcome(
            on_time if passed.all() else on_time.where(passed),
            late={self.name: late.count},
            late_rows=[LateRows(self.name, late, clock, "its key may be forgotten")],
        )

    @property
    def remembered_columns(self) -> pa.Schema:
        """The columns of `remembered`: of the key, and the step's own, whose names begin with `#`."""
        return pa.schema([*self._schema, *([] if self._within is None else [_UNTIL])])

    def remembered(self, table: LayeredTable, key: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """Yield what has passed and is remembered, all of it or that of one key; nothing is written.

        Raise `RunsSchemaError` if the table holds other columns.
        """
        layered = LayeredRows(table, self._schema, as_they_are)
        single = None if key is None else SingleKey.of(key)
        for bucket in list(layered.buckets()):
            for passed in read_keys(layered, [bucket], single):
                times = np.asarray(passed.rows.column(_TIME).to_numpy())
                until = [] if self._within is None else [pa.array(times + self._within)]
                columns = [*passed.rows.columns, *until]
                yield pa.RecordBatch.from_arrays(columns, schema=self.remembered_columns)

    def _layered(self, tables: TaskTables) -> LayeredRows:
        """Return what has passed; after a change of `within`, in buckets of the new length."""
        table = tables.table(self._kept_as)
        before = LayeredSchema.kept_in(table)
        layered = LayeredRows(table, self._schema, as_they_are, width=self._within)
        layered.purge()
        if before is not None and before.width != self._within:
            for bucket in list(layered.buckets()):
                chunks = list(layered.read([bucket]))
                layered.drop(bucket)
                for chunk in chunks:
                    self._put(chunk, layered)
        return layered

    def _late(self, rows: TimedRows, clock: StepClock) -> Mask:
        if self._within is None:
            return np.zeros(rows.count, np.bool_)
        return late_or_untimed(rows.times, clock)

    def _passed(self, rows: TimedRows, layered: LayeredRows) -> Mask:
        """Return which rows pass, and remember them."""
        keys = KeyColumns.of([rows.rows.column(column) for column in self._by], rows.count)
        grouped = group_rows(keys, keys.hashes())
        times = rows.times.fill_null(0).to_numpy()[grouped.order]
        candidates = _Candidates(keys, grouped, times)
        fresh = np.flatnonzero(~self._seen(candidates, layered))
        first = fresh[_first_of_each(grouped.groups[fresh], times[fresh], self._within)]
        self._remember(rows, candidates, first, layered)
        passed = np.zeros(rows.count, np.bool_)
        passed[grouped.order[first]] = True
        return passed

    def _seen(self, rows: _Candidates, layered: LayeredRows) -> Mask:
        """Return for each index whether a row of its key, close enough in time, has passed in an earlier batch."""
        duplicates = np.zeros(len(rows.times), np.bool_)
        for piece, matches in layered.find(self._reached(rows.times, layered), rows.grouped.hashes):
            keys = KeyColumns.of(piece.rows.columns[:-1], piece.rows.num_rows)
            times = piece.rows.column(_TIME).to_numpy()
            for indices, piece_rows in matches.pairs():
                hit = same_keys(rows.keys, rows.grouped.order[indices], keys, piece_rows)
                if self._within is not None:
                    hit &= np.abs(rows.times[indices] - times[piece_rows]) <= self._within
                duplicates[indices[hit]] = True
        return duplicates

    def _reached(self, times: Times, layered: LayeredRows) -> list[int]:
        """Return the buckets that can hold a row close enough to one of these."""
        if self._within is None:
            return [_FOR_EVER]
        time_buckets = np.unique(times // self._width)
        reached = set(np.concatenate([time_buckets - 1, time_buckets, time_buckets + 1]).tolist())
        return [bucket for bucket in layered.buckets() if bucket in reached]

    def _remember(self, rows: TimedRows, candidates: _Candidates, first: Rows, layered: LayeredRows) -> None:
        indices = pa.array(candidates.grouped.order[first])
        columns = [rows.rows.column(column).take(indices) for column in self._by]
        key_rows = pa.RecordBatch.from_arrays([*columns, pa.array(candidates.times[first])], schema=self._schema)
        buckets = self._put(HashedRows(candidates.grouped.hashes[first], key_rows), layered)
        layered.tidy_after(buckets, len(first))

    def _put(self, passed: HashedRows, layered: LayeredRows) -> list[int]:
        """Append rows that have passed to the buckets of their times; return these."""
        times = passed.rows.column(_TIME).to_numpy()
        return layered.spread(np.full(len(times), _FOR_EVER) if self._within is None else times // self._width, passed)

    @property
    def _width(self) -> int:
        """The length of a bucket."""
        return max(self._within or 0, 1)

    def _bucket(self, time: Micros) -> int:
        """Return the bucket of the earliest row that matters at this watermark."""
        return (time - (self._within or 0)) // self._width + 1


def _first_of_each(groups: Rows, times: Times, within: int | None) -> Rows:
    """Return which rows pass beside each other: of each key the first to come, and those too far from what passed."""
    starts = starts_of(groups)
    if within is None or not len(starts):
        return starts
    sizes = np.diff(np.append(starts, len(groups)))
    far = np.abs(times - np.repeat(times[starts], sizes)) > within
    if not far.any():
        return starts
    more = []
    for group in np.unique(np.repeat(np.arange(len(starts)), sizes)[far]).tolist():
        start = int(starts[group])
        passed_times = [int(times[start])]
        for index in range(start + 1, start + int(sizes[group])):
            if all(abs(int(times[index]) - passed) > within for passed in passed_times):
                passed_times.append(int(times[index]))
                more.append(index)
    return np.union1d(starts, more).astype(np.int64)


def _index(schema: pa.Schema, column: str) -> int:
    index = find_column(schema, column)
    assert index is not None  # noqa: S101 - the planner has looked
    return index
