"""Records in JSON as Kafka Connect's converter writes them: with their schema (`schemas.enable=true`), or without.

Records are grouped by schema, each group is read at once, and rows stand in the order of records. Must not know what
the columns mean.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.planning.types.connect.reading import bare_reading, connect_reading
from holdfast.planning.types.connect.schema import ConnectType
from holdfast.planning.types.spark_types import RowType
from holdfast_runtime.streams.changes.connect_reader import ConnectReader, picked
from holdfast_runtime.streams.changes.wrapped_values import OPENING, Head, head_of, taken_apart
from holdfast_runtime.streams.codecs.arrow_types import arrow_schema
from holdfast_runtime.streams.codecs.codec import Indices
from holdfast_runtime.streams.codecs.record_reader import ReadRecords, in_order
from holdfast_runtime.streams.records import no_rows

MOST_SCHEMAS = 64
"""How many schemas are kept; those of a batch beyond are read record by record."""
_BARE = None
_NO_SCHEMA = (
    "; the record has no schema, and times as numbers, decimals without a point, a TIME and bytes that may be "
    "hexadecimal can't be told without: set schemas.enable=true of the converter, or declare such a column as Debezium "
    "writes it (BIGINT, STRING)"
)


class ConnectJson:
    """Reads records into columns. Remembers schemas, which affects speed but never rows."""

    def __init__(self, rows: RowType, fault: Callable[[ConnectType], str | None] = lambda _: None) -> None:
        """`fault`: why records of a schema are bad, beside that its values do not fit."""
        self._columns, self._fault = rows, fault
        self.schema = arrow_schema(rows)
        self._heads: dict[bytes, Head] = {}
        self._readers: dict[ConnectType, ConnectReader | str] = {}
        self._bare = ConnectReader(bare_reading(rows), self.schema, _NO_SCHEMA)

    def read(self, values: pa.BinaryArray) -> ReadRecords:
        """Return what is in these records, none of which is null."""
        opened = pc.starts_with(values, OPENING).to_numpy(zero_copy_only=False)
        parts, again = list[ReadRecords](), list[Indices]()
        bare = np.flatnonzero(~opened)
        if len(bare):
            records = self._bare.read(picked(values, bare)).among(bare)
            doubtful = self._without_any(records)
            again.append(np.concatenate([doubtful, [index for index, _ in records.bad]]).astype(np.int64))
            parts.append(records)
        left = np.flatnonzero(opened)
        for _ in range(MOST_SCHEMAS):
            if not len(left):
                break
            head = self._head(values[int(left[0])].as_py())
            if head is None:
                again.append(left[:1])
                left = left[1:]
                continue
            of_head = pc.starts_with(picked(values, left), head.prefix).to_numpy(zero_copy_only=False)
            records = self._behind(head, values, left[of_head])
            again.append(np.array([index for index, _ in records.bad], np.int64))
            parts.append(records)
            left = left[~of_head]
        return self._corrected(parts, values, np.concatenate([*again, left]).astype(np.int64))

    def _behind(self, head: Head, values: pa.BinaryArray, indices: Indices) -> ReadRecords:
        """Read records with this head."""
        whole = picked(values, indices)
        payloads = pc.binary_slice(whole, len(head.prefix), -1)
        closed = pc.ends_with(whole, b"}").to_numpy(zero_copy_only=False)
        records = self._of_schema(head.schema, payloads).among(indices)
        if closed.all():
            return records
        cut = set(indices[~closed].tolist())
        return _without(records, cut, [(index, "it has no end") for index in cut])

    def _corrected(self, parts: list[ReadRecords], values: pa.BinaryArray, again: Indices) -> ReadRecords:
        """Return records with those that must be looked at again read as what they are."""
        by_schema: dict[ConnectType | str | None, list[tuple[int, bytes]]] = {}
        for index in again.tolist():
            raw = values[index].as_py()
            apart = taken_apart(raw)
            schema, payload = (_BARE, raw) if apart is None else (apart.schema, apart.payload)
            by_schema.setdefault(schema, []).append((index, payload))
        if by_schema:
            looked_at = set(again.tolist())
            parts = [_without(part, looked_at, []) for part in parts]
        for schema, members in by_schema.items():
            indices = np.array([index for index, _ in members], np.int64)
            parts.append(self._of_schema(schema, pa.array([raw for _, raw in members], pa.binary())).among(indices))
        return in_order([*parts, ReadRecords(no_rows(self.schema), np.arange(0), [])], self.schema)

    def _of_schema(self, schema: ConnectType | str | None, payloads: pa.BinaryArray) -> ReadRecords:
        reader = self._reader(schema)
        if isinstance(reader, str):
            return ReadRecords(no_rows(self.schema), np.arange(0), [(index, reader) for index in range(len(payloads))])
        return reader.read(payloads)

    def _reader(self, schema: ConnectType | str | None) -> ConnectReader | str:
        if schema is None:
            return self._bare
        if isinstance(schema, str):
            return schema
        if schema not in self._readers:
            if len(self._readers) == MOST_SCHEMAS:
                del self._readers[next(iter(self._readers))]
            self._readers[schema] = self._made(schema)
        return self._readers[schema]

    def _made(self, schema: ConnectType) -> ConnectReader | str:
        fault = self._fault(schema)
        if fault is not None:
            return fault
        reading = connect_reading(schema, self._columns)
        if reading.misfits:
            return f"the schema in the record does not fit the columns: {'; '.join(reading.misfits)}"
        return ConnectReader(reading, self.schema)

    def _head(self, raw: bytes) -> Head | None:
        known = next((head for head in self._heads.values() if raw.startswith(head.prefix)), None)
        if known is not None:
            return known
        head = head_of(raw)
        if head is not None:
            if len(self._heads) == MOST_SCHEMAS:
                del self._heads[next(iter(self._heads))]
            self._heads[head.prefix] = head
        return head

    def _without_any(self, records: ReadRecords) -> Indices:
        """Return the records of which no column has a value: they may be wrapped in another layout."""
        empty = np.ones(records.rows.num_rows, bool)
        for column in records.rows.columns:
            empty &= column.is_null().to_numpy(zero_copy_only=False)
        return records.good[empty]


def _without(records: ReadRecords, indices: set[int], bad: list[tuple[int, str]]) -> ReadRecords:
    """Return records without some, of which these are bad."""
    keep = ~np.isin(records.good, list(indices)) if indices else np.ones(len(records.good), bool)
    other_faults = [pair for pair in records.bad if pair[0] not in indices]
    rows = records.rows if keep.all() else records.rows.filter(pa.array(keep))
    return ReadRecords(rows, records.good[keep], sorted([*other_faults, *bad]))
