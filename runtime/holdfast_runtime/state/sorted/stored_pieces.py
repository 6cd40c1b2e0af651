"""The pieces of layers as a table stores them: each a value, with its marks in another one if rows are marked.

Many small pieces are read in one call, which costs as much as one read of a small piece, and looked into as one. Who
looks for hashes gets a copy of the rows that have them: all else stays where it is, however large the piece. Must not
know which pieces a layer has, nor when one is obsolete.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast_runtime.columns.hashed_rows import HashedRows
from holdfast_runtime.columns.key_columns import Rows, Words
from holdfast_runtime.columns.sorted_hashes import find_places, sort_hashes
from holdfast_runtime.state.sorted.bucket_layers import LayerPiece

PIECE: Final = b"p"
"""The first byte of the keys of pieces, whose values are the only large ones of the table."""
MARKED: Final = pa.field("#marked", pa.bool_())
"""The column with the marks of rows, behind the columns of the schema."""
SHIFT: Final = 2**63
"""Buckets before 1970 are negative, and must come first."""
_HASHES: Final = pa.field("#", pa.uint64(), nullable=False)
_SMALL, _REMEMBERED = 16 * 1024, 1024
"""Of pieces of at most so many bytes, so many stay unpacked: what they hold is looked at more often than it changes."""
_NUMBERS: Final = Struct(">QQI")
KEY_LENGTH: Final = len(PIECE) + _NUMBERS.size
_T = TypeVar("_T")


class PieceTable(Protocol):
    """The methods of a table of the store that `StoredPieces` calls."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys, None for missing ones."""

    def view_many(self, keys: Sequence[bytes], view: Callable[[Sequence[Any]], _T]) -> _T:
        """Return what `view` makes of the values of these keys, which are there.

        A value is bytes or a view of them, which end with the call: nothing that refers to it may be returned.
        """

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write these values; None deletes."""


def piece_key(bucket: int, layer: int, piece: int) -> bytes:
    """Return the key of a piece."""
    return PIECE + _NUMBERS.pack(bucket + SHIFT, layer, piece)


@dataclass(frozen=True, slots=True)
class PieceRows(HashedRows):
    """The rows of stored pieces that have one of the hashes looked for; of one hash, those of earlier pieces first."""

    pieces: Sequence[bytes]
    """The keys of the pieces that were looked into."""
    starts: Rows
    """Where the rows of each piece begin, with the rows of all one behind the other."""
    places: Rows
    """Which of all these rows each row is."""

    def by_piece(self, indices: Rows) -> Iterator[tuple[bytes, Rows, Rows]]:
        """Yield each piece that has rows at these indices: its key, which of `indices` are of it, and where in it."""
        piece_of = self.starts.searchsorted(self.places[indices], side="right") - 1
        for number in np.unique(piece_of).tolist():
            chosen = np.flatnonzero(piece_of == number)
            yield self.pieces[number], chosen, self.places[indices[chosen]] - self.starts[number]


class StoredPieces:
    """The pieces in one table."""

    def __init__(self, table: PieceTable, schema: pa.Schema, most: tuple[int, int], *, marked: bool) -> None:
        """`most`: the rows and bytes of a piece. `marked`: rows have one more column, `MARKED`."""
        self._table, self._most, self._marked = table, most, marked
        self._stored = pa.schema([_HASHES, *schema])
        self.schema = pa.schema([*schema, MARKED]) if marked else schema
        """The columns of rows as they are read."""

    def write(self, bucket: int, layer: int, first: int, rows: HashedRows) -> tuple[LayerPiece, ...]:
        """Write rows of a layer as pieces, numbered from `first` on; return what the layer says of them."""
        count = len(rows.hashes)
        most_rows, most_bytes = self._most
        parts = max(-(-count // most_rows), -(-rows.rows.nbytes // most_bytes)) if count else 0
        bounds = [count * part // parts for part in range(parts + 1)] if parts else []
        pieces: list[LayerPiece] = []
        keys, values = [], []
        for start, end in itertools.pairwise(bounds):
            if start == end:
                continue
            part = rows.part(start, end)
            piece = LayerPiece(first + len(pieces), end - start, int(part.hashes[0]), int(part.hashes[-1]))
            columns = part.rows.columns[: len(self._stored) - 1]
            stored = pa.RecordBatch.from_arrays([pa.array(part.hashes), *columns], schema=self._stored)
            pieces.append(piece)
            keys.append(piece_key(bucket, layer, piece.number))
            values.append(stored.serialize().to_pybytes())
            if self._marked:
                keys.append(_mark_key(keys[-1]))
                marks = part.rows.column(MARKED.name).to_numpy(zero_copy_only=False)
                values.append(np.packbits(marks, bitorder="little").tobytes())
        self._table.put_many(keys, values)
        return tuple(pieces)

    def read(self, keys: Sequence[bytes]) -> Iterator[HashedRows]:
        """Yield the rows of these pieces; all of their values are read at once."""
        values = self._table.get_many([*keys, *self._mark_keys(keys)])
        for index, value in enumerate(values[: len(keys)]):
            assert value is not None  # noqa: S101 - a layer names what is there
            stored = _opened(value, self._stored)
            if self._marked:
                stored = HashedRows(stored.hashes, self._with_marks(stored.rows, values[len(keys) + index]))
            yield stored

    def find(self, bounds: Mapping[bytes, int], probes: Words) -> PieceRows | None:
        """Return the rows of these pieces that have one of these ascending hashes; None if there are none.

        `bounds`: key of a piece -> the hash from which on it is read, older pieces first.
        """
        if not bounds:
            return None
        piece_rows = self._table.view_many([*bounds], lambda values: self._found(bounds, values, probes))
        if piece_rows is None or not self._marked:
            return piece_rows
        marks = np.zeros(len(piece_rows.places), np.bool_)
        for key, chosen, indices in piece_rows.by_piece(np.arange(len(marks))):
            marks[chosen] = np.unpackbits(self._marks(key), bitorder="little")[indices]
        rows = pa.RecordBatch.from_arrays([*piece_rows.rows.columns, pa.array(marks)], schema=self.schema)
        return replace(piece_rows, rows=rows)

    def _found(self, bounds: Mapping[bytes, int], values: Sequence[Any], probes: Words) -> PieceRows | None:
        pieces = [_opened(value, self._stored) for value in values]
        ends = [*itertools.accumulate(len(piece.hashes) for piece in pieces)]
        starts = [0, *ends[:-1]]
        begins = [
            start + (int(piece.hashes.searchsorted(np.uint64(bound))) if bound else 0)
            for piece, start, bound in zip(pieces, starts, bounds.values(), strict=True)
        ]
        hashes = pieces[0].hashes if len(pieces) == 1 else np.concatenate([piece.hashes for piece in pieces])
        places = find_places(hashes, np.array(begins), np.array(ends), probes)
        if not len(places):
            return None
        splits = [0, *places.searchsorted(ends).tolist()]
        parts = [
            piece.rows.take(pa.array(places[first:last] - start))
            for piece, start, (first, last) in zip(pieces, starts, itertools.pairwise(splits), strict=True)
            if first < last
        ]
        if len(parts) == 1:
            return PieceRows(hashes[places], parts[0], [*bounds], np.array(starts), places)
        by_hash = sort_hashes(hashes[places])
        rows = pa.concat_batches(parts).take(pa.array(by_hash.order))
        return PieceRows(by_hash.hashes, rows, [*bounds], np.array(starts), places[by_hash.order])

    def _with_marks(self, rows: pa.RecordBatch, bits: bytes | None) -> pa.RecordBatch:
        """Return the rows of a piece with the column of their marks."""
        assert bits is not None  # noqa: S101 - written with the piece
        marks = pa.Array.from_buffers(pa.bool_(), rows.num_rows, [None, pa.py_buffer(bits)])
        return pa.RecordBatch.from_arrays([*rows.columns, marks], schema=self.schema)

    def _marks(self, key: bytes) -> npt.NDArray[np.uint8]:
        (bits,) = self._table.get_many([_mark_key(key)])
        assert bits is not None  # noqa: S101 - written with the piece
        return np.frombuffer(bits, np.uint8)

    def mark(self, piece_rows: PieceRows, indices: Rows) -> None:
        """Set the marks of the rows at these indices of what `find` has returned."""
        for key, _, piece_indices in piece_rows.by_piece(indices):
            bits = self._marks(key).copy()
            np.bitwise_or.at(bits, piece_indices >> 3, np.uint8(1) << (piece_indices & 7).astype(np.uint8))
            self._table.put_many([_mark_key(key)], [bits.tobytes()])

    def stored_keys(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return all keys under which something of these pieces is stored."""
        return [*keys, *self._mark_keys(keys)]

    def _mark_keys(self, keys: Sequence[bytes]) -> list[bytes]:
        return [*map(_mark_key, keys)] if self._marked else []


def _opened(value: Any, stored_schema: pa.Schema) -> HashedRows:
    """Return the rows of a piece; those of a small one do not refer to the value."""
    return _remembered(bytes(value), stored_schema) if len(value) <= _SMALL else _unpacked(value, stored_schema)


def _unpacked(value: Any, stored_schema: pa.Schema) -> HashedRows:
    stored = pa.ipc.read_record_batch(pa.py_buffer(value), stored_schema)
    return HashedRows(stored.column(0).to_numpy(), stored.remove_column(0))


_remembered = functools.lru_cache(_REMEMBERED)(_unpacked)


def _mark_key(piece: bytes) -> bytes:
    return b"m" + piece[1:]
