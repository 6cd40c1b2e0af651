"""The fast reader of JSON records: a whole block at once in pyarrow's C++ reader, or not at all.

pyarrow reads JSON objects and knows nothing of records: `_lines` keeps the two aligned, and keeps out a block that
starts with `null`, which crashes pyarrow. `risky_decimals` finds numbers whose digits are more than 76 places away from
the scale of a DECIMAL: pyarrow 26 looks them up beyond the end of a table (1e-999999999 ends the process). It may err
only by finding too many. The judge must read the same values, so infinities, which pyarrow makes of numbers too long
for it, and times outside of the years 1 to 9999 are refused. Must not judge single records or give reasons.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from holdfast_runtime.streams.codecs.json_values import dates, from_base64, from_millis, instants, within_years

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Indices = np.ndarray[Any, np.dtype[np.int64]]
Truths = np.ndarray[Any, np.dtype[np.bool_]]

PIECE = 1 << 18
"""numpy's intermediate results for this many bytes fit in the processor's cache: twice as fast as all at once."""
STRIDE = 16
"""A run of 48 digits has three digits among every 16th byte.

So at most 47 digits follow a point undetected, and with an exponent down to -29 that makes 76.
"""
OVERLAP = 3 * STRIDE
_E, _MINUS, _POINT, _ZERO, _THREE, _BACKSLASH, _U = (ord(character) for character in "e-.03\\u")
_AROUND = np.isin(np.arange(256), list(b'":,[]{} \t\n'))
"""For each byte, whether it may be next to a number."""
_AHEAD = np.arange(1, 16)
_CASE = ord("a") ^ ord("A")
_IN_NUMBERS = {f"{ord(character):04x}".encode() for character in "0123456789eE-.+"}


def holds(text: Bytes, char: str) -> bool:
    """Whether the text contains an ASCII character."""
    return any((piece == ord(char)).any() for piece in _pieces(text))


def risky_decimals(text: Bytes) -> bool:
    """Whether the text may contain a number that is too far from any scale."""
    return any(_long_run(piece) or _small(piece) or _escaped(piece) for piece in _pieces(text))


def _small(text: Bytes) -> bool:
    """Whether there is an exponent of -30 or less, or of more than two digits."""
    signs = text[1:-3] == _MINUS
    signs &= (text[:-4] | _CASE) == _E
    if not signs.any():
        return False
    indices = np.flatnonzero(signs) + 1
    before, first, second, third = (_digits(text[indices + ahead]) for ahead in (-2, 1, 2, 3))
    before |= text[indices - 2] == _POINT
    indices = indices[before & first & second & (third | (text[indices + 1] >= _THREE))]
    return any(
        _begins(text[max(0, index - 2 * OVERLAP) : index - 1].tobytes()) for index in _ending(text, indices).tolist()
    )


def _ending(text: Bytes, indices: Indices) -> Indices:
    """Return those minus signs whose digits can end a number: ids may contain `e-` among digits too."""
    behind = text[np.minimum(indices[:, None] + _AHEAD, len(text) - 1)]
    first = behind[np.arange(len(indices)), np.argmin(_digits(behind), axis=1)]
    endings: Indices = indices[_AROUND[first] | _digits(first)]
    return endings


def _begins(before: bytes) -> bool:
    """Whether the digits at the end of this text can begin a number."""
    head = before.rstrip(b"0123456789.")
    head = head[:-1] if head.endswith((b"+", b"-")) else head
    return not head or bool(_AROUND[head[-1]])


def _long_run(text: Bytes) -> bool:
    every = _digits(text[::STRIDE])
    indices = np.flatnonzero(every[:-2] & every[1:-1] & every[2:]) * STRIDE
    for ahead in range(1, 2 * STRIDE):
        if not len(indices):
            return False
        indices = indices[_digits(text[indices + ahead])]
    return len(indices) > 0


def _escaped(text: Bytes) -> bool:
    r"""Whether a character of a number is written as `\u0065`, which no encoder does on its own."""
    slashes = text[:-5] == _BACKSLASH
    if not slashes.any():
        return False
    indices = np.flatnonzero(slashes)
    indices = indices[(text[indices + 1] == _U) & (text[indices + 2] == _ZERO) & (text[indices + 3] == _ZERO)]
    return any(text[index + 2 : index + 6].tobytes().lower() in _IN_NUMBERS for index in indices.tolist())


def _pieces(text: Bytes) -> Iterator[Bytes]:
    """Yield pieces that overlap a little, so that every match is whole in at least one of them."""
    return (text[start : start + PIECE + OVERLAP] for start in range(0, len(text), PIECE))


def _digits(text: Bytes) -> Truths:
    return (text - _ZERO) < 10  # noqa: PLR2004 - what lies below 0 comes out above 9


FEW = 64
"""Judging this many records one by one takes about as long as one call of the fast reader."""

OPEN, CLOSE = ord("{"), ord("}")
WHITESPACE = " \t\r\n"


class TimestampStyle(Enum):
    """How a producer writes timestamps. All three are always accepted; this is only what is tried first."""

    ISO = "text of at most six digits behind the second, read by pyarrow"
    TEXT = "text with more digits, cut to microseconds"
    MILLIS = "whole numbers, milliseconds since 1970"


class JsonReader:
    """Reads blocks in which every record is plainly good."""

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
        """Return one row per record, or None if any record is not plainly good."""
        rows = self._read(block, self._likely)
        if rows is None and len(block) > FEW and self._read(block.slice(0, 1), self._likely) is None:
            # One record shows this producer's timestamp style; reading the whole block three times would be expensive.
            for way in self._parse:
                if way is not self._likely and self._read(block.slice(0, 1), way) is not None:
                    self._likely = way
                    return self._read(block, way)
        return rows

    def read_alone(self, record: pa.BinaryArray) -> pa.RecordBatch | None:
        """Return the row of a single record in any style, so that no earlier block decides."""
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
    """Return the records joined by line feeds, or None if objects and records could get out of step.

    Each record starts with { and ends with }, and } can precede { in valid JSON only between two whole objects: inside,
    a comma or colon must separate them, and inside a string the line feed between the records is illegal. So every
    record holds at least one whole object, and as many objects as records means one each. Line feeds inside records
    become tabs, which are also blank between tokens and illegal inside strings. A zero byte would end pyarrow's reading
    early.
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
    """Whether each text starts with { and ends with }."""
    offsets = _offsets(text)
    if (np.diff(offsets) < 2).any():  # noqa: PLR2004 - {}
        return False
    data = np.frombuffer(text.buffers()[2], np.uint8)
    return bool((data[offsets[:-1]] == OPEN).all() and (data[offsets[1:] - 1] == CLOSE).all())


def _contains(kind: pa.DataType, test: object) -> bool:
    assert callable(test)  # noqa: S101
    return bool(test(kind)) or any(_contains(kind.field(index).type, test) for index in range(kind.num_fields))


def _readable(kind: pa.DataType, way: TimestampStyle) -> pa.DataType:
    """Return the type to ask pyarrow for instead of one that it does not read as Spark writes it."""
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
    """Convert the column to its own type; raise `ArrowInvalid` if a value does not fit."""
    if pa.types.is_struct(kind):
        if kind.num_fields == 0:
            return array
        parts = [_finished(part, kind.field(index).type, way) for index, part in enumerate(array.flatten())]
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
