"""The careful writer of Avro records: their bytes, or an error that names the column and what to do.

It is the law for avro_values.c, which writes the same bytes and leaves a row that it can't write to it for the error.
Arrays and maps are one block, decimals have as few bytes as they need. Must not depend on the rows around.
"""

import struct
from collections.abc import Callable
from typing import Any, NoReturn

import pyarrow as pa

from holdfast.planning.problems import excerpt
from holdfast.planning.types.avro.program import AvroProgram, Node, Op
from holdfast.planning.types.avro.values import whole
from holdfast_runtime.streams.codecs.arrow_types import LAST_NANO
from holdfast_runtime.streams.codecs.bare_values import bare
from holdfast_runtime.streams.codecs.codec import EncodeError

_BITS = {Op.INT: 31, Op.LONG: 63}


def written_rows(program: AvroProgram, rows: pa.RecordBatch) -> list[bytes]:
    """Return one record per row; raise `EncodeError` for the first value that its field can't hold."""
    columns = [bare(column) for column in rows.columns]
    writer = _Writer(program)
    return [writer.written(0, tuple(column[row] for column in columns)) for row in range(rows.num_rows)]


class _Writer:
    """Writes values by a program."""

    def __init__(self, program: AvroProgram) -> None:
        self.nodes, self.cells = program.nodes, program.cells

    def written(self, number: int, value: Any) -> bytes:
        """Return the value of a node as it is written."""
        node = self.nodes[number]
        if value is None and node.op not in (Op.UNION, Op.CONSTANT, Op.NULL):
            _refuse(node, "is null, and its field may not be null; fill it with coalesce in a select step")
        return _WAYS[node.op](self, node, value)

    def is_time(self, node: Node) -> bool:
        """Whether the value of a node is a time of a day."""
        return self.cells[node.cell].type.word == "TIME"


def _refuse(node: Node, why: str) -> NoReturn:
    message = f"a row can't be written as Avro: column {node.path or 'value'} {why}, or register a schema that takes it"
    raise EncodeError(message)


def _nothing(_writer: _Writer, _node: Node, _value: Any) -> bytes:
    return b""


def _constant(_writer: _Writer, node: Node, _value: Any) -> bytes:
    return node.constant


def _boolean(_writer: _Writer, _node: Node, value: Any) -> bytes:
    return b"\1" if value else b"\0"


def _number(writer: _Writer, node: Node, value: Any) -> bytes:
    if writer.is_time(node) and not 0 <= value <= LAST_NANO:
        _refuse(node, f"is {value} nanoseconds, which is no time of a day; correct it in a select step")
    scaled = value * node.factor if node.factor > 0 else value // -node.factor
    if scaled >> _BITS[node.op] not in (0, -1):
        _refuse(
            node, f"is {value}, and its field has no more than {_BITS[node.op] + 1} bits; correct it in a select step"
        )
    return whole(scaled)


def _float(_writer: _Writer, _node: Node, value: Any) -> bytes:
    return struct.pack("<f", value)


def _double(_writer: _Writer, _node: Node, value: Any) -> bytes:
    return struct.pack("<d", value)


def _bytes(_writer: _Writer, node: Node, value: Any) -> bytes:
    content = value if isinstance(value, bytes) else _unscaled(node, value)
    return whole(len(content)) + content


def _fixed(_writer: _Writer, node: Node, value: bytes | int) -> bytes:
    if isinstance(value, bytes):
        if len(value) != node.size:
            _refuse(node, f"has {len(value)} bytes, and its field has {node.size}; pad or cut it in a select step")
        return value
    return _unscaled(node, value)


def _unscaled(node: Node, value: int) -> bytes:
    number: int = value * 10**node.factor
    least = (number if number >= 0 else ~number).bit_length() // 8 + 1
    if node.op is Op.FIXED and least > node.size:
        _refuse(node, f"is a number of {least} bytes, and its field has {node.size}; round or cast it in a select step")
    return number.to_bytes(node.size if node.op is Op.FIXED else least, "big", signed=True)


def _enum(_writer: _Writer, node: Node, value: Any) -> bytes:
    text = value.decode()
    if text not in node.symbols:
        symbols = ", ".join(node.symbols)
        _refuse(node, f"is {excerpt(text)}, and its field takes {excerpt(symbols)}; map it in a select step")
    return whole(node.symbols.index(text))


def _record(writer: _Writer, node: Node, value: Any) -> bytes:
    cells = dict(zip(writer.cells[node.cell].inner, value, strict=True))
    return b"".join(writer.written(number, cells.get(writer.nodes[number].cell)) for number in node.inner)


def _array(writer: _Writer, node: Node, value: Any) -> bytes:
    return _block([writer.written(node.inner[0], item) for item in value])


def _map(writer: _Writer, node: Node, value: Any) -> bytes:
    return _block([whole(len(key)) + key + writer.written(node.inner[0], item) for key, item in value])


def _block(items: list[bytes]) -> bytes:
    return whole(len(items)) + b"".join(items) + whole(0) if items else whole(0)


def _union(writer: _Writer, node: Node, value: Any) -> bytes:
    if value is not None:
        return whole(node.branch) + writer.written(node.inner[0], value)
    if node.null_branch < 0:
        _refuse(node, "is null, and no branch of its field is null; fill it with coalesce in a select step")
    return whole(node.null_branch)


_WAYS: dict[Op, Callable[[_Writer, Node, Any], bytes]] = {
    Op.NULL: _nothing,
    Op.BOOLEAN: _boolean,
    Op.INT: _number,
    Op.LONG: _number,
    Op.FLOAT: _float,
    Op.DOUBLE: _double,
    Op.BYTES: _bytes,
    Op.FIXED: _fixed,
    Op.ENUM: _enum,
    Op.RECORD: _record,
    Op.ARRAY: _array,
    Op.MAP: _map,
    Op.UNION: _union,
    Op.CONSTANT: _constant,
}
