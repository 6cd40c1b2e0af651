"""The verb `join`: rows of two sides with equal keys, whose times are close enough, each pair once.

    left, right -> late rows and null keys aside -> how many pairs? -> new with new -> new with waiting ones
                -> leave -> wait

A row waits until the watermark says that no partner can come any more. If its side comes out without partners too, it
comes out then, if it had none. Rows whose partners could only have come before this batch's watermark never wait. Rows
that would make more pairs than one commit should write are put aside, and come in with the next batch as if they came
then: until all have met, nothing leaves. Must not write anything but the tables of its step.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from holdfast.times import Micros, floor_millis, micros
from holdfast_runtime.columns.key_columns import KeyColumns, Mask, Rows
from holdfast_runtime.columns.sorted_hashes import CHUNK, HashMatches, find_hashes
from holdfast_runtime.progress import BufferedRows
from holdfast_runtime.steps.context import StepClock, TaskTables
from holdfast_runtime.steps.joins.join_plan import LEFT, RIGHT, SIDES, TIME, JoinPlan
from holdfast_runtime.steps.joins.pairing import by_time, pairs
from holdfast_runtime.steps.joins.side_buffer import Nominees, SideBuffer
from holdfast_runtime.steps.joins.side_rows import SideRows, Times, kept_rows
from holdfast_runtime.steps.late_rows import LateRows, late_or_untimed
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.timed_rows import TimedRows

_MOST_PAIRS = 4 * CHUNK
"""How many pairs a batch of one task makes: they are written in one commit. Rows that make more wait for the next."""


class JoinStep:
    """A step of this verb, for any number of tasks."""

    def __init__(self, name: str, plan: JoinPlan, kept_as: str) -> None:
        self._plan, self._kept_as = plan, kept_as
        self.schema = plan.schema
        self._kept = [plan.kept(side) for side in (LEFT, RIGHT)]
        self._indices = {
            (side, output.column): plan.index(side, output.column)
            for side in (LEFT, RIGHT)
            for output in plan.columns
            if output.side in {SIDES[side], "both"}
        }
        """Side and column -> its index in the schema of the side's waiting rows."""
        self._sides = [f"{name}.{side}" for side in SIDES]
        self._bounds = (plan.before, plan.after), (plan.after, plan.before)

    def run(self, left: TimedRows, right: TimedRows, tables: TaskTables, clock: StepClock) -> StepOutcome:
        """Run one batch of one task."""
        plan, sides = self._plan, (left, right)
        parted = [rows.parted(late_or_untimed(rows.times, clock)) for rows in sides]
        late_rows = [
            LateRows(name, late, clock, "no partner is waited for any more")
            for name, (_, late) in zip(self._sides, parted, strict=True)
        ]
        buffers = [
            SideBuffer(tables.table(f"{self._kept_as}.{name}"), plan, side, self._kept[side], clock.horizon)
            for side, name in enumerate(SIDES)
        ]
        chunks: list[TimedRows] = []
        new: list[SideRows] = []
        for side, (rows, _) in enumerate(parted):
            keyed, unkeyed = _by_key(kept_rows(rows, self._kept[side]), len(plan.by))
            if plan.outer[side]:
                chunks += self._alone(side, unkeyed)
            new.append(SideRows.sorted(_together([*buffers[side].take_back(), keyed]), len(plan.by)))
        matches = find_hashes(new[RIGHT].hashes, new[LEFT].hashes)
        if (narrowed := by_time(new[LEFT], new[RIGHT], matches, self._bounds[LEFT])) is not None:
            new[RIGHT], matches, _ = narrowed
        nominees = [buffers[1 - side].nominees(new[side], self._bounds[side]) for side in (LEFT, RIGHT)]
        met = [matches, *(candidates.matches for candidates in nominees[LEFT])]
        counts = [_counts(new[LEFT], met), _counts(new[RIGHT], (candidates.matches for candidates in nominees[RIGHT]))]
        admitted = _taken(new, counts)
        unjoined = sum(int((~mask).sum()) for mask in admitted)
        chunks += self._pairs(new, matches, buffers, nominees, admitted)
        for side, buffer in enumerate(buffers):
            if unjoined:
                # Nothing leaves: it may be a partner of what follows.
                buffer.add(new[side].where(admitted[side]))
                buffer.put_aside(new[side].where(~admitted[side]))
            else:
                chunks += self._left(side, buffer, new[side], clock)
        sizes = [buffer.size() for buffer in buffers]
        if unjoined:
            waiting = [self._oldest(sizes, (new[side].times[~admitted[side]] for side in (LEFT, RIGHT)))]
        else:
            waiting = [buffer.waiting for buffer in buffers if buffer.waiting is not None]
        return StepOutcome(
            TimedRows.joined(chunks, self.schema),
            late={late.step: late.rows.count for late in late_rows},
            late_rows=late_rows,
            unfired=floor_millis(min(waiting)) if waiting else None,
            wake=clock.now if waiting else None,
            buffered=dict(zip(self._sides, sizes, strict=True)),
            unjoined=unjoined,
        )

    def _pairs(
        self,
        new: Sequence[SideRows],
        matches: HashMatches,
        buffers: Sequence[SideBuffer],
        nominees: Sequence[Sequence[Nominees]],
        admitted: Sequence[Mask],
    ) -> Iterator[TimedRows]:
        """Yield the pairs of new rows with each other, and with waiting ones, a chunk at a time."""
        for lefts, rights in pairs(new[LEFT], new[RIGHT], matches.where(admitted[LEFT]), self._bounds[LEFT]):
            admitted_pairs = admitted[RIGHT][rights]
            new[LEFT].matched[lefts[admitted_pairs]] = new[RIGHT].matched[rights[admitted_pairs]] = True
            yield self._paired(new[LEFT], lefts[admitted_pairs], new[RIGHT], rights[admitted_pairs])
        for waiting_rows, lefts, rights in buffers[RIGHT].partners(
            new[LEFT], nominees[LEFT], admitted[LEFT], self._bounds[LEFT]
        ):
            new[LEFT].matched[lefts] = True
            yield self._paired(new[LEFT], lefts, waiting_rows, rights)
        for waiting_rows, rights, lefts in buffers[LEFT].partners(
            new[RIGHT], nominees[RIGHT], admitted[RIGHT], self._bounds[RIGHT]
        ):
            new[RIGHT].matched[rights] = True
            yield self._paired(waiting_rows, lefts, new[RIGHT], rights)

    def _oldest(self, sizes: Sequence[BufferedRows], unjoined: Iterable[Times]) -> Micros:
        """Return the event time of the first row that may still come out: of a pair, or without a partner.

        `sizes`: what waits of each side; `unjoined`: the times of its rows that make their pairs in later batches.
        """
        oldest = [int(times.min()) for times in unjoined if len(times)]
        outer = [size.oldest for size, outer in zip(sizes, self._plan.outer, strict=True) if outer]
        return Micros(min([*oldest, *(micros(time) for time in outer if time is not None)]))

    def _left(self, side: int, buffer: SideBuffer, new: SideRows, clock: StepClock) -> Iterator[TimedRows]:
        """Let rows of this side leave whose time has passed, and the others wait; yield those that leave unmatched."""
        if clock.ended:
            until = None
        elif clock.watermark is None:
            buffer.add(new)
            return
        else:
            until = Micros(micros(clock.watermark) - self._plan.waits[side])
        for rows in buffer.leave(until, clock.watermark):
            yield from self._alone(side, rows)
        # Where waiting rows are due and have to wait on, new ones that are due wait with them.
        due_until = until if buffer.waiting is None else buffer.waiting
        due = np.ones(len(new.times), np.bool_) if due_until is None else new.times < due_until
        if self._plan.outer[side] and due.any():
            yield from self._alone(side, new.rows.filter(pa.array(due & ~new.matched)))
        buffer.add(new.where(~due) if due.any() else new)

    def _alone(self, side: int, rows: pa.RecordBatch) -> Iterator[TimedRows]:
        """Yield rows of this side as results without a partner: the columns of the other side are null."""
        plan = self._plan
        for start in range(0, rows.num_rows, CHUNK):
            part = rows.slice(start, CHUNK)
            columns = [
                part.column(self._indices[side, output.column])
                if output.side in {SIDES[side], "both"}
                else pa.nulls(part.num_rows, field.type)
                for output, field in zip(plan.columns, self.schema, strict=True)
            ]
            yield TimedRows(pa.RecordBatch.from_arrays(columns, schema=self.schema), part.column(TIME.name))

    def _paired(self, left: SideRows, lefts: Rows, right: SideRows, rights: Rows) -> TimedRows:
        plan, indices = self._plan, (pa.array(lefts), pa.array(rights))
        columns = []
        for output in plan.columns:
            side = RIGHT if output.side == "right" else LEFT
            columns.append((left, right)[side].rows.column(self._indices[side, output.column]).take(indices[side]))
        times = np.maximum(left.times[lefts], right.times[rights])
        return TimedRows(pa.RecordBatch.from_arrays(columns, schema=self.schema), pa.array(times))


