"""Why: the fast way to read JSON records: a whole block at once in pyarrow's C++ reader, or not at all.

pyarrow reads a stream of JSON objects and knows nothing of records, so what goes in must make it impossible that
objects and records get out of step: see `_lines`. It also crashes the process on a block that starts with `null`, which
the same check keeps out, and on some decimals: see `risky_decimals`. What it reads, the judge must read alike, or
neighbours would decide: infinities, which it makes of numbers too long for it, and times outside of the years 1 to 9999
are refused. Must not judge single records or give reasons: a block with one doubtful record is refused as a whole.
"""

from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from holdfast_runtime.streams.codecs.decimal_texts import Bytes, holds, risky_decimals
from holdfast_runtime.streams.codecs.json_values import dates, from_base64, instants, within_years

FEW = 64
"""Judging this many records one by one takes about as long as one call of the fast reader."""

OPEN, CLOSE = ord("{"), ord("}")
WHITESPACE = " \t\r\n"
MICROS_PER_MILLI = 1000


class TimestampStyle(Enum):
    """How a producer writes timestamps. All three may be read always; this is what is tried first."""

    ISO = "text of at most six digits behind the second, read by pyarrow"
    TEXT = "text with more digits, cut to microseconds"
    MILLIS = "whole numbers, milliseconds since 1970"


