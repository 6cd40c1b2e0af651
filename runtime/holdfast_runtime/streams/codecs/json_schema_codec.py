"""The codec of `format: json-schema`: JSON objects behind the id of their schema.

What is behind the ids is read and written as `format: json` is: columns decide what is good, not the schema, which must
only be one that the registry knows, of JSON. Must not judge objects by their schemas.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.planning.types.json_schema import JsonSchema
from holdfast_runtime.streams.codecs.codec import BadRecord, DecodedBatch, EncodeError, present
from holdfast_runtime.streams.codecs.json_codec import JsonCodec
from holdfast_runtime.streams.codecs.record_schemas import WriterSchemas, WrittenSchema
from holdfast_runtime.streams.codecs.schema_ids import NO_ID, no_frame, schema_ids


class JsonSchemaCodec:
    """`format: json-schema`. Remembers which ids are good."""

    def __init__(
        self, schema: pa.Schema, schemas: WriterSchemas[JsonSchema], written: WrittenSchema[JsonSchema] | None
    ) -> None:
        self.schema = schema
        self._json, self._schemas, self._written = JsonCodec(schema), schemas, written
        self._good_ids: set[int] = set()

    def decode(self, values: pa.BinaryArray) -> DecodedBatch:
        """Return one row for each record whose schema is known and whose object fits the columns."""
        if not self._schemas.framed:
            return self._json.decode(values)
        present_values, indices, nulls = present(values)
        ids = schema_ids(present_values)
        numbers = ids[:1].tolist() if (ids == ids[:1]).all() else np.unique(ids).tolist()
        reasons = {number: reason for number in numbers if (reason := self._reason(number)) is not None}
        bad = []
        if reasons:
            is_bad = np.isin(ids, list(reasons))
            refused = np.flatnonzero(is_bad)
            raw_values = present_values.take(pa.array(refused)).to_pylist()
            for index, number, raw in zip(refused.tolist(), ids[refused].tolist(), raw_values, strict=True):
                bad.append(BadRecord(int(indices[index]), reasons[number] or no_frame(raw)))
            present_values, indices = present_values.filter(pa.array(~is_bad)), indices[~is_bad]
        decoded = self._json.decode(present_values, framed=True)
        bad += [BadRecord(int(indices[record.index]), record.reason) for record in decoded.bad]
        bad.sort(key=lambda record: record.index)
        return DecodedBatch(decoded.rows, indices[decoded.good], tuple(bad), nulls)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one record per row."""
        if self._written is None:
            message = "the stream has no JSON schema to write its records with"
            raise EncodeError(message)
        objects = self._json.encode(rows)
        if not self._written.frame:
            return objects
        return pc.binary_join_element_wise(pa.scalar(self._written.frame), objects, pa.scalar(b""))

    def _reason(self, number: int) -> str | None:
        """Return why records of this id can't be read, an empty text if each has its own reason; None if they can."""
        if number in self._good_ids:
            return None
        if number == NO_ID:
            return ""
        schema = self._schemas.schema(number)
        if isinstance(schema, str):
            return schema  # it may be there later
        self._good_ids.add(number)
        return None
