"""The codec of `format: json`: one JSON object per record, read by blocks and written by columns.

It reads a batch at once. If that fails, it halves the batch until few records are in doubt, and judges those one by
one. So a bad record costs about a second reading of one batch, and never the rows around it. Whether a record is good
does not depend on its neighbours: the judge decides, and the fast reader refuses whatever it might read differently.
Must not be silently lenient: a value of the wrong type makes a bad record.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from holdfast_runtime.columns.batches import stacked
from holdfast_runtime.streams.codecs.arrow_types import SchemaUnsupportedError
from holdfast_runtime.streams.codecs.codec import RECORDS, BadRecord, DecodedBatch, Indices, present, require_schema
from holdfast_runtime.streams.codecs.json_judge import UnfitError, judge_of
from holdfast_runtime.streams.codecs.json_reader import FEW, JsonReader
from holdfast_runtime.streams.codecs.json_writer import json_objects


class JsonCodec:
    """`format: json`. Remembers how the producer writes timestamps, which affects speed but never results."""

    def __init__(self, schema: pa.Schema) -> None:
        for field in schema:
            _require_json(field.type, field.name)
        self.schema = schema
        self._judge = judge_of(schema)
        self._reader = None if any(_has_map(field.type) for field in schema) else JsonReader(schema)

    def decode(self, values: pa.BinaryArray) -> DecodedBatch:
        """Return one row for each record that is a JSON object of fitting values."""
        here, index, nulls = present(values)
        pieces: list[pa.RecordBatch] = []
        places: list[Indices] = []
        bad: list[BadRecord] = []
        stack = [(0, len(here))] if len(here) else []
        while stack:
            start, stop = stack.pop()
            block = here.slice(start, stop - start)
            rows = self._reader.read(block) if self._reader else None
            if rows is not None:
                pieces.append(rows)
                places.append(index[start:stop])
            elif stop - start > FEW and self._reader:
                middle = (start + stop) // 2
                stack += [(middle, stop), (start, middle)]
            else:
                rows, kept, unfit = self._judged(block)
                pieces.append(rows)
                places.append(index[start:stop][kept])
                bad += [BadRecord(int(index[start + at]), reason) for at, reason in unfit]
        good = np.concatenate(places) if places else index[:0]
        return DecodedBatch(stacked(pieces, self.schema, RECORDS), good, tuple(bad), nulls)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one JSON object per row, without null columns."""
        require_schema(rows, self.schema)
        return json_objects(rows).cast(pa.binary())

    def _judged(self, block: pa.BinaryArray) -> tuple[pa.RecordBatch, list[int], list[tuple[int, str]]]:
        pieces: list[pa.RecordBatch] = []
        made: list[dict[str, Any]] = []
        kept: list[int] = []
        unfit: list[tuple[int, str]] = []
        for at, raw in enumerate(block.to_pylist()):
            try:
                made.append(self._judge(raw))
            except UnfitError as error:
                # With other neighbours, the fast reader may have accepted the record; then it must be good here too.
                row = self._reader.read_alone(block.slice(at, 1)) if self._reader and not error.sure else None
                if row is None:
                    unfit.append((at, str(error)))
                    continue
                pieces += [self._rows(made), row]
                made = []
            kept.append(at)
        return stacked([*pieces, self._rows(made)], self.schema, RECORDS), kept, unfit

    def _rows(self, made: list[dict[str, Any]]) -> pa.RecordBatch:
        if not self.schema.names:
            return pa.RecordBatch.from_struct_array(pa.array(made, pa.struct([])))
        columns = [pa.array([row[field.name] for row in made], field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _require_json(kind: pa.DataType, column: str) -> None:
    if pa.types.is_duration(kind) or pa.types.is_time(kind):
        message = f"column {column} is {kind}, which JSON records don't carry; declare it as STRING or BIGINT"
        raise SchemaUnsupportedError(message)
    if pa.types.is_map(kind) and not pa.types.is_string(kind.key_type):
        message = f"column {column} is a map with keys of {kind.key_type}; the names in a JSON object are STRING"
        raise SchemaUnsupportedError(message)
    for at in range(kind.num_fields):
        _require_json(kind.field(at).type, column)


def _has_map(kind: pa.DataType) -> bool:
    return bool(pa.types.is_map(kind)) or any(_has_map(kind.field(at).type) for at in range(kind.num_fields))
