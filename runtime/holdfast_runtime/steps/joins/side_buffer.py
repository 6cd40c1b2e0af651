"""The rows of one side of a join that wait for partners: kept in layers by time, until no partner can come any more.

A bucket is a quarter of the time in which a row can have partners, so a row looks into few of them. Rows leave by
time, one by one: those with an earlier time than `gone` have left, though their bucket may still be there. Of a side
whose rows come out without a partner, too, each has a mark that says whether it had one. Must not know the other side.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast.times import Micros, floor_millis, micros
from holdfast_runtime.columns.hashed_rows import HashedRows, as_they_are
from holdfast_runtime.columns.key_columns import Mask, Rows
from holdfast_runtime.columns.sorted_hashes import HashMatches
from holdfast_runtime.progress import BufferedRows
from holdfast_runtime.state.errors import parsing_state
from holdfast_runtime.state.sorted.layered_rows import ASIDE, LayeredRows, LayeredTable
from holdfast_runtime.state.sorted.schema import FORMAT, LayeredSchema, check_format
from holdfast_runtime.state.sorted.stored_pieces import MARKED, PieceRows
from holdfast_runtime.steps.context import KeyValueTable
from holdfast_runtime.steps.joins.join_plan import TIME, JoinPlan
from holdfast_runtime.steps.joins.pairing import Bounds, by_time, pairs
from holdfast_runtime.steps.joins.side_rows import SideRows, Times

_LEAST_WIDTH = micros(1000)
"""A batch over a long time should not make a bucket for each of its rows."""
_ROUND = 128 * 1024
"""After how many rows that leave without a partner the others wait for the next batch."""
_GONE = b"g"


@dataclass(frozen=True, slots=True)
class Nominees:
    """Waiting rows that have the hashes of incoming ones, and may be close enough in time."""

    piece_rows: PieceRows
    waiting_rows: SideRows
    """The rows of `piece_rows`, in the order to which `matches` refers."""
    matches: HashMatches
    """Where the nominees of incoming rows are."""
    order: Rows | None
    """The index in `piece_rows` of each waiting row; None: they stand in the same order."""


@dataclass(frozen=True, slots=True)
class Departures:
    """How far the rows of a side have left."""

    left_before: Micros | None = None
    """Rows with an earlier time have left."""
    watermark: int | None = None
    """By which they did."""
    row_bytes: float = 0.0
    """About how large a row is."""


def departures(table: LayeredTable) -> Departures:
    """Return how far the rows in a table have left."""
    (value,) = table.get_many([_GONE])
    if value is None:
        return Departures()
    with parsing_state(f"how far the rows in table {table.name} have left"):
        version, *fields = json.loads(value)
        check_format(version)
        left_before, watermark, row_bytes = fields
    return Departures(left_before, watermark, row_bytes)


class SideBuffer:
    """What waits of one side, during one batch of one task."""

    def __init__(self, table: KeyValueTable, plan: JoinPlan, side: int, schema: pa.Schema, horizon: int | None) -> None:
        """`schema`: that of the side's waiting rows, which takes longer to make than a small batch to read."""
        self._table, self._on, self._outer = table, len(plan.by), plan.outer[side]
        self._schema = schema
        self._width = max((plan.before + plan.after) // 4, _LEAST_WIDTH)
        before = LayeredSchema.kept_in(table)
        self._layered = LayeredRows(table, self._schema, as_they_are, width=self._width, marked=self._outer)
        self._layered.purge()
        departed = departures(table)
        self.gone, watermark, self._row_bytes = departed.left_before, departed.watermark, departed.row_bytes
        """Rows with an earlier time have left."""
        self._watermark = watermark
        self.waiting: Micros | None = None
        """After `leave`: the time from which on rows that are due follow with the next batch; None: none are."""
        if horizon is not None and watermark is not None and watermark > horizon:
            # It is not believed any more, as in the clock of the task. What has left by it must not leave again.
            self._rebuilt(self.gone)
            self.gone = self._watermark = None
        elif before is not None and before.width != self._width:
            self._rebuilt(self.gone)

    def nominees(self, incoming: SideRows, bounds: Bounds) -> list[Nominees]:
        """Return where partners of the incoming rows may wait."""
        nominees: list[Nominees] = []
        for buckets, near in self._reached(incoming.times, bounds):
            for piece_rows, matches in self._layered.find(buckets, incoming.hashes[near]):
                waiting_rows, order = SideRows.of(piece_rows.hashes, piece_rows.rows, self._on), None
                nominated = matches.of(near)
                if (narrowed := by_time(incoming, waiting_rows, nominated, bounds)) is not None:
                    waiting_rows, nominated, order = narrowed
                if len(nominated.probes):
                    nominees.append(Nominees(piece_rows, waiting_rows, nominated, order))
        return nominees

    def _reached(self, times: Times, bounds: Bounds) -> Iterator[tuple[list[int], Rows]]:
        """Yield buckets in which partners of rows with these times may wait, each once, with the indices of those rows.

        Buckets that may have some for all rows are yielded together.
        """
        before, after = bounds
        for_all: list[int] = []
        for bucket in self._buckets() if len(times) else ():
            start = bucket * self._width
            near = (times >= start - after) & (times < start + self._width + before)
            if near.all():
                for_all.append(bucket)
            elif near.any():
                yield [bucket], np.flatnonzero(near)
        if for_all:
            yield for_all, np.arange(len(times))

    def partners(
        self, incoming: SideRows, nominees: Iterable[Nominees], admitted: Mask, bounds: Bounds
    ) -> Iterator[tuple[SideRows, Rows, Rows]]:
        """Yield pairs of incoming rows that are `admitted` with waiting ones, a chunk at a time.

        Yielded are waiting rows, the indices of the pairs in `incoming`, and their indices in the waiting rows. Waiting
        rows that had no partner before are marked.
        """
        for candidates in nominees:
            waiting_rows = candidates.waiting_rows
            matches = candidates.matches.where(admitted)
            for incoming_indices, waiting_indices in pairs(incoming, waiting_rows, matches, bounds):
                if self.gone is not None:
                    # Only after `within` was raised: otherwise a row that has left is too far from all that come.
                    staying = waiting_rows.times[waiting_indices] >= self.gone
                    incoming_indices, waiting_indices = incoming_indices[staying], waiting_indices[staying]  # noqa: PLW2901 - the same pairs, fewer of them
                waiting_rows.matched[waiting_indices] = True
                yield waiting_rows, incoming_indices, waiting_indices
            if self._outer:
                marked = waiting_rows.rows.column(MARKED.name).to_numpy(zero_copy_only=False)
                newly_matched = np.flatnonzero(waiting_rows.matched & ~marked)
                if len(newly_matched):
                    self._layered.mark(
                        candidates.piece_rows,
                        newly_matched if candidates.order is None else candidates.order[newly_matched],
                    )

    def leave(self, until: Micros | None, watermark: int | None) -> Iterator[pa.RecordBatch]:
        """Let rows with an earlier time leave, None: all; yield those that come out because they had no partner."""
        left, reached = 0, until
        self._watermark = watermark
        for bucket in list(self._buckets()):
            start, end = bucket * self._width, (bucket + 1) * self._width
            if left >= _ROUND and (until is None or start < until):
                reached = Micros(start)
                break
            if until is not None and start >= until:
                break
            if self._outer:
                for piece in self._layered.pieces(bucket):
                    rows = self._without(piece, until)
                    left += rows.num_rows
                    yield rows
            if until is None or end <= until:
                self._layered.drop(bucket)
        self.waiting = None if reached == until else reached
        if reached is not None and (self.gone is None or reached > self.gone):
            self.gone = reached

    def _without(self, piece: HashedRows, until: Micros | None) -> pa.RecordBatch:
        times = piece.rows.column(TIME.name).to_numpy()
        due = ~piece.rows.column(MARKED.name).to_numpy(zero_copy_only=False)
        if self.gone is not None:
            due &= times >= self.gone
        if until is not None:
            due &= times < until
        return piece.rows.select(self._schema.names).filter(pa.array(due))

    def add(self, rows: SideRows) -> None:
        """Let rows wait."""
        if len(rows.hashes):
            self._row_bytes = rows.rows.nbytes / len(rows.hashes)
        buckets = self._put(HashedRows(rows.hashes, self._marked(rows)))
        self._layered.tidy_after(buckets, len(rows.hashes))
        self._layered.tidy_quiet(bucket for bucket in [*self._buckets()] if bucket not in buckets)
        value = json.dumps([FORMAT, self.gone, self._watermark, round(self._row_bytes, 1)]).encode()
        if self._table.get_many([_GONE]) != [value]:
            self._table.put_many([_GONE], [value])

    def size(self) -> BufferedRows:
        """Return how many rows wait, of about how many bytes, and since when."""
        buckets = list(self._buckets())
        rows = sum(self._layered.size(bucket)[1] for bucket in buckets)
        oldest = max(buckets[0] * self._width, self.gone or buckets[0] * self._width) if buckets else None
        since = None if oldest is None else floor_millis(Micros(oldest))
        return BufferedRows(rows, int(rows * self._row_bytes), since)

    def put_aside(self, rows: SideRows) -> None:
        """Keep rows that have not met any others yet."""
        self._layered.append(ASIDE, HashedRows(rows.hashes, self._marked(rows)))

    def take_back(self) -> list[pa.RecordBatch]:
        """Return the rows that were put aside, for this batch."""
        batches = [chunk.rows.select(self._schema.names) for chunk in self._layered.read([ASIDE])]
        if batches:
            self._layered.drop(ASIDE)
        return batches

    def _buckets(self) -> Iterator[int]:
        return self._layered.buckets(ASIDE)

    def _marked(self, rows: SideRows) -> pa.RecordBatch:
        return rows.rows.append_column(MARKED, pa.array(rows.matched)) if self._outer else rows.rows

    def _put(self, rows: HashedRows) -> list[int]:
        return self._layered.spread(rows.rows.column(TIME.name).to_numpy() // self._width, rows)

    def _rebuilt(self, left_before: Micros | None) -> None:
        """Put all waiting rows into buckets of the present width, but for those before `left_before`."""
        for bucket in list(self._buckets()):
            chunks = list(self._layered.read([bucket]))
            self._layered.drop(bucket)
            for chunk in chunks:
                staying = np.ones(len(chunk.hashes), np.bool_)
                if left_before is not None:
                    staying = chunk.rows.column(TIME.name).to_numpy() >= left_before
                self._put(HashedRows(chunk.hashes[staying], chunk.rows.filter(pa.array(staying))))
