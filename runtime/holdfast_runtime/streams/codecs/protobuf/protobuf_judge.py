"""The careful reader of one Protobuf message: the values of its columns, or a reason that names the field.

It is the law for protobuf_records.c, which reads what is good and plain and leaves the others to it: messages whose
fields are there twice, too, of which the last counts, and whose messages inside are merged. Stricter than Protobuf in
one thing: a known field with bytes of another type is no unknown field, as its value would be lost without a word. Must
not be used for batches of good records if the other is there: it is a hundred times slower.
"""

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from holdfast.planning.types.protobuf.program import MessageNode, ProtobufProgram, Shape, WireOp
from holdfast.planning.types.spark_types import SparkType
from holdfast_runtime.streams.codecs.arrow_types import RANGES
from holdfast_runtime.streams.codecs.plain_codec import not_utf8
from holdfast_runtime.streams.codecs.protobuf.wire import (
    WIRE_WORDS,
    WIRES,
    Wire,
    WireField,
    packed_values,
    unreadable,
    wire_fields,
)

LAST_NANO = 999_999_999
_32, _64 = 32, 64
_MESSAGES = (WireOp.MESSAGE, WireOp.TIMESTAMP, WireOp.WRAPPER)


class ProtobufJudge:
    """Reads messages by a program."""

    def __init__(self, program: ProtobufProgram) -> None:
        self._nodes, self._cells = program.nodes, program.cells
        self._known = [{program.nodes[inner].number: inner for inner in node.inner} for node in program.nodes]

    def read(self, raw: bytes) -> tuple[Any, ...]:
        """Return the values of the columns; raise `UnreadableError`.

        Times are whole numbers in the unit of their column, rows inside of rows are tuples, maps are lists of pairs.
        """
        row: tuple[Any, ...] = self._row(0, raw, 0)
        return row

    def _row(self, number: int, raw: bytes, cell: int) -> tuple[Any, ...]:
        """Return the row in a message, whose fields go to the parts of a cell."""
        values = self._fields(number, raw)
        by_cell = {self._nodes[inner].cell: value for inner, value in values.items()}
        return tuple(by_cell.get(part) for part in self._cells[cell].inner)

    def _fields(self, number: int, raw: bytes) -> dict[int, Any]:
        """Return the value of each known field of a message, by node."""
        node = self._nodes[number]
        read: dict[int, Any] = {}
        for field in wire_fields(raw, f"field {node.path}" if node.path else "the record"):
            inner = self._known[number].get(field.number)
            if inner is not None:
                self._add(read, inner, field)
        return {inner: self._value(inner, read.get(inner)) for inner in node.inner}

    def _add(self, read: dict[int, Any], number: int, field: WireField) -> None:
        node = self._nodes[number]
        wire = Wire.SIZED if node.shape is Shape.MAP else WIRES[node.op]
        items = [field.value]
        if node.shape is Shape.LIST and field.wire is Wire.SIZED and wire is not Wire.SIZED:
            items = list(packed_values(field.value, wire, f"field {node.path}"))
        elif field.wire is not wire:
            unreadable(
                f"field {node.path} is {WIRE_WORDS[field.wire]}, and its schema has {WIRE_WORDS[wire]} there; is it of "
                "another schema?"
            )
        if node.shape is Shape.MAP:
            key, value = self._fields(number, field.value).values()
            read.setdefault(number, {})[key] = value
        elif node.shape is Shape.LIST:
            read.setdefault(number, []).extend(self._one(number, item) for item in items)
        else:
            if node.choice:
                for other in [x for x in read if x != number and self._nodes[x].choice == node.choice]:
                    del read[other]
            value = self._one(number, field.value)
            if node.op in _MESSAGES:  # what follows is merged into it, as if it stood behind it
                value = read.get(number, b"") + field.value
            read[number] = value

    def _one(self, number: int, value: Any) -> Any:
        """Return one value of a node, which may be in a list."""
        node = self._nodes[number]
        cell = self._cells[node.cell].inner[0] if node.shape is Shape.LIST else node.cell
        match node.op:
            case WireOp.MESSAGE:
                return self._row(number, value, cell)
            case WireOp.WRAPPER:
                (wrapped,) = self._fields(number, value).values()
                return wrapped
            case WireOp.TIMESTAMP:
                return self._moment(node, value)
        return self._scalar(node, cell, value)

    def _value(self, number: int, read: Any) -> Any:
        """Return the value of a field at the end of its message."""
        node = self._nodes[number]
        if node.shape is Shape.MAP:
            return list((read or {}).items())
        if node.shape is Shape.LIST:
            return read or []
        if read is not None:
            return self._one(number, read) if node.op in _MESSAGES else read
        if node.shape is Shape.OPTIONAL:
            return None
        if node.op in _MESSAGES:  # the value of a map that has none
            return self._one(number, b"")
        wire = WIRES[node.op]
        return self._scalar(node, node.cell, 0 if wire is Wire.VARINT else bytes(_SIZES.get(wire, 0)))

    def _moment(self, node: MessageNode, raw: bytes) -> int:
        seconds = nanos = 0
        for field in wire_fields(raw, f"field {node.path}"):
            if field.number in (1, 2) and field.wire is not Wire.VARINT:
                unreadable(f"field {node.path} is {WIRE_WORDS[field.wire]} where a Timestamp has a varint")
            if field.number == 1:
                seconds = _signed(field.value, _64)
            elif field.number == 2:  # noqa: PLR2004 - as Timestamp has it
                nanos = _signed(field.value, _32)
        if not 0 <= nanos <= LAST_NANO:
            unreadable(f"field {node.path} has {nanos} nanoseconds, which is no part of a second")
        least, most = RANGES["TIMESTAMP"]
        if not least <= (micros := seconds * 1_000_000 + nanos // 1000) <= most:
            unreadable(f"field {node.path} should be a time in the years 1 to 9999, found {seconds} seconds")
        return micros

    def _scalar(self, node: MessageNode, cell: int, value: Any) -> Any:
        target = self._cells[cell].type
        match node.op:
            case WireOp.BOOL:
                return bool(value)
            case WireOp.STRING if target.word != "BINARY":
                return _text(node, value)
            case WireOp.STRING | WireOp.BYTES:
                return value
            case WireOp.FLOAT | WireOp.DOUBLE:
                return struct.unpack("<f" if node.op is WireOp.FLOAT else "<d", value)[0]
        number = _NUMBERS[node.op](int.from_bytes(value, "little") if isinstance(value, bytes) else value)
        return _symbol(node, number) if node.op is WireOp.ENUM else _number(node, target, number)


_SIZES = {Wire.FOUR_BYTES: 4, Wire.EIGHT_BYTES: 8}


def _symbol(node: MessageNode, number: int) -> str:
    if number not in node.numbers:
        unreadable(f"field {node.path} has the number {number}, which its enum has no name for; declare it as INT")
    return node.symbols[node.numbers.index(number)]


def _number(node: MessageNode, target: SparkType, number: int) -> Any:
    if target.word == "DECIMAL":
        return Decimal(number)
    if target.word == "DOUBLE":
        return float(number)
    if target.word == "FLOAT":
        return float(np.int64(number).astype(np.float32))  # rounded once
    least, most = RANGES[target.word]
    if not least <= number <= most:
        unreadable(f"field {node.path} should be a {target.word}, found {number}")
    return number


def _text(node: MessageNode, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        unreadable(not_utf8(content).replace("the value ", f"field {node.path} "))


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def _zigzag(number: int) -> int:
    return number >> 1 ^ -(number & 1)


_NUMBERS: dict[WireOp, Callable[[int], int]] = {
    WireOp.INT32: lambda number: _signed(number, _32),
    WireOp.INT64: lambda number: _signed(number, _64),
    WireOp.UINT32: lambda number: number & (1 << _32) - 1,
    WireOp.UINT64: lambda number: number,
    WireOp.SINT32: lambda number: _zigzag(number & (1 << _32) - 1),
    WireOp.SINT64: _zigzag,
    WireOp.FIXED32: lambda number: number,
    WireOp.FIXED64: lambda number: number,
    WireOp.SFIXED32: lambda number: _signed(number, _32),
    WireOp.SFIXED64: lambda number: _signed(number, _64),
    WireOp.ENUM: lambda number: _signed(number, _32),
}
"""What the bits of a number mean."""
