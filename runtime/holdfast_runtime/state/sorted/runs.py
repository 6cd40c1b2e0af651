"""Sorted columnar runs in one table of a task's store: what windows, joins, deduplication and tables stand on.

Rows lie in buckets, numbered by time. A batch appends one run to a bucket: its rows in the order of their keys' hashes,
cut into pieces of at most 64 Ki rows or 4 MiB. Six runs of one level are merged into one of the next, `tidy` by `tidy`:
so a batch never pays for all that is held. A merge under way has a bound: rows with a lower hash are in its target, all
others still in its sources. A row per key and batch is never read to be changed: a newer run says more or something
else, and `combine` tells what several runs say together.

    d <bucket>                   the directory of the bucket: its runs, their pieces and bounds, its merges
    p <bucket> <run> <piece>     the rows of a piece: an Arrow record batch without its schema, the hashes in front
    m <bucket> <run> <piece>     a bit for each of these rows, if rows are marked; it moves with its row
    s                            the schema of all rows, see `schema`
    n                            the number of the next run
    t                            pieces that no directory names any more

What a directory no longer names is deleted a batch later, without undo: the undo of a batch takes back the directory,
and what that names must still be there. No number of a run is given twice: a bucket that is dropped and comes back
would have pieces of the very names that are to be deleted. Must not know time, keys or verbs.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Protocol, Self

import numpy as np
import pyarrow as pa

from holdfast_runtime.columns.hashed_rows import END_OF_HASHES, Combine, HashedRows, as_they_are
from holdfast_runtime.columns.key_columns import Rows, Words
from holdfast_runtime.columns.sorted_hashes import HashMatches, find_hashes
from holdfast_runtime.state.sorted.directory import BucketDirectory, RunMerge, RunPart, RunPiece, SortedRun
from holdfast_runtime.state.sorted.schema import RunsSchema

FAN_IN = 6
"""How many runs of one level become one of the next."""
PIECE_ROWS = 64 * 1024
PIECE_BYTES = 4 << 20
_TIDIED = 4
"""How many rows are merged for each that is appended: a row is merged once per level, and there are few levels."""
_LEAST_TIDIED = 64 * 1024
_HASHES = pa.field("#", pa.uint64(), nullable=False)
MARKED = pa.field("#marked", pa.bool_())
"""The column of rows that can be marked, behind their own."""
_BUCKET = Struct(">Q")
_NUMBER = Struct(">Q")
_NUMBERS = Struct(">QQI")
_SHIFT = 2**63
"""Buckets before 1970 are negative, and must come first."""
ASIDE = 2**62
"""A bucket behind all times, for rows that are not of a stretch of time."""
_NEXT, _TRASH = b"n", b"t"
PIECE = b"p"
"""What the keys of pieces begin with, the only large values here."""


class RunsTable(Protocol):
    """What runs need of a table of the store."""

    @property
    def name(self) -> str:
        """The name of the table."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys, None for missing ones."""

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write these values; None deletes."""

    def purge(self, keys: Sequence[bytes]) -> None:
        """Delete keys for good: undoing the batch does not bring them back."""

    def scan(self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Return the rows in key order."""


@dataclass(frozen=True, slots=True)
class HeldPiece(HashedRows):
    """The rows of a piece that count, as they are kept."""

    key: bytes
    first: int
    """How many rows of the piece are before them."""


