"""Values of Kafka Connect, as JSON has them, into those of columns: whole columns at a time.

A value that its column can't take raises `UnfitValueError` for the whole column; who calls asks for smaller parts until
it is known which record holds it. Must not decide what a type means: the node says so.
"""

import base64
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.planning.types.connect.meanings import Conversion
from holdfast.planning.types.connect.reading import ConnectNode
from holdfast_runtime.streams.codecs.arrow_types import compact
from holdfast_runtime.streams.codecs.codec import Indices
from holdfast_runtime.streams.codecs.json_values import dates, instants, within_years

_WORD = 16
"""Bytes of a decimal."""
_MOST_DIGITS, _ROOM = 38, 76
"""Digits of a decimal, and of one that is twice as wide."""
_NANOS_OF_A_DAY = 24 * 60 * 60 * 10**9
_ISO_ZONE = "Z"
_POINTED = r"^[+-]?[0-9]{1,38}\.[0-9]{1,38}$"


class UnfitValueError(ValueError):
    """A value can't be in its column; the message is the reason."""


def converted(values: pa.Array, node: ConnectNode, kind: pa.DataType) -> pa.Array:
    """Return a column of this type; raise `UnfitValueError` if a value does not fit."""
    if node.is_plain:
        return values if values.type == kind else values.cast(kind)
    if node.inner:
        return _PARTS[node.conversion](compact(values), node, kind)
    try:
        return _LEAVES[node.conversion](values, node, kind)
    except (pa.ArrowException, OverflowError) as error:
        raise _unfit(values, node) from error


def converted_fields(
    columns: Mapping[str, pa.Array], node: ConnectNode, kind: pa.DataType, count: int
) -> list[pa.Array]:
    """Return the fields of a row of this type; those of which there is none are null."""
    return [
        pa.nulls(count, field.type)
        if part.conversion is Conversion.ABSENT
        else converted(columns[field.name], part, field.type)
        for part, field in zip(node.inner, kind, strict=True)
    ]


def _row(values: pa.Array, node: ConnectNode, kind: pa.DataType) -> pa.Array:
    columns = dict(zip((field.name for field in values.type), values.flatten(), strict=True))
    parts = converted_fields(columns, node, kind, len(values))
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null())


def _items(values: pa.Array, node: ConnectNode, kind: pa.DataType) -> pa.Array:
    elements = converted(values.flatten(), node.inner[0], kind.value_type)
    return pa.ListArray.from_arrays(_offsets(values), elements, type=kind, mask=values.is_null())


def _pairs(values: pa.Array, node: ConnectNode, kind: pa.DataType) -> pa.Array:
    entries = values.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", values.type.item_type)])))
    keys, items = entries.flatten().flatten()
    items = converted(items, node.inner[0], kind.item_type)
    return pa.MapArray.from_arrays(_offsets(entries), keys, items, type=kind, mask=entries.is_null())


def _offsets(lists: pa.Array) -> pa.Array:
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def _days(values: pa.Array, _node: ConnectNode, kind: pa.DataType) -> pa.Array:
    return within_years(values.cast(pa.int32()).view(kind))


def _moment(values: pa.Array, node: ConnectNode, kind: pa.DataType) -> pa.Array:
    if node.factor > 0:
        micros = pc.multiply_checked(values, node.factor)
    else:
        # Arrow would round towards zero: what was before 1970 would become later than it is.
        floored = np.floor_divide(values.fill_null(0).to_numpy(), -node.factor)
        micros = pc.if_else(values.is_valid(), pa.array(floored), None)
    return within_years(micros.view(kind))


def _clock(values: pa.Array, node: ConnectNode, kind: pa.DataType) -> pa.Array:
    nanos = pc.multiply_checked(values, node.factor)
    outside = pc.or_(pc.less(nanos, 0), pc.greater_equal(nanos, _NANOS_OF_A_DAY))
    if pc.any(outside).as_py():
        raise _unfit(values, node)
    return nanos.view(kind)


def _iso_moment(values: pa.Array, _node: ConnectNode, kind: pa.DataType) -> pa.Array:
    return within_years(instants(values, kind))


def _iso_date(values: pa.Array, _node: ConnectNode, _kind: pa.DataType) -> pa.Array:
    return within_years(dates(pc.utf8_rtrim(values, characters=_ISO_ZONE)))


def _pointed(values: pa.Array, node: ConnectNode, kind: pa.DataType) -> pa.Array:
    if pc.all(pc.match_substring_regex(values, pattern=_POINTED)).as_py() is False:
        raise _unfit(values, node)
    return values.cast(pa.decimal256(_ROOM, kind.scale)).cast(kind)


def _unscaled(values: pa.Array, node: ConnectNode, kind: pa.DataType) -> pa.Array:
    return _decimals(values, node.scale, kind, node)


