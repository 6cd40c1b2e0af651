"""The sessions of an `aggregate` step in its layers: a partial per stretch of a session, in the bucket of its end.

A session holds rows of a key between which less than the gap passes; it lasts from its first row to the gap behind its
last. What a batch brings are stretches of sessions. Nothing is looked up when they are appended: stretches of a key
that overlap are one session, whoever reads them. When the watermark has reached the end of a stretch, its session is
either over, and leaves; or a stretch with a later end overlaps, and then this one is appended again, with that end. So
a stretch is moved about once per gap, however long its session lasts. Stretches that were handled so stay in their
bucket until it goes, and are told by their ends. Must not know how partials are made or finished.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from holdfast.times import Micros, micros
from holdfast_runtime.columns.grouping import group_rows
from holdfast_runtime.columns.hashed_rows import HashedRows
from holdfast_runtime.columns.key_columns import Mask, Rows, same_keys
from holdfast_runtime.state.sorted.key_rows import SingleKey, read_keys
from holdfast_runtime.state.sorted.layered_rows import LayeredRows
from holdfast_runtime.state.sorted.schema import time_column
from holdfast_runtime.steps.accumulators.accumulator import RowGroups
from holdfast_runtime.steps.windows.closing import ClosedWindows, ClosingMark, ClosingRound, Times, WindowGroups
from holdfast_runtime.steps.windows.partials import Partials

FIRST, LAST = "#first", "#last"
_BUCKETS, _LEAST_WIDTH = 16, micros(1000)
"""Buckets in a gap: the one that the watermark is in is read in each batch. Batches are seconds apart."""


class SessionWindows:
    """The sessions of one step."""

    def __init__(self, partials: Partials, gap: Micros) -> None:
        self._partials, self._gap = partials, gap
        self.width = max(_LEAST_WIDTH, gap // _BUCKETS)
        bounds = [time_column(FIRST), time_column(LAST)]
        self.schema = pa.schema([*partials.schema, *bounds])

    def combine(self, mark: ClosingMark, stretches: HashedRows) -> HashedRows:
        """Make one of stretches that overlap, without those that were handled."""
        return self._joined(self._ending(stretches, mark.done, None))

    def late(self, times: Times, mark: ClosingMark) -> Mask:
        """Return which rows come too late: a session of theirs alone would be closed."""
        return mark.closed(times + self._gap)

    def add(self, rows: pa.RecordBatch, times: Times, layered: LayeredRows, mark: ClosingMark) -> dict[int, HashedRows]:
        """Append the stretches that these rows make; there are no panes."""
        keys = self._partials.keys(rows)
        grouped = group_rows(keys, keys.hashes())
        timed = np.lexsort((times[grouped.order], grouped.groups))
        order, groups = grouped.order[timed], grouped.groups[timed]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (groups[1:] != groups[:-1]) | (np.diff(times[order]) >= self._gap)
        starts = np.flatnonzero(begins)
        partials = self._partials.gathered(rows, RowGroups(order, starts))
        ends = np.append(starts[1:], len(order)) - 1
        stretches = self._with_bounds(partials, times[order[starts]], times[order[ends]])
        added = self._append(HashedRows(grouped.hashes[starts], stretches), layered)
        if mark.round is None:  # a round goes by the numbers of layers
            layered.tidy_after(added, len(starts))
        return {}

    def close(self, layered: LayeredRows, mark: ClosingMark, most: int) -> ClosedWindows:
        """Let all sessions leave that are over, about so many at most."""
        until = mark.until
        assert until is not None  # noqa: S101 - or nothing is closed
        buckets = list(layered.buckets())
        due = [bucket for bucket in buckets if bucket * self.width <= until]
        open_ = [bucket for bucket in buckets if (bucket + 1) * self.width > until]
        current_round = ClosingRound(0, layered.next_number()) if mark.round is None else mark.round
        groups: list[WindowGroups] = []

        def over(stretches: HashedRows) -> HashedRows:
            # Joined with one that is not over, a stretch would stay where it is, and count as handled from then on.
            return self._joined(self._ending(stretches, mark.done, until))

        for stretches in layered.read(due, current_round.low, current_round.layers, over):
            goes_on = self._later_ends(stretches, layered, open_)
            moved = np.flatnonzero(goes_on > until)
            if len(moved):
                self._move(stretches, moved, goes_on[moved], layered)
            leaving = np.flatnonzero(goes_on <= until)
            if len(leaving):
                groups.append(self._groups(stretches.rows.take(pa.array(leaving))))
            most -= len(leaving)
            if most <= 0:
                mark = replace(mark, round=replace(current_round, low=int(stretches.hashes[-1]) + 1))
                return ClosedWindows(_ordered(groups), mark, min(due) * self.width)
        mark = replace(mark, done=until, round=None)
        self.drop(layered, mark)
        return ClosedWindows(_ordered(groups), mark)

    def touched(
        self, layered: LayeredRows, mark: ClosingMark, added: Mapping[int, HashedRows]
    ) -> Iterator[WindowGroups]:
        """Never called: a session has no bounds yet by which an update could be known again."""
        raise AssertionError((layered, mark, added))

    def drop(self, layered: LayeredRows, mark: ClosingMark) -> None:
        """Drop the buckets in which every stretch was handled."""
        assert mark.done is not None  # noqa: S101 - a round is at its end
        for bucket in list(layered.buckets()):
            if (bucket + 1) * self.width - 1 <= mark.done:
                layered.drop(bucket)

    def unfinished(self, layered: LayeredRows, mark: ClosingMark, key: SingleKey | None) -> Iterator[WindowGroups]:
        """Yield all sessions that have not left, as they are by now, in no useful order."""

        def remaining(stretches: HashedRows) -> HashedRows:
            return self._joined(self._unhandled(self._ending(stretches, mark.left, None), mark))

        for stretches in read_keys(layered, list(layered.buckets()), key, combine=remaining):
            yield self._groups(stretches.rows)

    def _unhandled(self, stretches: HashedRows, mark: ClosingMark) -> HashedRows:
        """Return the stretches without those that a round under way has let leave, or moved."""
        if mark.round is None or mark.until is None:
            return stretches
        handled = np.flatnonzero(stretches.hashes <= np.uint64(mark.round.low - 1))
        handled = handled[_column(stretches.rows, LAST)[handled] + self._gap <= mark.until]
        mask = np.ones(len(stretches.hashes), np.bool_)
        mask[handled] = False
        return HashedRows(stretches.hashes[mask], stretches.rows.filter(pa.array(mask)))

    def _ending(self, stretches: HashedRows, after: int | None, until: int | None) -> HashedRows:
        """Return the stretches that end behind `after`, and up to `until`."""
        ends = _column(stretches.rows, LAST) + self._gap
        mask = np.ones(len(ends), np.bool_) if after is None else ends > after
        if until is not None:
            mask &= ends <= until
        if mask.all():
            return stretches
        return HashedRows(stretches.hashes[mask], stretches.rows.filter(pa.array(mask)))

    def _joined(self, stretches: HashedRows) -> HashedRows:
        """Make one of stretches of a key that overlap."""
        count = len(stretches.hashes)
        if not count:
            return stretches
        grouped = group_rows(self._partials.keys(stretches.rows), stretches.hashes)
        if grouped.groups[-1] == count - 1:
            return stretches
        first, last = _column(stretches.rows, FIRST), _column(stretches.rows, LAST)
        timed = np.lexsort((first[grouped.order], grouped.groups))
        order, groups = grouped.order[timed], grouped.groups[timed]
        ends = last[order] + self._gap
        reached = _running_maximum(ends, groups)
        begins = np.ones(count, np.bool_)
        begins[1:] = (groups[1:] != groups[:-1]) | (first[order[1:]] >= reached[:-1])
        starts = np.flatnonzero(begins)
        if len(starts) == count:
            return stretches
        partials = self._partials.merged(stretches.rows, RowGroups(order, starts))
        lasts = np.maximum.reduceat(ends, starts) - self._gap
        return HashedRows(grouped.hashes[starts], self._with_bounds(partials, first[order[starts]], lasts))

    def _later_ends(self, over: HashedRows, layered: LayeredRows, buckets: list[int]) -> Times:
        """Return the end that each session has with the stretches that overlap it and end later."""
        keys = self._partials.keys(over.rows)
        first, ends = _column(over.rows, FIRST), _column(over.rows, LAST) + self._gap
        later_ends = ends.copy()
        for piece, matches in layered.find(buckets, over.hashes) if len(ends) else ():
            piece_keys = self._partials.keys(piece.rows)
            begin, end = _column(piece.rows, FIRST), _column(piece.rows, LAST) + self._gap
            for sessions, stretches in matches.pairs():
                hit = (
                    (begin[stretches] < ends[sessions])
                    & (first[sessions] < end[stretches])
                    & (end[stretches] > ends[sessions])
                )
                hit[hit] = same_keys(keys, sessions[hit], piece_keys, stretches[hit])
                np.maximum.at(later_ends, sessions[hit], end[stretches[hit]])
        return later_ends

    def _move(self, over: HashedRows, moved: Rows, ends: Times, layered: LayeredRows) -> None:
        """Append stretches again, as long as the session goes on."""
        rows = over.rows.take(pa.array(moved))
        bounds = rows.schema.get_field_index(LAST)
        rows = rows.set_column(bounds, self.schema.field(LAST), pa.array(ends - self._gap))
        self._append(HashedRows(over.hashes[moved], rows), layered)

    def _append(self, stretches: HashedRows, layered: LayeredRows) -> list[int]:
        return layered.spread((_column(stretches.rows, LAST) + self._gap) // self.width, stretches)

    def _groups(self, sessions: pa.RecordBatch) -> WindowGroups:
        partials = sessions.select(self._partials.schema.names)
        return WindowGroups(partials, _column(sessions, FIRST), _column(sessions, LAST) + self._gap)

    def _with_bounds(self, partials: pa.RecordBatch, first: Times, last: Times) -> pa.RecordBatch:
        columns = [*partials.columns, pa.array(first), pa.array(last)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _column(rows: pa.RecordBatch, name: str) -> Times:
    return np.asarray(rows.column(name).to_numpy())


def _ordered(groups: list[WindowGroups]) -> list[WindowGroups]:
    """Return all groups in the order of their ends."""
    if not groups:
        return []
    ends = np.concatenate([part.ends for part in groups])
    starts = np.concatenate([part.starts for part in groups])
    partials = pa.concat_batches([part.partials for part in groups])
    order = np.argsort(ends, kind="stable")
    return [WindowGroups(partials.take(pa.array(order)), starts[order], ends[order])]


def _running_maximum(values: Times, groups: Rows) -> Times:
    """Return at each index the largest value of its group so far."""
    ordered, ranks = np.unique(values, return_inverse=True)
    reached = np.maximum.accumulate(ranks + groups * len(ordered))
    return np.asarray(ordered[reached - groups * len(ordered)])
