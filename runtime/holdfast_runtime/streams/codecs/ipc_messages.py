"""Arrow IPC messages before their bodies are read: how large they are when decompressed, and in which byte order.

Compressed buffers say themselves how large they come out, and pyarrow would make them so large. Read from the headers
of messages: flatbuffers, whose structure pyarrow has verified. Must not judge what is too much.
"""

import sys
from struct import Struct

import pyarrow as pa

_SHORT, _OFFSET, _BACK, _LONG, _SPAN = (Struct(form) for form in ("<H", "<I", "<i", "<q", "<qq"))
_HEADER, _DATA = 2, 1
"""Numbers of fields in their tables, of Arrow's `Message.fbs` and `Schema.fbs`: the message's, a dictionary batch's,"""
_BUFFERS, _COMPRESSION = 2, 3
"""a record batch's"""
_BYTE_ORDER = 0
"""and a schema's."""


def unpacked_size(message: pa.Message) -> int:
    """The bytes of a batch once pyarrow holds them; raises `ValueError` or `struct.error` where its header is none."""
    content = memoryview(message.metadata)
    table = _child(content, _OFFSET.unpack_from(content)[0], _HEADER)
    if message.type == "dictionary":
        table = _child(content, table, _DATA)
    body = message.body
    if not _field(content, table, _COMPRESSION):
        return len(body) if body is not None else 0
    spans = _child(content, table, _BUFFERS)
    (count,) = _OFFSET.unpack_from(content, spans)
    buffers = _SPAN.iter_unpack(content[spans + 4 : spans + 4 + count * _SPAN.size])
    # Each begins with its length, which is -1 where it is not compressed.
    return sum(max(length, _LONG.unpack_from(body, at)[0]) for at, length in buffers if length)


def is_of_this_byte_order(schema: pa.Message) -> bool:
    """Whether the numbers behind this schema stand as they do here, and need not be turned around."""
    content = memoryview(schema.metadata)
    order = _field(content, _child(content, _OFFSET.unpack_from(content)[0], _HEADER), _BYTE_ORDER)
    return (order != 0 and _SHORT.unpack_from(content, order)[0] == 1) == (sys.byteorder == "big")


def _field(content: memoryview, table: int, number: int) -> int:
    """Where a field of a table is; 0: it is left out."""
    fields = table - _BACK.unpack_from(content, table)[0]
    place = 4 + 2 * number
    if place >= _SHORT.unpack_from(content, fields)[0]:
        return 0
    (offset,) = _SHORT.unpack_from(content, fields + place)
    return table + offset if offset else 0


def _child(content: memoryview, table: int, number: int) -> int:
    """What a field of a table points to."""
    place = _field(content, table, number)
    if not place:
        message = "a message has no header"
        raise ValueError(message)
    return place + int(_OFFSET.unpack_from(content, place)[0])
