"""Keys of change records: the columns of the primary key, and nothing else, from whatever their converter writes.

A key is an object in JSON, with its schema or without, a record of Avro behind the id of its schema, or the value of a
single column as text. One that has other columns than the stream's `key` makes the record bad, since rows of several
keys would be one row. Must not know values.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.planning.types.avro.schema import AvroKind, AvroSchema
from holdfast.planning.types.connect.envelope import other_key
from holdfast.planning.types.connect.schema import ConnectType
from holdfast.planning.types.spark_types import RowType
from holdfast_runtime.streams.changes.connect_json import ConnectJson
from holdfast_runtime.streams.changes.wrapped_values import OPENING, PAYLOAD, SCHEMA, members_of
from holdfast_runtime.streams.codecs.arrow_types import arrow_schema
from holdfast_runtime.streams.codecs.avro import AvroCodec
from holdfast_runtime.streams.codecs.codec import Indices
from holdfast_runtime.streams.codecs.json_codec import JsonCodec
from holdfast_runtime.streams.codecs.record_reader import ReadRecords, in_order
from holdfast_runtime.streams.codecs.record_schemas import WriterSchemas
from holdfast_runtime.streams.records import no_rows

NO_KEY = (
    "the record has no key, so it can't be told which row it is of; Debezium writes none for a table without a primary "
    "key: set message.key.columns of the connector"
)
_FRAME, _OBJECT = b"\0", b"{"
_WHOLE = r"^-?[0-9]{1,19}$"
_Mask = npt.NDArray[np.bool_]


class ChangeKeys:
    """Reads keys into the columns of the stream's `key`."""

    def __init__(self, rows: RowType, schemas: WriterSchemas[AvroSchema] | None) -> None:
        """`schemas`: those of a registry, if keys may be Avro."""
        self.schema = arrow_schema(rows)
        self._names = rows.names
        self._json = ConnectJson(rows, self._fault)
        self._simple = all(map(_is_simple, self.schema.types))
        self._avro = None if schemas is None else AvroCodec(rows, _KeySchemas(schemas, self._other), None)

    def read(self, keys: pa.BinaryArray) -> ReadRecords:
        """Return the keys in which every column has a value."""
        absent = keys.is_null().to_numpy(zero_copy_only=False)
        objects = self._starting(keys, _OBJECT)
        framed = self._starting(keys, _FRAME) if self._avro is not None else np.zeros(len(keys), bool)
        parts = [ReadRecords(no_rows(self.schema), np.arange(0), [(int(at), NO_KEY) for at in np.flatnonzero(absent)])]
        for mask, read in (
            (objects, self._objects),
            (framed, self._framed),
            (~(absent | objects | framed), self._texts),
        ):
            if mask.any():
                indices = np.flatnonzero(mask)
                parts.append(read(keys.take(pa.array(indices))).among(indices))
        return self._whole(in_order(parts, self.schema))

    def _starting(self, keys: pa.BinaryArray, first: bytes) -> _Mask:
        mask: _Mask = (
            pc.starts_with(keys, first).fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - Arrow's own
        )
        return mask

    def _objects(self, keys: pa.BinaryArray) -> ReadRecords:
        records = self._json.read(keys)
        unsure = self._unsure(records, keys)
        faults = {
            int(index): fault
            for index in unsure
            if (members := members_of(keys[int(index)].as_py())) is not None
            and members.keys() != {SCHEMA, PAYLOAD}
            and (fault := self._other(tuple(members))) is not None
        }
        return _refused(records, faults)

    def _unsure(self, records: ReadRecords, keys: pa.BinaryArray) -> Indices:
        """Return the records whose key may have other members than the columns: it is not written as rows are."""
        bare = ~self._starting(keys, OPENING)[records.good]
        if not self._simple or not bare.any():
            return records.good[bare]
        rows, indices = records.rows.filter(pa.array(bare)), records.good[bare]
        texts = keys.take(pa.array(indices))
        members = members_of(texts[0].as_py()) or {}
        order = [name for name in members if name in self._names]
        if len(order) == len(self._names):
            codec = JsonCodec(pa.schema([self.schema.field(name) for name in order]))
            same = pc.equal(codec.encode(rows.select(order)), texts).to_numpy(zero_copy_only=False)
            indices = indices[~same]
        return indices

    def _framed(self, keys: pa.BinaryArray) -> ReadRecords:
        assert self._avro is not None  # noqa: S101 - or none would be told to be framed
        decoded = self._avro.decode(keys)
        return ReadRecords(decoded.rows, decoded.good, [(record.index, record.reason) for record in decoded.bad])

    def _texts(self, keys: pa.BinaryArray) -> ReadRecords:
        """Read keys that are the value of one column."""
        kind = self.schema.types[0]
        if len(self._names) > 1 or not (pa.types.is_string(kind) or pa.types.is_integer(kind)):
            reason = f"its key is no object, and key has {', '.join(self._names)}; let the connector write keys as JSON"
            return ReadRecords(no_rows(self.schema), np.arange(0), [(index, reason) for index in range(len(keys))])
        try:
            column = self._of_texts(keys, kind)
        except pa.ArrowInvalid:
            if len(keys) == 1:
                reason = f"its key is {keys[0].as_py()[:40]!r}, which is no {self._names[0]} ({kind})"
                return ReadRecords(no_rows(self.schema), np.arange(0), [(0, reason)])
            halves = np.array_split(np.arange(len(keys)), 2)
            return in_order([self._texts(keys.take(pa.array(half))).among(half) for half in halves], self.schema)
        return ReadRecords(pa.RecordBatch.from_arrays([column], schema=self.schema), np.arange(len(keys)), [])

    def _of_texts(self, keys: pa.BinaryArray, kind: pa.DataType) -> pa.Array:
        texts = keys.cast(pa.string())
        if pa.types.is_string(kind):
            return texts
        if not pc.all(pc.match_substring_regex(texts, pattern=_WHOLE)).as_py():
            message = "not a whole number"
            raise pa.ArrowInvalid(message)
        return texts.cast(kind)

    def _whole(self, records: ReadRecords) -> ReadRecords:
        """Return keys without those in which a column has no value."""
        faults: dict[int, str] = {}
        for name, column in zip(self._names, records.rows.columns, strict=True):
            if column.null_count:
                missing = records.good[column.is_null().to_numpy(zero_copy_only=False)]
                faults |= {
                    int(index): f"its key has no value for {name}, which the stream's key has" for index in missing
                }
        return _refused(records, faults)

    def _fault(self, kind: ConnectType) -> str | None:
        return self._other(tuple(name for name, _ in kind.fields))

    def _other(self, names: Sequence[str]) -> str | None:
        return other_key(names, self._names)


class _KeySchemas:
    """The schemas of keys, of which those with other columns are of no use."""

    framed = True

    def __init__(self, schemas: WriterSchemas[AvroSchema], fault: Callable[[Sequence[str]], str | None]) -> None:
        self._schemas, self._fault = schemas, fault

    def schema(self, number: int, /) -> AvroSchema | str:
        """Return the schema of this id, or why its keys can't be used."""
        schema = self._schemas.schema(number)
        if isinstance(schema, str):
            return schema
        root = schema.resolved(schema.root)
        if root.kind is not AvroKind.RECORD:
            return f"its key is {root} in Avro, and Debezium writes a record with the columns of the primary key"
        return self._fault(tuple(field.name for field in root.fields)) or schema


def _is_simple(kind: pa.DataType) -> bool:
    """Whether values of a type are written in one way only."""
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _refused(records: ReadRecords, faults: Mapping[int, str]) -> ReadRecords:
    """Return records of which some are bad."""
    if not faults:
        return records
    keep = ~np.isin(records.good, list(faults))
    return ReadRecords(records.rows.filter(pa.array(keep)), records.good[keep], sorted([*records.bad, *faults.items()]))
