"""The careful writer of Protobuf messages: their bytes, or an error that names the column and what to do.

It is the law for protobuf_values.c, which writes the same bytes and leaves a row that it can't write to it for the
error. Fields stand in the order of their numbers. What Protobuf can't say is refused, as it would be read as something
else: a null where fields have defaults, and two values of one `oneof`. Must not depend on the rows around.
"""

import struct
from typing import Any, NoReturn

import pyarrow as pa

from holdfast.planning.problems import excerpt
from holdfast.planning.types.protobuf.program import MessageNode, ProtobufProgram, Shape, WireOp
from holdfast_runtime.streams.codecs.bare_values import bare
from holdfast_runtime.streams.codecs.codec import EncodeError
from holdfast_runtime.streams.codecs.protobuf.wire import MASK_64, WIRES, Wire, varint

_SIGNLESS = {WireOp.UINT32: 32, WireOp.FIXED32: 32, WireOp.UINT64: 64, WireOp.FIXED64: 64}
_FORMATS = {
    WireOp.FIXED32: "<I",
    WireOp.SFIXED32: "<i",
    WireOp.FIXED64: "<Q",
    WireOp.SFIXED64: "<q",
    WireOp.FLOAT: "<f",
    WireOp.DOUBLE: "<d",
}


def written_messages(program: ProtobufProgram, rows: pa.RecordBatch) -> list[bytes]:
    """Return one message per row; raise `EncodeError` for the first value that its field can't hold."""
    columns = [bare(column) for column in rows.columns]
    writer = _Writer(program)
    return [writer.message(0, tuple(column[row] for column in columns), 0) for row in range(rows.num_rows)]


class _Writer:
    """Writes values by a program."""

    def __init__(self, program: ProtobufProgram) -> None:
        self._nodes, self._cells = program.nodes, program.cells

    def message(self, number: int, row: tuple[Any, ...], cell: int) -> bytes:
        """Return a message whose fields are the parts of a cell."""
        cells = dict(zip(self._cells[cell].inner, row, strict=True))
        out, choices = b"", dict[int, MessageNode]()
        for inner in self._nodes[number].inner:
            node = self._nodes[inner]
            value = cells[node.cell]
            if value is not None and node.choice:
                if node.choice in choices:
                    _refuse(
                        node,
                        f"and column {choices[node.choice].path} have a value, and their fields are of one oneof; set "
                        "one of them to null in a select step",
                    )
                choices[node.choice] = node
            out += self._field(inner, value)
        return out

    def _field(self, number: int, value: Any) -> bytes:
        node = self._nodes[number]
        if value is None:
            if node.shape is not Shape.OPTIONAL or node.required:
                _refuse(
                    node,
                    "is null, which its field can't say; fill it with coalesce in a select step, or make it optional",
                )
            return b""
        if node.shape is Shape.MAP:
            key, item = node.inner
            pairs = [self._field(key, k) + self._field(item, v) for k, v in value]
            return b"".join(_tag(node, Wire.SIZED) + _sized(pair) for pair in pairs)
        cell = self._cells[node.cell].inner[0] if node.shape is Shape.LIST else node.cell
        wire = WIRES[node.op]
        if node.shape is not Shape.LIST:
            written = self._value(number, value, cell)
            is_default = not any(written) if wire is not Wire.SIZED else written == b"\0"
            is_left_out = node.shape is Shape.IMPLICIT and is_default
            return b"" if is_left_out else _tag(node, wire) + written
        if None in value:
            _refuse(node, "has a null inside, which its field can't say; filter it in a select step")
        items = [self._value(number, item, cell) for item in value]
        if not node.packed:
            return b"".join(_tag(node, wire) + item for item in items)
        return _tag(node, Wire.SIZED) + _sized(b"".join(items)) if items else b""

    def _value(self, number: int, value: Any, cell: int) -> bytes:  # noqa: C901, PLR0911 - one per family of types
        """Return a value without its tag."""
        node = self._nodes[number]
        match node.op:
            case WireOp.MESSAGE:
                return _sized(self.message(number, value, cell))
            case WireOp.WRAPPER:
                return _sized(self._field(node.inner[0], value))
            case WireOp.TIMESTAMP:
                seconds, micros = divmod(value, 1_000_000)
                parts = ((b"\x08", seconds & MASK_64), (b"\x10", micros * 1000))
                return _sized(b"".join(tag + varint(part) for tag, part in parts if part))
            case WireOp.STRING | WireOp.BYTES:
                return _sized(value)
            case WireOp.ENUM:
                text = value.decode()
                if text not in node.symbols:
                    names = ", ".join(node.symbols)
                    _refuse(node, f"is {excerpt(text)}, and its enum has {excerpt(names)}; map it in a select step")
                return varint(node.numbers[node.symbols.index(text)] & MASK_64)
            case WireOp.BOOL:
                return b"\1" if value else b"\0"
        bits = _SIGNLESS.get(node.op)
        if bits is not None and not 0 <= value < 1 << bits:
            _refuse(node, f"is {value}, and its field has {bits} bits without a sign; correct it in a select step")
        if node.op in _FORMATS:
            return struct.pack(_FORMATS[node.op], value)
        if node.op in (WireOp.SINT32, WireOp.SINT64):
            value = value << 1 ^ value >> 63
        return varint(value & MASK_64)


def _tag(node: MessageNode, wire: Wire) -> bytes:
    return varint(node.number << 3 | wire)


def _sized(content: bytes) -> bytes:
    return varint(len(content)) + content


def _refuse(node: MessageNode, why: str) -> NoReturn:
    message = f"a row can't be written as a message: column {node.path} {why}"
    raise EncodeError(message)
