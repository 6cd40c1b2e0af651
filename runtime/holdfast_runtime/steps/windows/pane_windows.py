"""The windows of an `aggregate` step in its layers: a bucket per pane, a partial per key and batch in it.

A window is the panes that it holds, read together when it closes; a pane goes with the last window that holds it.
Must not know how partials are made or finished.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from holdfast.times import Micros
from holdfast_runtime.columns.hashed_rows import HashedRows
from holdfast_runtime.columns.key_columns import Mask, same_keys
from holdfast_runtime.state.sorted.key_rows import SingleKey, read_keys
from holdfast_runtime.state.sorted.layered_rows import LayeredRows
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

    def add(self, rows: pa.RecordBatch, times: Times, layered: LayeredRows, mark: ClosingMark) -> dict[int, HashedRows]:
        """Append a partial for each key and pane; return them."""
        added = {pane: self._gather(part) for pane, part in by_pane(self._panes.panes(times), rows)}
        for pane, partials in added.items():
            layered.append(pane, partials)
        if mark.round is None:  # a round goes by the numbers of layers
            layered.tidy_after(added, sum(len(partials.hashes) for partials in added.values()))
        return added

    def close(self, layered: LayeredRows, mark: ClosingMark, most: int) -> ClosedWindows:
        """Let all groups leave whose windows are closed, about so many at most."""
        assert mark.until is not None  # noqa: S101 - or nothing is closed
        panes = list(layered.buckets())
        current_round = mark.round
        number = layered.next_number() if current_round is None else current_round.layers
        groups: list[WindowGroups] = []
        for end in self._panes.ends(panes, mark.done, mark.until):
            low = current_round.low if current_round is not None and current_round.end == end else 0
            for chunk in layered.read(self._held(end, panes), low, number):
                groups.append(self._groups(chunk.rows, end))
                most -= len(chunk.hashes)
                if most <= 0:
                    mark = replace(mark, round=ClosingRound(int(chunk.hashes[-1]) + 1, number, end))
                    return ClosedWindows(groups, mark, end)
            mark = replace(mark, done=Micros(end))
        self.drop(layered, mark)
        return ClosedWindows(groups, replace(mark, done=mark.until, round=None))

    def drop(self, layered: LayeredRows, mark: ClosingMark) -> None:
        """Drop the panes that no open window holds."""
        panes = list(layered.buckets())
        closed = mark.closed(self._panes.last_ends(np.array(panes, np.int64)))
        for pane in np.array(panes, np.int64)[closed].tolist():
            layered.drop(pane)

    def touched(
        self, layered: LayeredRows, mark: ClosingMark, added: Mapping[int, HashedRows]
    ) -> Iterator[WindowGroups]:
        """Yield the groups of all open windows that a batch has added to, in the order of their ends."""
        panes = list(layered.buckets())
        for end in self._panes.ends(added, mark.until, END_OF_TIME):
            window_panes = self._held(end, panes)
            added_partials = self._partials.merge(
                HashedRows.joined([added[pane] for pane in window_panes if pane in added])
            )
            parts = [part for pane in window_panes for part in self._kept(layered, pane, added_partials)]
            yield self._groups(self._partials.merge(HashedRows.joined(parts)).rows, end)

    def unfinished(self, layered: LayeredRows, mark: ClosingMark, key: SingleKey | None) -> Iterator[WindowGroups]:
        """Yield the groups of all windows that have not left, as they are by now, in the order of their ends."""
        panes, current_round = list(layered.buckets()), mark.round
        by_pane = None if key is None else {pane: [*read_keys(layered, [pane], key)] for pane in panes}
        for end in self._panes.ends(panes, mark.left, END_OF_TIME):
            window_panes = self._held(end, panes)
            if current_round is not None and mark.until is not None and end <= mark.until:
                low = current_round.low if end == current_round.end else 0
                chunks = read_keys(layered, window_panes, key, low, current_round.layers)
            elif by_pane is None:
                chunks = read_keys(layered, window_panes, None)
            else:  # many windows may hold a pane
                parts = [part for pane in window_panes for part in by_pane[pane]]
                chunks = iter([self._partials.merge(HashedRows.joined(parts))] if parts else [])
            for chunk in chunks:
                yield self._groups(chunk.rows, end)

    def _kept(self, layered: LayeredRows, pane: int, added: HashedRows) -> Iterator[HashedRows]:
        """Yield the partials of these keys, in the order of hashes, older layers first."""
        keys = self._partials.keys(added.rows)
        for piece, matches in layered.find([pane], added.hashes):
            piece_keys = self._partials.keys(piece.rows)
            for added_rows, piece_rows in matches.pairs():
                hit = same_keys(keys, added_rows, piece_keys, piece_rows)
                yield HashedRows(added.hashes[added_rows[hit]], piece.rows.take(pa.array(piece_rows[hit])))

    def _held(self, end: int, panes: list[int]) -> list[int]:
        window_panes = self._panes.of(end)
        return [pane for pane in panes if pane in window_panes]

    def _groups(self, partials: pa.RecordBatch, end: int) -> WindowGroups:
        count = partials.num_rows
        return WindowGroups(partials, np.full(count, self._panes.start(end)), np.full(count, end))