def _decimals(values: pa.Array, scale: int, kind: pa.DataType, node: ConnectNode) -> pa.Array:
    """Return the numbers that big-endian bytes in two's complement are, with so many digits behind the point."""
    present = values.is_valid()
    ends, content = _content(values.fill_null(b"\0"))
    lengths = np.diff(ends)
    # Arrow looks powers of ten up in a table of this size.
    if abs(scale - kind.scale) > _MOST_DIGITS or (len(lengths) and not 0 < lengths.min() <= lengths.max() <= _WORD):
        raise _unfit(values, node)
    words = np.zeros((len(lengths), _WORD), np.uint8)
    words[content[ends[:-1]] > _LARGEST_POSITIVE] = _ONES
    rows = np.repeat(np.arange(len(lengths)), lengths)
    words[rows, np.arange(len(content)) - ends[1:][rows] + _WORD] = content
    memory = pa.py_buffer(np.ascontiguousarray(words[:, ::-1]))
    numbers = pa.Array.from_buffers(pa.decimal128(_MOST_DIGITS, scale), len(lengths), [None, memory])
    numbers.validate(full=True)
    # In 128 bits, 3402823669209384635e14 as DECIMAL(38,6) becomes another number.
    rescaled = numbers.cast(pa.decimal256(_ROOM, scale)).cast(pa.decimal256(_ROOM, kind.scale)).cast(kind)
    return pc.if_else(present, rescaled, pa.scalar(None, kind))


def _content(values: pa.BinaryArray) -> tuple[Indices, npt.NDArray[np.uint8]]:
    """Return where each value ends in the bytes of all, after a zero, and these bytes."""
    _, bounds, data = values.buffers()
    ends = np.frombuffer(bounds, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return ends - ends[0], content[ends[0] : ends[-1]]


def _own_scale(values: pa.Array, node: ConnectNode, kind: pa.DataType) -> pa.Array:
    scales, unscaled = compact(values).flatten()
    result = pa.nulls(len(values), kind)
    for scale in pc.unique(scales.drop_null()).to_pylist():
        of_scale = pc.equal(scales, scale).fill_null(False)  # noqa: FBT003 - Arrow's own
        numbers = _decimals(unscaled.filter(of_scale), scale, kind, node)
        result = pc.replace_with_mask(result, of_scale, numbers)
    return result


def _letters(values: pa.Array, node: ConnectNode, _kind: pa.DataType) -> pa.Array:
    """Refuse what was read as base64 and may have been hexadecimal, as which Debezium can be told to write bytes."""
    ends, content = _content(values.fill_null(b""))
    lengths = np.diff(ends)
    suspect = (lengths > 0) & (lengths % _TRIPLE == 0)
    triples = content[np.repeat(suspect, lengths)].reshape(-1, _TRIPLE).astype(np.int64) @ _PLACES
    if not len(triples):
        return values
    digits = _HEX_DIGITS[triples[:, None] >> _SHIFTS & _SIX_BITS].all(axis=1)
    firsts = np.cumsum(lengths[suspect] // _TRIPLE) - lengths[suspect] // _TRIPLE
    as_hex = np.logical_and.reduceat(digits, firsts)
    if as_hex.any():
        first = values[int(np.flatnonzero(suspect)[as_hex.argmax()])].as_py()
        raise _unfit(pa.array([base64.b64encode(first).decode()]), node)
    return values


def _nothing(values: pa.Array, _node: ConnectNode, kind: pa.DataType) -> pa.Array:
    return pa.nulls(len(values), kind)


def _unfit(values: pa.Array, node: ConnectNode) -> UnfitValueError:
    present = values.drop_null()
    first = present[0].as_py() if len(present) else None
    if isinstance(first, dict):
        first = {name: part.hex() if isinstance(part, bytes) else part for name, part in first.items()}
    text = first.hex() if isinstance(first, bytes) else str(first)
    return UnfitValueError(
        f"field {node.path} holds {text[:_SHOWN]}, {node.conversion.value}, which does not fit {node.target}"
    )


_SHOWN = 60
_TRIPLE, _PLACES, _SHIFTS, _SIX_BITS = 3, np.array([1 << 16, 1 << 8, 1]), np.array([18, 12, 6, 0]), 0x3F
_HEX_DIGITS = np.isin(np.arange(64), [*range(26, 32), *range(52, 62)])
"""Which values of a letter of base64 are those of a digit of hexadecimal, a to f and 0 to 9."""
_LARGEST_POSITIVE, _ONES = 0x7F, 0xFF
_Convert = Callable[[pa.Array, ConnectNode, pa.DataType], pa.Array]
_PARTS: dict[Conversion, _Convert] = {
    Conversion.ROW: _row,
    Conversion.ITEMS: _items,
    Conversion.PAIRS: _pairs,
}
_LEAVES: dict[Conversion, _Convert] = {
    Conversion.ABSENT: _nothing,
    Conversion.DAYS: _days,
    Conversion.MOMENT: _moment,
    Conversion.CLOCK: _clock,
    Conversion.ISO_MOMENT: _iso_moment,
    Conversion.ISO_DATE: _iso_date,
    Conversion.UNSCALED: _unscaled,
    Conversion.OWN_SCALE: _own_scale,
    Conversion.POINTED: _pointed,
    Conversion.LETTERS: _letters,
}
