"""The pieces of layers as a table stores them: each a value, with its marks in another one if rows are marked.

Many small pieces are read in one call, which costs as much as one read of a small piece. Who looks for hashes gets a
copy of the rows that have them: all else stays where it is, however large the piece. Must not know which pieces a layer
has, nor when one is obsolete.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from holdfast_runtime.columns.hashed_rows import HashedRows
from holdfast_runtime.columns.key_columns import Rows, Words
from holdfast_runtime.columns.sorted_hashes import HashMatches, find_hashes
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

    def view_many(self, keys: Sequence[bytes], view: Callable[[bytes, Any], _T]) -> list[_T]:
        """Return what `view` makes of each of these keys and its value, which is there.

        A value is bytes or a view of them, which end with the call: nothing that refers to it may be returned.
        """

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write these values; None deletes."""


def piece_key(bucket: int, layer: int, piece: int) -> bytes:
    """Return the key of a piece."""
    return PIECE + _NUMBERS.pack(bucket + SHIFT, layer, piece)


@dataclass(frozen=True, slots=True)
class PieceRows(HashedRows):
    """The rows of a stored piece that have one of the hashes looked for."""

    piece: bytes
    """The key under which the piece is stored."""
    indices: Rows
    """The index of each row in the piece."""


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

    def find(self, bounds: Mapping[bytes, int], probes: Words) -> Iterator[tuple[PieceRows, HashMatches]]:
        """Look up ascending hashes in these pieces; yield the rows that have one, piece by piece, with the matches.

        `bounds`: key of a piece -> the hash from which on it is read.
        """
        for match in self._table.view_many([*bounds], lambda key, value: self._found(key, value, bounds[key], probes)):
            if match is not None:
                rows, matches = match
                if self._marked:
                    (bits,) = self._table.get_many([_mark_key(rows.piece)])
                    rows = replace(rows, rows=self._with_marks(rows.rows, bits, rows.indices))
                yield rows, matches

    def _found(self, key: bytes, value: Any, bound: int, probes: Words) -> tuple[PieceRows, HashMatches] | None:
        piece = _opened(value, self._stored)
        first = int(probes.searchsorted(max(piece.hashes[0], np.uint64(bound)), side="left"))
        last = int(probes.searchsorted(piece.hashes[-1], side="right"))
        matches = find_hashes(piece.hashes, probes[first:last])
        if not len(matches.probes):
            return None
        indices, matches = matches.compact()
        rows = PieceRows(piece.hashes[indices], piece.rows.take(pa.array(indices)), key, indices)
        return rows, matches.of(np.arange(first, last))

    def _with_marks(self, rows: pa.RecordBatch, bits: bytes | None, indices: Rows | None = None) -> pa.RecordBatch:
        """Return the rows of a piece, or those at these indices, with the column of their marks."""
        assert bits is not None  # noqa: S101 - written with the piece
        if indices is None:
            marks = pa.Array.from_buffers(pa.bool_(), rows.num_rows, [None, pa.py_buffer(bits)])
        else:
            marks = pa.array(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[indices].astype(np.bool_))
        return pa.RecordBatch.from_arrays([*rows.columns, marks], schema=self.schema)

    def mark(self, key: bytes, indices: Rows) -> None:
        """Set the marks of the rows at these indices of a piece."""
        (value,) = self._table.get_many([_mark_key(key)])
        assert value is not None  # noqa: S101 - written with the piece
        bits = np.frombuffer(value, np.uint8).copy()
        np.bitwise_or.at(bits, indices >> 3, np.uint8(1) << (indices & 7).astype(np.uint8))
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
