"""The codec of change records: rows to keep and keys to delete, in the order of records.

A row is what stands in `after`; which row it replaces is said by the key of the record, and that of a deleted one by
nothing else. The key must be that of the row: where it is not, an update would leave the row before it. Must not know
what becomes of bad records.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.planning.types.connect.envelope import AFTER, OP, envelope
from holdfast.planning.types.spark_types import Column, RowType
from holdfast.spec.streams import Stream
from holdfast_runtime.streams.changes.change_keys import ChangeKeys
from holdfast_runtime.streams.changes.connect_json import ConnectJson
from holdfast_runtime.streams.changes.unavailable_values import unavailable
from holdfast_runtime.streams.changes.wrapped_values import members_of
from holdfast_runtime.streams.codecs.arrow_types import compact, row_type
from holdfast_runtime.streams.codecs.avro import AvroCodec
from holdfast_runtime.streams.codecs.codec import BadRecord, DecodedBatch, Indices, present
from holdfast_runtime.streams.codecs.record_reader import ReadRecords
from holdfast_runtime.streams.stream_codecs import SchemaRecords

UPSERTS, DELETE = ("c", "u", "r"), "d"
_WHY = {
    "t": "a truncate, which says nothing of single rows: set skipped.operations to t in the connector (its default), "
    "and give the table another name to load it anew",
    "m": "a message and no change of a row: leave such messages to a topic of their own",
}
_Mask = npt.NDArray[np.bool_]


class ChangeCodec:
    """Reads the records of one stream. Remembers schemas, which affects speed but never rows."""

    def __init__(self, declared: Stream, schema: pa.Schema, mark: pa.Field, records: SchemaRecords | None) -> None:
        """`schema`: the columns of rows; `mark`: the column behind them that is true where a row is a deleted key.

        `records`: what a registry says of a stream with Avro.
        """
        rows = row_type(schema)
        self._columns, self._mark = schema, mark
        key = [column for name in declared.key or () if (column := rows.find(name)) is not None]
        self.key = tuple(column.name for column in key)
        """The columns of the primary key."""
        self._keys = ChangeKeys(
            RowType(tuple(Column(column.name, column.type) for column in key)),
            None if records is None else records.schemas,
        )
        self._json = ConnectJson(envelope(rows)) if declared.format == "json" else None
        self._avro = None if records is None else AvroCodec(envelope(rows), records.schemas, None)
        self.schema = pa.schema([*schema, mark])

    def decode(self, records: pa.RecordBatch) -> DecodedBatch:
        """Return a row for each record; none of them is without a value, as that deletes its key."""
        values, indices, tombstones = present(records.column("value"))
        envelopes = self._envelopes(values).among(indices)
        keys = self._keys.read(records.column("key"))
        faults = dict(keys.bad) | dict(envelopes.bad)
        ops = envelopes.rows.column(OP)
        deletes = _mask(pc.equal(ops, DELETE))
        after = envelopes.rows.column(AFTER)
        upserts = _mask(pc.is_in(ops, pa.array(UPSERTS))) & _mask(after.is_valid())
        for at in np.flatnonzero(~(deletes | upserts)).tolist():
            faults[int(envelopes.good[at])] = self._fault(records, int(envelopes.good[at]), ops[at].as_py())
        upserted = self._kept(ReadRecords(envelopes.rows, envelopes.good, []), upserts, keys, faults)
        deleted_keys = np.sort(np.concatenate([envelopes.good[deletes], tombstones]))
        rows, good = self._in_order(upserted, _taken(keys, deleted_keys))
        bad = tuple(BadRecord(index, faults[index]) for index in sorted(faults))
        return DecodedBatch(rows, good, bad, np.arange(0))

    def _envelopes(self, values: pa.BinaryArray) -> ReadRecords:
        if self._json is not None:
            return self._json.read(values)
        assert self._avro is not None  # noqa: S101 - the planner asks for a registry
        decoded = self._avro.decode(values)
        return ReadRecords(decoded.rows, decoded.good, [(record.index, record.reason) for record in decoded.bad])

    def _kept(self, envelopes: ReadRecords, upserts: _Mask, keys: ReadRecords, faults: dict[int, str]) -> ReadRecords:
        """Return the rows to keep, by record; add a fault for each that must not be."""
        indices = envelopes.good[upserts]
        after = compact(envelopes.rows.column(AFTER).filter(pa.array(upserts)))
        rows = pa.RecordBatch.from_arrays(after.flatten(), schema=self._columns)
        key_rows = _rows_at(keys, indices)
        keyed = key_rows >= 0
        rows, indices = rows.filter(pa.array(keyed)), indices[keyed]
        key_columns = keys.rows.take(pa.array(key_rows[keyed])).columns
        fits = np.ones(len(indices), bool)
        for name, key_column in zip(self.key, key_columns, strict=True):
            fits &= _mask(pc.equal(rows.column(name), key_column))
        for at in np.flatnonzero(~fits).tolist():
            faults[int(indices[at])] = self._other_key(rows, key_columns, at)
        for field, column in zip(self._columns, rows.columns, strict=True):
            for at in np.flatnonzero(unavailable(column)).tolist():
                fits[at] = False
                faults.setdefault(int(indices[at]), _not_there(field.name))
        return ReadRecords(rows.filter(pa.array(fits)), indices[fits], [])

    def _in_order(self, upserted: ReadRecords, deleted_keys: ReadRecords) -> tuple[pa.RecordBatch, Indices]:
        """Return rows to keep and keys to delete in the order of their records."""
        parts = [_marked(upserted.rows.columns, self.schema, deleted=False, count=upserted.rows.num_rows)]
        if deleted_keys.rows.num_rows:
            by_name = dict(zip(self.key, deleted_keys.rows.columns, strict=True))
            columns = [
                by_name.get(field.name, pa.nulls(deleted_keys.rows.num_rows, field.type)) for field in self._columns
            ]
            parts.append(_marked(columns, self.schema, deleted=True, count=deleted_keys.rows.num_rows))
        rows, good = pa.concat_batches(parts), np.concatenate([upserted.good, deleted_keys.good])
        if not deleted_keys.rows.num_rows:
            return rows, good
        order = np.argsort(good)
        return rows.take(pa.array(order)), good[order]

    def _fault(self, records: pa.RecordBatch, index: int, op: str | None) -> str:
        """Return why a record that could be read says nothing of a row."""
        if op in UPSERTS:
            return f"its op is {op}, and after is null, so there is no row; is it an envelope of Debezium?"
        if op is not None:
            return f"its op is {op[:20]!r}, {_WHY.get(op, 'and Debezium writes c, u, r and d for changes of rows')}"
        members = members_of(records.column("value")[index].as_py()) if self._json is not None else None
        names = ", ".join(list(members)[:8]) if members else ""
        has = f" (it has {names})" if names else ""
        return (
            f"it has no op, and an envelope of Debezium says with it what was done{has}; leave the transform that "
            "unwraps envelopes out of the connector, or changes out of the stream"
        )

    def _other_key(self, rows: pa.RecordBatch, key_columns: Sequence[pa.Array], at: int) -> str:
        shown = [
            f"{name} is {_shown(key_column[at])} in its key and {_shown(rows.column(name)[at])} in after"
            for name, key_column in zip(self.key, key_columns, strict=True)
        ]
        return f"{', '.join(shown)}; the key of a record must be that of its row, or rows could not be replaced"


def _rows_at(keys: ReadRecords, indices: Indices) -> Indices:
    """Return the row of each of these records' keys, -1 of one that can't be read."""
    if not len(keys.good):
        return np.full(len(indices), -1)
    places = np.minimum(np.searchsorted(keys.good, indices), len(keys.good) - 1)
    return np.where(keys.good[places] == indices, places, -1)


def _taken(keys: ReadRecords, indices: Indices) -> ReadRecords:
    """Return the keys of these records, as far as they can be read."""
    rows = _rows_at(keys, indices)
    return ReadRecords(keys.rows.take(pa.array(rows[rows >= 0])), indices[rows >= 0], [])


def _marked(columns: Sequence[pa.Array], schema: pa.Schema, *, deleted: bool, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*columns, pa.array(np.full(count, deleted))], schema=schema)


def _not_there(column: str) -> str:
    return (
        f"{column} was not changed, and is not in the database's log, so the row is not whole: set REPLICA IDENTITY "
        f"FULL for the table in PostgreSQL, or leave {column} out of the schema"
    )


def _shown(value: pa.Scalar) -> str:
    return repr(value.as_py())[:40]


def _mask(column: pa.BooleanArray) -> _Mask:
    return np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)  # noqa: FBT003 - Arrow's own
