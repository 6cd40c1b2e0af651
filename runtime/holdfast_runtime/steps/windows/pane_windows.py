"""The windows of an `aggregate` step in its runs: a bucket per pane, a partial per key and batch in it.

A window is the panes that it holds, read together when it closes; a pane goes with the last window that holds it.
Must not know how partials are made or finished.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from holdfast.moments import Micros
from holdfast_runtime.columns.hashed_rows import HashedRows
from holdfast_runtime.columns.key_columns import Mask, same_keys
from holdfast_runtime.state.sorted.runs import Runs
from holdfast_runtime.steps.windows.closing import ClosedWindows, ClosingMark, ClosingRound, Times, WindowGroups
from holdfast_runtime.steps.windows.panes import END_OF_TIME, Panes, by_pane
from holdfast_runtime.steps.windows.partials import Partials


class PaneWindows:
    """The windows of one step, tumbling, hopping, or one for all time."""

    def __init__(self, partials: Partials, panes: Panes, *, sent: bool = False) -> None:
        """`sent`: the rows that come in are partials."""
        self._partials, self._panes = partials, panes
        self._gather = partials.gather_sent if sent else partials.gather
        self.schema, self.width = partials.schema, panes.width

    def combine(self, mark: ClosingMark, partials: HashedRows) -> HashedRows:  # noqa: ARG002 - as for sessions
        """Return one partial for each key."""
        return self._partials.merge(partials)

    def late(self, times: Times, mark: ClosingMark) -> Mask:
        """Return which rows come too late: all their windows are closed."""
        return mark.closed(self._panes.last_ends(self._panes.panes(times)))

    def add(self, rows: pa.RecordBatch, times: Times, runs: Runs, mark: ClosingMark) -> dict[int, HashedRows]:
        """Append a partial for each key and pane; return them."""
        added = {pane: self._gather(part) for pane, part in by_pane(self._panes.panes(times), rows)}
        for pane, partials in added.items():
            runs.append(pane, partials)
        if mark.round is None:  # a round goes by the numbers of runs
            runs.tidy_after(added, sum(len(one.hashes) for one in added.values()))
        return added

    def close(self, runs: Runs, mark: ClosingMark, most: int) -> ClosedWindows:
        """Let all groups leave whose windows are closed, about so many at most."""
        assert mark.until is not None  # noqa: S101 - or nothing is closed
        there = list(runs.buckets())
        begun = mark.round
        number = runs.next_number() if begun is None else begun.runs
        groups: list[WindowGroups] = []
        for end in self._panes.ends(there, mark.done, mark.until):
            low = begun.low if begun is not None and begun.end == end else 0
            for chunk in runs.read(self._held(end, there), low, number):
                groups.append(self._groups(chunk.rows, end))
                most -= len(chunk.hashes)
                if most <= 0:
                    mark = replace(mark, round=ClosingRound(int(chunk.hashes[-1]) + 1, number, end))
                    return ClosedWindows(groups, mark, end)
            mark = replace(mark, done=Micros(end))
        self.drop(runs, mark)
        return ClosedWindows(groups, replace(mark, done=mark.until, round=None))

    def drop(self, runs: Runs, mark: ClosingMark) -> None:
        """Drop the panes that no open window holds."""
        there = list(runs.buckets())
        gone = mark.closed(self._panes.last_ends(np.array(there, np.int64)))
        for pane in np.array(there, np.int64)[gone].tolist():
            runs.drop(pane)

    def touched(self, runs: Runs, mark: ClosingMark, added: Mapping[int, HashedRows]) -> Iterator[WindowGroups]:
        """Yield the groups of all open windows that a batch has added to, in the order of their ends."""
        there = list(runs.buckets())
        for end in self._panes.ends(added, mark.until, END_OF_TIME):
            held = self._held(end, there)
            wanted = self._partials.merge(HashedRows.joined([added[pane] for pane in held if pane in added]))
            found = [part for pane in held for part in self._kept(runs, pane, wanted)]
            yield self._groups(self._partials.merge(HashedRows.joined(found)).rows, end)

    def _kept(self, runs: Runs, pane: int, wanted: HashedRows) -> Iterator[HashedRows]:
        """Yield the partials of these keys, in the order of hashes, older runs first."""
        keys = self._partials.keys(wanted.rows)
        for held, matches in runs.find(pane, wanted.hashes):
            theirs_keys = self._partials.keys(held.rows)
            for mine, theirs in matches.pairs():
                hit = same_keys(keys, mine, theirs_keys, theirs)
                yield HashedRows(wanted.hashes[mine[hit]], held.rows.take(pa.array(theirs[hit])))

    def _held(self, end: int, there: list[int]) -> list[int]:
        panes = self._panes.of(end)
        return [pane for pane in there if pane in panes]

    def _groups(self, partials: pa.RecordBatch, end: int) -> WindowGroups:
        count = partials.num_rows
        return WindowGroups(partials, np.full(count, self._panes.start(end)), np.full(count, end))
