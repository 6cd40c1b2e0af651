"""The bytes of Protobuf: numbers of variable length, what stands before each field, and what is passed over.

Must not know messages.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple, NoReturn

from holdfast.planning.types.protobuf.program import WireOp
from holdfast_runtime.streams.codecs.record_reader import UnreadableError

DEEPEST = 100
"""Groups inside of each other that are passed over."""
_MORE, _LOW, _BITS, _TAG_BITS = 0x80, 0x7F, 64, 32
MASK_64 = (1 << _BITS) - 1


class Wire(IntEnum):
    """How the bytes of a field end. The numbers are those of the tag."""

    VARINT = 0
    EIGHT_BYTES = 1
    SIZED = 2
    GROUP = 3
    END_OF_GROUP = 4
    FOUR_BYTES = 5


WIRES = {
    **dict.fromkeys(WireOp, Wire.VARINT),
    **dict.fromkeys((WireOp.FIXED32, WireOp.SFIXED32, WireOp.FLOAT), Wire.FOUR_BYTES),
    **dict.fromkeys((WireOp.FIXED64, WireOp.SFIXED64, WireOp.DOUBLE), Wire.EIGHT_BYTES),
    **dict.fromkeys((WireOp.STRING, WireOp.BYTES, WireOp.MESSAGE, WireOp.TIMESTAMP, WireOp.WRAPPER), Wire.SIZED),
}
"""How one value ends."""
WIRE_WORDS = ("a varint", "8 bytes", "bytes with their size", "a group", "the end of a group", "4 bytes")


class WireField(NamedTuple):
    """A field as it stands in the bytes."""

    number: int
    wire: Wire
    value: Any
    """A number without sign, or bytes; of a group nothing."""


def wire_fields(raw: bytes, what: str) -> Iterator[WireField]:
    """Yield the fields of a message; raise `UnreadableError` if it is none. `what` it is, for the reason."""
    at = 0
    while at < len(raw):
        number, wire, at = _tag(raw, at, what)
        value: Any = b""
        if wire is Wire.GROUP:
            at = _past_group(raw, at, number, what)
        elif wire is Wire.END_OF_GROUP:
            unreadable(f"{what} has the end of a group that has not begun")
        else:
            value, at = _value(raw, at, wire, what)
        yield WireField(number, wire, value)


def packed_values(raw: bytes, wire: Wire, what: str) -> Iterator[Any]:
    """Yield numbers that stand side by side."""
    at = 0
    while at < len(raw):
        value, at = _value(raw, at, wire, what)
        yield value


def varint(number: int) -> bytes:
    """Return a number without sign as it is written."""
    out = bytearray()
    while number >= _MORE:
        out.append(number & _LOW | _MORE)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(raw: bytes, at: int, what: str, bits: int = _BITS) -> tuple[int, int]:
    """Read a number of so many bits; return it, and where it ends."""
    number = shift = 0
    while True:
        if at == len(raw):
            unreadable(f"{what} ends in the middle of a number")
        byte = raw[at]
        at += 1
        number |= (byte & _LOW) << shift
        if number >> bits or shift >= bits:
            unreadable(f"{what} has a number of more than {bits} bits")
        if byte < _MORE:
            return number, at
        shift += 7


def unreadable(reason: str) -> NoReturn:
    """Raise `UnreadableError`."""
    raise UnreadableError(reason) from None


def _tag(raw: bytes, at: int, what: str) -> tuple[int, Wire, int]:
    tag, at = read_varint(raw, at, what, _TAG_BITS)
    number, wire = tag >> 3, tag & 7
    if not number or wire > Wire.FOUR_BYTES:
        unreadable(f"{what} has the bytes of no field: number {number}, type {wire}; is it another format?")
    return number, Wire(wire), at


def _value(raw: bytes, at: int, wire: Wire, what: str) -> tuple[Any, int]:
    if wire is Wire.VARINT:
        return read_varint(raw, at, what)
    if wire is Wire.SIZED:
        size, at = read_varint(raw, at, what, _TAG_BITS - 1)
    else:
        size = 8 if wire is Wire.EIGHT_BYTES else 4
    if size > len(raw) - at:
        unreadable(f"{what} has a value of {size} bytes, and the bytes left are {len(raw) - at}")
    return raw[at : at + size], at + size


def _past_group(raw: bytes, at: int, number: int, what: str) -> int:
    opened = [number]
    while opened:
        if at == len(raw):
            unreadable(f"{what} ends inside of a group")
        number, wire, at = _tag(raw, at, what)
        if wire is Wire.GROUP:
            opened.append(number)
            if len(opened) > DEEPEST:
                unreadable(f"{what} has groups inside of each other on more than {DEEPEST} levels")
        elif wire is Wire.END_OF_GROUP:
            if opened.pop() != number:
                unreadable(f"{what} has the end of another group than the one that has begun")
        else:
            _, at = _value(raw, at, wire, what)
    return at