class JsonReader:
    """Reads blocks of records that are all plainly good."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._types = [field.type for field in schema]
        ways = (
            TimestampStyle
            if any(_contains(kind, pa.types.is_timestamp) for kind in self._types)
            else [TimestampStyle.ISO]
        )
        self._parse = {
            way: pj.ParseOptions(
                explicit_schema=pa.schema([(field.name, _readable(field.type, way)) for field in schema]),
                unexpected_field_behavior="ignore",
            )
            for way in ways
        }
        self._likely = TimestampStyle.ISO
        self._decimals = any(_contains(kind, pa.types.is_decimal) for kind in self._types)

    def read(self, block: pa.BinaryArray) -> pa.RecordBatch | None:
        """One row per record, or None if any record is not plainly good."""
        rows = self._read(block, self._likely)
        if rows is None and len(block) > FEW and self._read(block.slice(0, 1), self._likely) is None:
            # Which way this producer writes timestamps shows in one record; reading the block thrice would be dear.
            for way in self._parse:
                if way is not self._likely and self._read(block.slice(0, 1), way) is not None:
                    self._likely = way
                    return self._read(block, way)
        return rows

    def read_alone(self, record: pa.BinaryArray) -> pa.RecordBatch | None:
        """The row of a single record in whatever way it can be read, so that no earlier block decides."""
        return next((rows for way in self._parse if (rows := self._read(record, way)) is not None), None)

    def _read(self, block: pa.BinaryArray, way: TimestampStyle) -> pa.RecordBatch | None:
        try:
            buffer = _lines(block)
            if buffer is None or (self._decimals and risky_decimals(np.frombuffer(buffer, np.uint8))):
                return None
            table = pj.read_json(
                pa.BufferReader(buffer),
                read_options=pj.ReadOptions(use_threads=False, block_size=buffer.size + 1),
                parse_options=self._parse[way],
            )
            if table.num_rows != len(block):
                return None
            columns = [
                _finished(_whole(column), kind, way) for column, kind in zip(table.columns, self._types, strict=True)
            ]
        except (pa.ArrowInvalid, pa.ArrowCapacityError):
            return None
        if not columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(block), pa.struct([])))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _lines(block: pa.BinaryArray) -> pa.Buffer | None:
    """The records joined by line feeds, or None where objects and records could get out of step.

    Each record starts with { and ends with }, and } can stand before { in valid JSON only between two whole objects:
    inside, a comma or colon must separate them, and inside a string the line feed between the records is illegal.
    So every record holds at least one whole object, and as many objects as records means one each.
    Line feeds inside records become tabs, equally blank between tokens and equally illegal inside strings.
    A zero byte would end pyarrow's reading early.
    """
    text = block.cast(pa.string())
    if not _braced(text):
        text = pc.utf8_trim(text, characters=WHITESPACE)
        if not _braced(text):
            return None
    content = _content(text)
    if holds(content, "\0"):
        return None
    for blank in "\n\r":
        if holds(content, blank):
            text = pc.replace_substring(text, pattern=blank, replacement="\t")
    together = pa.ListArray.from_arrays(pa.array([0, len(text)], pa.int32()), text)
    return pc.binary_join(together, "\n")[0].as_buffer()


def _content(text: pa.StringArray) -> Bytes:
    first, last = _offsets(text)[[0, -1]]
    data = text.buffers()[2]
    return np.frombuffer(data, np.uint8)[first:last] if data is not None else np.empty(0, np.uint8)


def _offsets(text: pa.StringArray) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.frombuffer(text.buffers()[1], np.int32)[text.offset : text.offset + len(text) + 1]


def _braced(text: pa.StringArray) -> bool:
    """Whether each starts with { and ends with }."""
    offsets = _offsets(text)
    if (np.diff(offsets) < 2).any():  # noqa: PLR2004 - {}
        return False
    data = np.frombuffer(text.buffers()[2], np.uint8)
    return bool((data[offsets[:-1]] == OPEN).all() and (data[offsets[1:] - 1] == CLOSE).all())


def _contains(kind: pa.DataType, test: object) -> bool:
    assert callable(test)  # noqa: S101
    return bool(test(kind)) or any(_contains(kind.field(at).type, test) for at in range(kind.num_fields))


def _readable(kind: pa.DataType, way: TimestampStyle) -> pa.DataType:
    """What pyarrow is asked for in place of a type that it does not read as Spark writes it."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _readable(field.type, way)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _readable(kind.value_type, way)))
    if pa.types.is_timestamp(kind):
        return {TimestampStyle.ISO: kind, TimestampStyle.TEXT: pa.string(), TimestampStyle.MILLIS: pa.int64()}[way]
    if pa.types.is_decimal(kind):
        # In 128 bits, 1234567890123456789012 as DECIMAL(38,18) becomes another number.
        return pa.decimal256(kind.precision, kind.scale)
    return pa.string() if pa.types.is_date(kind) or pa.types.is_binary(kind) else kind


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _finished(array: pa.Array, kind: pa.DataType, way: TimestampStyle) -> pa.Array:  # noqa: PLR0911 - one per family
    """The column in its own type; raises `ArrowInvalid` where a value is none of it."""
    if pa.types.is_struct(kind):
        if kind.num_fields == 0:
            return array
        parts = [_finished(part, kind.field(at).type, way) for at, part in enumerate(array.flatten())]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        lengths = pc.list_value_length(array).fill_null(0).to_numpy()
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int32)]).astype(np.int32)
        elements = _finished(array.flatten(), kind.value_type, way)
        return pa.ListArray.from_arrays(pa.array(offsets), elements, type=kind, mask=array.is_null())
    if pa.types.is_timestamp(kind):
        if way is not TimestampStyle.ISO:
            array = instants(array, kind) if way is TimestampStyle.TEXT else from_millis(array, kind)
        return within_years(array)
    if pa.types.is_date(kind):
        return within_years(dates(array))
    if pa.types.is_binary(kind):
        return from_base64(array)
    if pa.types.is_floating(kind):
        return _finite(array)
    return array.cast(kind) if pa.types.is_decimal(kind) else array


def _finite(array: pa.Array) -> pa.Array:
    if pc.any(pc.is_inf(array)).as_py():
        message = "an infinity, or a number that was too long"
        raise pa.ArrowInvalid(message)
    return array


def from_millis(numbers: pa.Int64Array, kind: pa.DataType) -> pa.Array:
    """Timestamps from milliseconds since 1970; raises `ArrowInvalid` where one does not fit."""
    return pc.multiply_checked(numbers, MICROS_PER_MILLI).cast(kind)
