"""Why: `format: arrow`: a record's value is an Arrow IPC stream, for producers that have columns already.

A record may hold any number of rows, and should hold many: one row per record costs far more bytes and time than JSON.
Columns go by name: missing ones are null, others are ignored, a column of another type makes the record bad (text and
bytes may be in any of Arrow's layouts, times in any unit that loses nothing). Holdfast writes one row per record, since
rows are partitioned one by one. Must not trust a byte: what is read is validated in full before anything computes.
"""

import numpy as np
import pyarrow as pa

from holdfast_runtime.streams.codecs.codec import BadRecord, Decoded, Indices, present, require_schema, stacked


class ArrowCodec:
    """`format: arrow`."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """The rows of all records; a record is read as a whole or not at all."""
        here, index, nulls = present(values)
        pieces: list[pa.RecordBatch] = []
        places: list[Indices] = []
        bad: list[BadRecord] = []
        for at, value in zip(index, here, strict=True):
            found = self._rows(value.as_buffer())
            if isinstance(found, str):
                bad.append(BadRecord(int(at), found))
                continue
            for batch in found:
                pieces.append(batch)
                places.append(np.full(batch.num_rows, at, np.int64))
        good = np.concatenate(places) if places else index[:0]
        return Decoded(stacked(pieces, self.schema), good, tuple(bad), nulls)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """One IPC stream per row."""
        require_schema(rows, self.schema)
        start = self.schema.serialize().to_pybytes()
        end = b"\xff\xff\xff\xff\x00\x00\x00\x00"
        return pa.array(
            [start + rows.slice(at, 1).serialize().to_pybytes() + end for at in range(rows.num_rows)], pa.binary()
        )

    def _rows(self, value: pa.Buffer) -> list[pa.RecordBatch] | str:
        try:
            with pa.ipc.open_stream(value) as stream:
                batches = list(stream)
            for batch in batches:
                batch.validate(full=True)
        except (pa.ArrowException, OSError, ValueError, EOFError) as error:
            return (
                f"the value is not an Arrow IPC stream: {str(error).splitlines()[0][:120] if str(error) else 'empty'}"
            )
        made = []
        for batch in batches:
            columns = []
            for field in self.schema:
                column = _column(batch, field)
                if isinstance(column, str):
                    return column
                columns.append(column)
            made.append(pa.RecordBatch.from_arrays(columns, schema=self.schema) if columns else batch.select([]))
        return made


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array | str:
    places = batch.schema.get_all_field_indices(field.name)
    if not places:
        return pa.nulls(batch.num_rows, field.type)
    found = batch.column(places[0])
    if len(places) > 1:
        return f"field {field.name} is there {len(places)} times"
    if found.type == field.type:
        return found
    if any(all(test(kind) for kind in (found.type, field.type)) for test in KINDRED):
        try:
            return found.cast(field.type)
        except pa.ArrowException:
            return f"field {field.name} should be {field.type}, found {found.type} with values that do not fit"
    return f"field {field.name} should be {field.type}, found {found.type}"


def _text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _bytes(kind: pa.DataType) -> bool:
    return kind in (pa.binary(), pa.large_binary(), pa.binary_view()) or pa.types.is_fixed_size_binary(kind)


def _instant(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _wall_clock(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is None


KINDRED = (
    _text,
    _bytes,
    _instant,
    _wall_clock,
    pa.types.is_integer,
    pa.types.is_list,
    pa.types.is_map,
    pa.types.is_struct,
)