def _by_key(rows: pa.RecordBatch, key_width: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the rows whose key has no null in it, and the rows whose key has one."""
    without = KeyColumns.of(rows.columns[:key_width], rows.num_rows).without_nulls()
    if without is None:
        return rows, rows.slice(0, 0)
    return rows.filter(pa.array(without)), rows.filter(pa.array(~without))


def _together(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


def _counts(new: SideRows, matches: Iterable[HashMatches]) -> Rows:
    """Return how many pairs each new row makes at most, by what it matches."""
    counts = np.zeros(len(new.hashes), np.int64)
    for part in matches:
        counts[part.probes] += part.counts
    return counts


def _taken(new: Sequence[SideRows], counts: Sequence[Rows]) -> list[Mask]:
    """Return a mask for each side: the rows that make their pairs in this batch, the oldest ones, one at least.

    `counts` says for each side how many pairs each of its rows makes at most.
    """
    if sum(int(side_counts.sum()) for side_counts in counts) <= _MOST_PAIRS:
        return [np.ones(len(side_counts), np.bool_) for side_counts in counts]
    order = np.argsort(np.concatenate([rows.times for rows in new]), kind="stable")
    pair_totals = np.cumsum(np.concatenate(counts)[order])
    admitted = np.zeros(len(order), np.bool_)
    admitted[order[: max(1, int(np.searchsorted(pair_totals, _MOST_PAIRS, side="right")))]] = True
    return [admitted[: len(counts[LEFT])], admitted[len(counts[LEFT]) :]]