class Runs:
    """The runs in one table, during one batch of one task."""

    def __init__(
        self,
        table: RunsTable,
        schema: pa.Schema,
        combine: Combine,
        most: tuple[int, int] = (PIECE_ROWS, PIECE_BYTES),
        *,
        width: int | None = None,
        marked: bool = False,
    ) -> None:
        """Raise `RunsSchemaError` if other rows are there. `width`: of a bucket in microseconds, for those who look.

        `marked`: rows have one more column, `MARKED`, which is kept apart and can be set later.
        """
        self._table, self._combine, self._most = table, combine, most
        self._settle: Combine = as_they_are
        self._declared, self._marked = RunsSchema(schema, width), marked
        self._declared.check(table)
        self._stored = pa.schema([_HASHES, *schema])
        self._schema = pa.schema([*schema, MARKED]) if marked else schema

    def settling(self, settle: Combine) -> Self:
        """Let merges do this with combined rows of which there are no older ones; return the runs."""
        self._settle = settle
        return self

    def buckets(self, before: int | None = None) -> Iterator[int]:
        """Yield the buckets that hold anything, in ascending order; with `before`, only lower ones."""
        stop = None if before is None else b"d" + _BUCKET.pack(before + _SHIFT)
        for key, _ in self._table.scan(b"d", stop=stop):
            yield _BUCKET.unpack(key[1:])[0] - _SHIFT

    def append(self, bucket: int, rows: HashedRows) -> None:
        """Add rows to a bucket, as its newest run."""
        if not len(rows.hashes):
            return
        self._declared.keep(self._table)
        directory = self._directory(bucket)
        number = self._new_number()
        run = SortedRun(number, 0, self._write(bucket, number, 0, rows))
        self._keep(bucket, replace(directory, runs=(*directory.runs, run)))

    def spread(self, buckets: Rows, rows: HashedRows) -> list[int]:
        """Add rows to the bucket of each; return these buckets."""
        found: list[int] = np.unique(buckets).tolist()
        for bucket in found:
            here = np.flatnonzero(buckets == bucket)
            part = rows.rows if len(found) == 1 else rows.rows.take(pa.array(here))
            self.append(bucket, HashedRows(rows.hashes[here], part))
        return found

    def find(self, bucket: int, wanted: Words) -> Iterator[tuple["HeldPiece", HashMatches]]:
        """Look ascending hashes up in a bucket, piece by piece, older runs first."""
        for held in self.pieces(bucket, wanted):
            first = int(np.searchsorted(wanted, held.hashes[0], side="left"))
            last = int(np.searchsorted(wanted, held.hashes[-1], side="right"))
            found = find_hashes(held.hashes, wanted[first:last])
            # Places are those of `wanted` as it was given: hashes outside of the piece match nothing.
            yield held, found.spread(np.arange(first, last), len(wanted))

    def pieces(self, bucket: int, wanted: Words | None = None) -> Iterator["HeldPiece"]:
        """Yield the rows of a bucket as they are kept, older runs first; `wanted`: only pieces that may hold these."""
        directory = self._directory(bucket)
        for run in directory.runs:
            bound = directory.bound(run)
            for piece in run.pieces:
                if piece.high < bound:
                    continue
                if wanted is not None:
                    first = int(np.searchsorted(wanted, np.uint64(max(piece.low, bound)), side="left"))
                    if first == int(np.searchsorted(wanted, np.uint64(piece.high), side="right")):
                        continue
                at = _piece_key(bucket, run.number, piece.number)
                whole = self._read(at)
                rows = whole.between(bound, END_OF_HASHES)
                if len(rows.hashes):
                    yield HeldPiece(rows.hashes, rows.rows, at, len(whole.hashes) - len(rows.hashes))

    def piece(self, key: bytes, first: int) -> "HeldPiece":
        """Return a piece that was found before in this batch."""
        whole = self._read(key)
        rows = whole.part(first, len(whole.hashes))
        return HeldPiece(rows.hashes, rows.rows, key, first)

    def mark(self, piece: "HeldPiece", places: Rows) -> None:
        """Mark rows of a piece."""
        (key,) = _mark_keys([piece.key])
        (value,) = self._table.get_many([key])
        assert value is not None  # noqa: S101 - written with the piece
        bits = np.frombuffer(value, np.uint8).copy()
        at = places + piece.first
        np.bitwise_or.at(bits, at >> 3, np.uint8(1) << (at & 7).astype(np.uint8))
        self._table.put_many([key], [bits.tobytes()])

    def read(
        self, buckets: Sequence[int], low: int = 0, before: int | None = None, combine: Combine | None = None
    ) -> Iterator[HashedRows]:
        """Yield the rows of these buckets from a hash on, combined, in the order of hashes, in chunks that share none.

        What an earlier bucket holds counts as older. `before`: only runs with a lower number. `combine`: in this way
        and not as runs are merged.
        """
        parts: list[RunPart] = []
        for bucket in buckets:
            directory = self._directory(bucket)
            parts += directory.parts(bucket, (run for run in directory.runs if before is None or run.number < before))
        while low < END_OF_HASHES:
            rows, low = self._range(parts, low, combine or self._combine)
            if len(rows.hashes):
                yield rows

    def size(self, bucket: int) -> tuple[int, int]:
        """Return how many runs and rows a bucket has; rows of which some are merged already may count twice."""
        runs = self._directory(bucket).runs
        return len(runs), sum(piece.rows for run in runs for piece in run.pieces)

    def drop(self, bucket: int) -> None:
        """Forget a bucket."""
        directory = self._directory(bucket)
        self._throw(bucket, ((run, piece) for run in directory.runs for piece in run.pieces))
        self._table.put_many([b"d" + _BUCKET.pack(bucket + _SHIFT)], [None])

    def tidy(self, bucket: int, budget: int) -> int:
        """Merge runs of a bucket, about so many rows at most; return how many rows were read."""
        directory, spent = self._directory(bucket), 0
        begun = directory
        while spent < budget:
            directory = self._with_merge(directory)
            if not directory.merges:
                break
            # The lowest level first: what it leaves is what the next batches have to look through.
            merge = min(directory.merges, key=lambda one: directory.run(one.target).level)
            directory, rows = self._advance(bucket, directory, merge)
            spent += rows
        if directory is not begun:
            self._keep(bucket, directory)
        return spent

    def next_number(self) -> int:
        """Return the number of the next run."""
        (value,) = self._table.get_many([_NEXT])
        return 0 if value is None else int(_NUMBER.unpack(value)[0])

    def tidy_after(self, buckets: Iterable[int], appended: int) -> None:
        """Merge runs of these buckets, in proportion to the rows that a batch has appended to them."""
        budget = max(_TIDIED * appended, _LEAST_TIDIED)
        for bucket in buckets:
            budget -= self.tidy(bucket, budget)

    def purge(self) -> None:
        """Delete what earlier batches have thrown away; once in a batch, before anything is thrown away in it."""
        trash = self._trash()
        if trash:
            self._table.purge(trash)
            self._table.put_many([_TRASH], [None])

    def _with_merge(self, directory: BucketDirectory) -> BucketDirectory:
        """Begin a merge where enough runs of a level are at rest."""
        busy = {number for merge in directory.merges for number in (merge.target, *merge.sources)}
        levels: dict[int, list[SortedRun]] = {}
        for run in directory.runs:
            if run.number not in busy:
                levels.setdefault(run.level, []).append(run)
        for level, runs in sorted(levels.items()):
            if len(runs) >= FAN_IN:
                sources = tuple(run.number for run in runs)
                target = SortedRun(self._new_number(), level + 1, ())
                # In the place of its newest source: runs stay in the order in which their rows came.
                at = directory.runs.index(runs[-1]) + 1
                return replace(
                    directory,
                    runs=(*directory.runs[:at], target, *directory.runs[at:]),
                    merges=(*directory.merges, RunMerge(target.number, sources, 0)),
                )
        return directory

    def _advance(self, bucket: int, directory: BucketDirectory, merge: RunMerge) -> tuple[BucketDirectory, int]:
        """Take one step of a merge."""
        sources = [directory.run(number) for number in merge.sources]
        rows, bound = self._range(directory.parts(bucket, sources), merge.bound, self._combine)
        read = len(rows.hashes)
        if directory.runs[0].number in merge.sources:
            rows = self._settle(rows)
        target = directory.run(merge.target)
        after = target.pieces[-1].number + 1 if target.pieces else 0
        pieces = (*target.pieces, *self._write(bucket, target.number, after, rows))
        done = tuple((run, piece) for run in sources for piece in run.pieces if piece.high < bound)
        self._throw(bucket, done)
        gone = {(run.number, piece.number) for run, piece in done}
        runs = tuple(
            replace(run, pieces=pieces)
            if run is target
            else replace(run, pieces=tuple(one for one in run.pieces if (run.number, one.number) not in gone))
            for run in directory.runs
        )
        if bound >= END_OF_HASHES:
            runs = tuple(run for run in runs if run.number not in merge.sources and (run is not target or run.pieces))
            merges = tuple(one for one in directory.merges if one is not merge)
        else:
            merges = tuple(replace(one, bound=bound) if one is merge else one for one in directory.merges)
        return replace(directory, runs=runs, merges=merges), read

    def _range(self, parts: Sequence[RunPart], low: int, combine: Combine) -> tuple[HashedRows, int]:
        """Return the next rows of these runs from a hash on, combined, and the hash from which others follow."""
        left = [(part, [piece for piece in part.run.pieces if piece.high >= max(low, part.bound)]) for part in parts]
        ends = [pieces[0].high + 1 for _, pieces in left if pieces]
        if not ends:
            return HashedRows(np.zeros(0, np.uint64), pa.RecordBatch.from_pylist([], self._schema)), END_OF_HASHES
        end = min(ends)
        if all(pieces[-1].high < end for _, pieces in left if pieces):
            end = END_OF_HASHES
        found = [
            self._read(_piece_key(part.bucket, part.run.number, piece.number)).between(max(low, part.bound), end)
            for part, pieces in left
            for piece in pieces
            if piece.low < end
        ]
        return combine(HashedRows.joined(found)), end

    def _directory(self, bucket: int) -> BucketDirectory:
        (value,) = self._table.get_many([b"d" + _BUCKET.pack(bucket + _SHIFT)])
        return BucketDirectory() if value is None else BucketDirectory.read(value)

    def _keep(self, bucket: int, directory: BucketDirectory) -> None:
        self._table.put_many([b"d" + _BUCKET.pack(bucket + _SHIFT)], [directory.text()])

    def _write(self, bucket: int, run: int, first: int, rows: HashedRows) -> tuple[RunPiece, ...]:
        count = len(rows.hashes)
        most_rows, most_bytes = self._most
        parts = max(-(-count // most_rows), -(-rows.rows.nbytes // most_bytes)) if count else 0
        bounds = [count * part // parts for part in range(parts + 1)] if parts else []
        pieces: list[RunPiece] = []
        keys, values = [], []
        for start, end in itertools.pairwise(bounds):
            if start == end:
                continue
            part = rows.part(start, end)
            piece = RunPiece(first + len(pieces), end - start, int(part.hashes[0]), int(part.hashes[-1]))
            columns = part.rows.columns[: len(self._stored) - 1]
            stored = pa.RecordBatch.from_arrays([pa.array(part.hashes), *columns], schema=self._stored)
            pieces.append(piece)
            keys.append(_piece_key(bucket, run, piece.number))
            values.append(stored.serialize().to_pybytes())
            if self._marked:
                keys += _mark_keys(keys[-1:])
                marks = part.rows.column(MARKED.name).to_numpy(zero_copy_only=False)
                values.append(np.packbits(marks, bitorder="little").tobytes())
        self._table.put_many(keys, values)
        return tuple(pieces)

    def _read(self, key: bytes) -> HashedRows:
        value, *marks = self._table.get_many([key, *(_mark_keys([key]) if self._marked else [])])
        assert value is not None  # noqa: S101 - a directory names what is there
        stored = pa.ipc.read_record_batch(pa.py_buffer(value), self._stored)
        columns = stored.columns[1:]
        for bits in marks:
            assert bits is not None  # noqa: S101 - written with the piece
            columns.append(pa.Array.from_buffers(pa.bool_(), len(stored), [None, pa.py_buffer(bits)]))
        return HashedRows(stored.column(0).to_numpy(), pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _new_number(self) -> int:
        number = self.next_number()
        self._table.put_many([_NEXT], [_NUMBER.pack(number + 1)])
        return number

    def _throw(self, bucket: int, pieces: Iterable[tuple[SortedRun, RunPiece]]) -> None:
        keys = [_piece_key(bucket, run.number, piece.number) for run, piece in pieces]
        keys += _mark_keys(keys) if self._marked else []
        if keys:
            self._table.put_many([_TRASH], [b"".join([*self._trash(), *keys])])

    def _trash(self) -> list[bytes]:
        (value,) = self._table.get_many([_TRASH])
        size = 1 + _NUMBERS.size
        return [] if value is None else [value[at : at + size] for at in range(0, len(value), size)]


def _piece_key(bucket: int, run: int, piece: int) -> bytes:
    return PIECE + _NUMBERS.pack(bucket + _SHIFT, run, piece)


def _mark_keys(pieces: Sequence[bytes]) -> list[bytes]:
    return [b"m" + key[1:] for key in pieces]
