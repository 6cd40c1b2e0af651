"""How Avro writes whole numbers and the defaults of fields."""

import struct
from collections.abc import Callable
from typing import Any

from holdfast.planning.types.avro.schema import AvroField, AvroKind, AvroSchema, AvroType

_MORE, _LOW = 0x80, 0x7F


def whole(number: int) -> bytes:
    """Return a whole number of 64 bits as it is written."""
    rest = (number << 1 ^ number >> 63) & (1 << 64) - 1
    out = bytearray()
    while rest > _LOW:
        out.append(rest & _LOW | _MORE)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def default_bytes(schema: AvroSchema, kind: AvroType, value: Any) -> bytes | None:
    """Return a default as it is written; None if it is no value of the type. JSON has bytes as text of Latin-1."""
    try:
        return _fitting(schema, kind, value)
    except RecursionError:  # the default of a field of its own record, in which it is missing again
        return None


def _fitting(schema: AvroSchema, kind: AvroType, value: Any) -> bytes | None:
    try:
        return _written(schema, kind, value)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, struct.error):
        return None


def _written(schema: AvroSchema, kind: AvroType, value: Any) -> bytes:
    """Return a value as it is written; raise what Python raises where it does not fit."""
    kind = schema.resolved(kind)
    return _WAYS[kind.kind](schema, kind, value)


def _require(fits: bool, kind: AvroType) -> None:  # noqa: FBT001 - what is required
    if not fits:
        message = f"it is no {kind}"
        raise ValueError(message)


def _null(_: AvroSchema, kind: AvroType, value: Any) -> bytes:
    _require(value is None, kind)
    return b""


def _boolean(_: AvroSchema, kind: AvroType, value: Any) -> bytes:
    _require(isinstance(value, bool), kind)
    return bytes([value])


def _number(_: AvroSchema, kind: AvroType, value: Any) -> bytes:
    bits = 31 if kind.kind is AvroKind.INT else 63
    _require(isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits, kind)
    return whole(value)


def _floating(_: AvroSchema, kind: AvroType, value: Any) -> bytes:
    _require(isinstance(value, int | float) and not isinstance(value, bool), kind)
    return struct.pack("<f" if kind.kind is AvroKind.FLOAT else "<d", value)


def _text(_: AvroSchema, kind: AvroType, value: Any) -> bytes:
    text: bytes = value.encode("utf-8" if kind.kind is AvroKind.STRING else "latin-1")
    return whole(len(text)) + text


def _fixed(_: AvroSchema, kind: AvroType, value: Any) -> bytes:
    text: bytes = value.encode("latin-1")
    _require(len(text) == kind.size, kind)
    return text


def _enum(_: AvroSchema, kind: AvroType, value: Any) -> bytes:
    return whole(kind.symbols.index(value))


def _record(schema: AvroSchema, kind: AvroType, value: Any) -> bytes:
    return b"".join(_field(schema, known, value) for known in kind.fields)


def _field(schema: AvroSchema, known: AvroField, record: dict[str, Any]) -> bytes:
    if known.name in record:
        return _written(schema, known.type, record[known.name])
    if known.default is None:
        raise KeyError(known.name)
    return _written(schema, known.type, known.default.value)


def _array(schema: AvroSchema, kind: AvroType, value: Any) -> bytes:
    _require(isinstance(value, list), kind)
    return _block([_written(schema, kind.inner[0], item) for item in value])


def _map(schema: AvroSchema, kind: AvroType, value: Any) -> bytes:
    text = AvroType(AvroKind.STRING)
    return _block([_text(schema, text, name) + _written(schema, kind.inner[0], x) for name, x in value.items()])


def _block(items: list[bytes]) -> bytes:
    return whole(len(items)) + b"".join(items) + whole(0) if items else whole(0)


def _union(schema: AvroSchema, kind: AvroType, value: Any) -> bytes:
    for number, branch in enumerate(kind.inner):
        written = _fitting(schema, branch, value)
        if written is not None:
            return whole(number) + written
    raise ValueError(value)


_WAYS: dict[AvroKind, Callable[[AvroSchema, AvroType, Any], bytes]] = {
    AvroKind.NULL: _null,
    AvroKind.BOOLEAN: _boolean,
    AvroKind.INT: _number,
    AvroKind.LONG: _number,
    AvroKind.FLOAT: _floating,
    AvroKind.DOUBLE: _floating,
    AvroKind.BYTES: _text,
    AvroKind.STRING: _text,
    AvroKind.FIXED: _fixed,
    AvroKind.ENUM: _enum,
    AvroKind.RECORD: _record,
    AvroKind.ARRAY: _array,
    AvroKind.MAP: _map,
    AvroKind.UNION: _union,
}
