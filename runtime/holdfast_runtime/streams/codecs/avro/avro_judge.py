"""The careful reader of one Avro record: the values of its columns, or a reason that names the field.

It is the law for avro_records.c, which reads what is good and leaves the others to it for their reasons. Everything a
record says is checked against what it has: it may not claim more items than it has bytes, nor nest what is skipped
without end. Must not be used for batches of good records if the other is there: it is a hundred times slower.
"""

import struct
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any, NoReturn

import numpy as np

from holdfast.planning.types.avro.program import SKIPPED, AvroProgram, Node, Op
from holdfast.planning.types.spark_types import MAX_PRECISION, Column, RowType, SparkType
from holdfast_runtime.streams.codecs.arrow_types import RANGES, arrow_schema
from holdfast_runtime.streams.codecs.json_judge import UnfitError, ValueReader, reader_of
from holdfast_runtime.streams.codecs.plain_codec import not_utf8
from holdfast_runtime.streams.codecs.record_reader import UnreadableError

DEEPEST = 64
"""How many records, arrays and maps inside of each other are skipped."""
STEPS, STEPS_OF_A_BYTE = 4096, 256
"""How many values are skipped in a record, and how many more for each of its bytes: what has no bytes may double with
each level."""
_WORDS = {
    "TINYINT": "a TINYINT",
    "SMALLINT": "a SMALLINT",
    "DATE": "a date in the years 1 to 9999",
    "TIMESTAMP": "a time in the years 1 to 9999",
    "TIMESTAMP_NTZ": "a time in the years 1 to 9999",
    "TIME": "a time of a day",
}
_MORE, _LOW, _BITS = 0x80, 0x7F, 64
_INT_BITS = 31
_TEXTS = {Op.ISO_TIME: "a time as text", Op.ISO_DATE: "a date as text", Op.TEXT_DECIMAL: "a number as text"}
_MOST_SHOWN = 60
_ALL_DIGITS = Context(prec=100)


class AvroJudge:
    """Reads records by a program."""

    def __init__(self, program: AvroProgram) -> None:
        self.nodes, self.cells = program.nodes, program.cells
        self.text_readers: Mapping[int, ValueReader] = {
            node.cell: _by_text(self.cells[node.cell].type) for node in self.nodes if node.op in _TEXTS
        }
        """Of the cells whose values are written as texts."""

    def read(self, raw: bytes) -> tuple[Any, ...]:
        """Return the values of the columns; raise `UnreadableError`.

        Times are whole numbers in the unit of their column, rows inside of rows are tuples, maps are lists of pairs.
        """
        datum = _Datum(raw)
        row: tuple[Any, ...] = self.value(0, datum, 0)
        if datum.place < len(raw):
            _unreadable(f"bytes follow its last field, {len(raw) - datum.place} of them; is its schema another one?")
        return row

    def value(self, number: int, datum: "_Datum", depth: int) -> Any:
        """Return the value of a node; `depth` is that of what is skipped."""
        node = self.nodes[number]
        if node.cell == SKIPPED:
            datum.steps_left -= 1
            if datum.steps_left < 0:
                _unreadable(f"{_field(node)}has more values without bytes than are looked through")
        if node.cell == SKIPPED and node.op in (Op.RECORD, Op.ARRAY, Op.MAP):
            depth += 1
            if depth > DEEPEST:
                _unreadable(f"{_field(node)}is nested deeper than {DEEPEST} levels")
        return _WAYS[node.op](self, node, datum, depth)

    def target(self, node: Node) -> SparkType | None:
        """Return the type of the column that gets the values of a node, if there is one."""
        return None if node.cell == SKIPPED else self.cells[node.cell].type


class _Datum:
    """The bytes of a record, and how far they were read."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.place = raw, 0
        self.items_left = len(raw)
        self.steps_left = STEPS + STEPS_OF_A_BYTE * len(raw)

    def whole(self, node: Node) -> int:
        """Read a whole number of 64 bits."""
        number = shift = 0
        while True:
            if self.place == len(self.raw):
                _unreadable(f"{_field(node)}ends with the record, in the middle of a number")
            byte = self.raw[self.place]
            self.place += 1
            number |= (byte & _LOW) << shift
            if number >> _BITS or shift >= _BITS:
                _unreadable(f"{_field(node)}is a number of more than 64 bits")
            if byte < _MORE:
                return number >> 1 ^ -(number & 1)
            shift += 7

    def piece(self, node: Node, size: int) -> bytes:
        """Read so many bytes."""
        left = len(self.raw) - self.place
        if not 0 <= size <= left:
            _unreadable(f"{_field(node)}has the size {size}, and the bytes left in the record are {left}")
        self.place += size
        return self.raw[self.place - size : self.place]


def _field(node: Node) -> str:
    return f"field {node.path} " if node.path else "the record "


def _unreadable(reason: str) -> NoReturn:
    raise UnreadableError(reason) from None


def _null(_judge: AvroJudge, _node: Node, _datum: _Datum, _depth: int) -> None:
    return None


def _misfit(_judge: AvroJudge, node: Node, _datum: _Datum, _depth: int) -> NoReturn:
    _unreadable(f"field {node.misfit}")


def _boolean(_judge: AvroJudge, node: Node, datum: _Datum, _depth: int) -> bool:
    byte = datum.piece(node, 1)[0]
    if byte > 1:
        _unreadable(f"{_field(node)}should be 0 or 1, for false or true, found the byte 0x{byte:02x}")
    return bool(byte)


def _number(judge: AvroJudge, node: Node, datum: _Datum, _depth: int) -> Any:
    number = datum.whole(node)
    if node.op is Op.INT and number >> _INT_BITS not in (0, -1):
        _unreadable(f"{_field(node)}should be an int of 32 bits, found {number}")
    target = judge.target(node)
    if target is None:
        return None
    if target.word == "DOUBLE":
        return float(number)
    if target.word == "FLOAT":
        return float(np.int64(number).astype(np.float32))  # rounded once
    if target.word == "DECIMAL":
        return _of_digits(node, target, number * 10**node.factor)
    scaled = number * node.factor if node.factor > 0 else number // -node.factor
    least, most = RANGES[target.word]
    if not least <= scaled <= most:
        _unreadable(f"{_field(node)}should be {_WORDS[target.word]}, found {number}")
    return scaled


def _float(_judge: AvroJudge, node: Node, datum: _Datum, _depth: int) -> Any:
    return struct.unpack("<f", datum.piece(node, 4))[0]


def _double(_judge: AvroJudge, node: Node, datum: _Datum, _depth: int) -> Any:
    return struct.unpack("<d", datum.piece(node, 8))[0]


def _bytes(judge: AvroJudge, node: Node, datum: _Datum, _depth: int) -> Any:
    size = node.size if node.op is Op.FIXED else datum.whole(node)
    content, target = datum.piece(node, size), judge.target(node)
    if target is None or target.word == "BINARY":
        return content
    return _decimal(node, target, content) if target.word == "DECIMAL" else _text(node, content)


def _text(node: Node, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        _unreadable(not_utf8(content).replace("the value ", _field(node)))


def _decimal(node: Node, target: SparkType, content: bytes) -> Decimal:
    return _of_digits(node, target, int.from_bytes(content, "big", signed=True) * 10**node.factor)


def _of_digits(node: Node, target: SparkType, unscaled: int) -> Decimal:
    """Return the number that the digits of a column are."""
    precision, scale = target.digits
    if abs(unscaled) >= 10**precision:
        _unreadable(f"{_field(node)}should be a number of {target}, found one of more digits")
    return Decimal(unscaled).scaleb(-scale, _ALL_DIGITS)


def _by_text(kind: SparkType) -> ValueReader:
    return reader_of(arrow_schema(RowType((Column("value", str(kind)),))).field(0).type)


def _text_value(judge: AvroJudge, node: Node, datum: _Datum, _depth: int) -> Any:
    """Return the value that a text is: times, dates and numbers are written as in JSON."""
    text = _text(node, datum.piece(node, datum.whole(node)))
    if node.op is Op.ISO_DATE:
        text = text.rstrip("Z")
    try:
        return judge.text_readers[node.cell](text, node.path)
    except UnfitError:
        shown = text[:_MOST_SHOWN]
        _unreadable(
            f"{_field(node)}holds {shown!r}, {_TEXTS[node.op]}, which does not fit {judge.cells[node.cell].type}"
        )


def _own_scale(judge: AvroJudge, node: Node, datum: _Datum, _depth: int) -> Decimal:
    scale, target = datum.whole(node), judge.cells[node.cell].type
    unscaled = int.from_bytes(datum.piece(node, datum.whole(node)), "big", signed=True)
    if abs(node.factor - scale) > MAX_PRECISION:
        _unreadable(f"{_field(node)}has {scale} digits behind its point, too many or too few for {target}")
    whole, rest = divmod(unscaled * 10 ** max(node.factor - scale, 0), 10 ** max(scale - node.factor, 0))
    if rest:
        _unreadable(f"{_field(node)}should be a number of {target}, found one with more digits behind its point")
    return _of_digits(node, target, whole)


def _enum(_judge: AvroJudge, node: Node, datum: _Datum, _depth: int) -> str:
    return node.symbols[_choice(node, datum, len(node.symbols), "symbols")]


def _choice(node: Node, datum: _Datum, count: int, what: str) -> int:
    number = datum.whole(node)
    if not 0 <= number < count:
        _unreadable(f"{_field(node)}has {count} {what}, numbered from 0, found the number {number}")
    return number


def _union(judge: AvroJudge, node: Node, datum: _Datum, depth: int) -> Any:
    return judge.value(node.inner[_choice(node, datum, len(node.inner), "branches")], datum, depth)


def _record(judge: AvroJudge, node: Node, datum: _Datum, depth: int) -> tuple[Any, ...] | None:
    values = {judge.nodes[number].cell: judge.value(number, datum, depth) for number in node.inner}
    return None if node.cell == SKIPPED else tuple(values.get(cell) for cell in judge.cells[node.cell].inner)


def _array(judge: AvroJudge, node: Node, datum: _Datum, depth: int) -> list[Any]:
    return _items(node, datum, lambda: judge.value(node.inner[0], datum, depth))


def _map(judge: AvroJudge, node: Node, datum: _Datum, depth: int) -> list[Any]:
    def pair() -> tuple[Any, Any]:
        name = datum.piece(node, datum.whole(node))
        key = name if node.cell == SKIPPED else _text(node, name)
        return key, judge.value(node.inner[0], datum, depth)

    return _items(node, datum, pair)


def _items(node: Node, datum: _Datum, item: Callable[[], Any]) -> list[Any]:
    items = []
    while count := datum.whole(node):
        block_size = None
        if count < 0:
            count, block_size = -count, datum.whole(node)
        # Items may have no bytes at all, so their bytes alone don't limit how many a record claims.
        datum.items_left -= count
        if datum.items_left < 0:
            _unreadable(f"{_field(node)}has more items than the record has bytes")
        start = datum.place
        items += [item() for _ in range(count)]
        if block_size not in (None, datum.place - start):
            _unreadable(f"{_field(node)}has a block of {datum.place - start} bytes that says it has {block_size}")
    return items


_WAYS: dict[Op, Callable[[AvroJudge, Node, _Datum, int], Any]] = {
    Op.NULL: _null,
    Op.BOOLEAN: _boolean,
    Op.INT: _number,
    Op.LONG: _number,
    Op.FLOAT: _float,
    Op.DOUBLE: _double,
    Op.BYTES: _bytes,
    Op.FIXED: _bytes,
    Op.ENUM: _enum,
    Op.RECORD: _record,
    Op.ARRAY: _array,
    Op.MAP: _map,
    Op.UNION: _union,
    Op.MISFIT: _misfit,
    Op.ISO_TIME: _text_value,
    Op.ISO_DATE: _text_value,
    Op.TEXT_DECIMAL: _text_value,
    Op.OWN_SCALE: _own_scale,
}
