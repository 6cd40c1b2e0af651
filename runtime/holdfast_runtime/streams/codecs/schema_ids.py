"""The frame around records of a schema registry: a zero byte and the id of their schema, before their bytes.

Ids of a batch are read at once. Must not know schemas.
"""

import numpy as np
import pyarrow as pa

from holdfast_runtime.streams.codecs.codec import Indices

FRAME_BYTES = 5
NO_ID = -1
"""In place of the id of a record without a frame."""
_MAGIC = 0
_EXPECTED = "records of a registry begin with 0x00 and the id of a schema in four bytes"


def schema_ids(values: pa.BinaryArray) -> Indices:
    """Return the id of each record's schema, `NO_ID` if it has none."""
    _, ends, content = values.buffers()
    count = len(values)
    if content is None or content.size < FRAME_BYTES:
        return np.full(count, NO_ID, np.int64)
    bounds = np.frombuffer(ends, np.int32)[values.offset : values.offset + count + 1]
    content_bytes = np.frombuffer(content, np.uint8)
    # The four bytes behind each byte but the last four, as a number.
    numbers = np.ndarray(len(content_bytes) - 4, ">u4", content_bytes, 1, (1,))
    starts = bounds[:-1]
    framed = bounds[1:] - starts >= FRAME_BYTES
    if not framed.all():
        starts = np.where(framed, starts, 0)
    framed &= content_bytes[starts] == _MAGIC
    ids = numbers[starts].astype(np.int64)
    return ids if framed.all() else np.where(framed, ids, NO_ID)


def blank_frames(values: pa.BinaryArray) -> pa.BinaryArray:
    """Return the same values, which all have a frame, with spaces in its place."""
    count = len(values)
    if not count:
        return values
    _, ends, content = values.buffers()
    bounds = np.frombuffer(ends, np.int32)[values.offset : values.offset + count + 1]
    first, last = int(bounds[0]), int(bounds[-1])
    blank = np.frombuffer(content, np.uint8)[first:last].copy()
    bounds = bounds - first
    for place in range(FRAME_BYTES):
        blank[bounds[:-1] + place] = ord(" ")
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(blank)])


def no_frame(raw: bytes) -> str:
    """Return why a record has no id."""
    if not raw:
        return f"the value is empty; {_EXPECTED}"
    if raw[0] != _MAGIC:
        first = chr(raw[0])
        character = f" ({first!r})" if first.isascii() and first.isprintable() else ""
        hint = "; is the topic JSON?" if raw[:1] in (b"{", b"[") else ""
        return f"it begins with 0x{raw[0]:02x}{character}, and {_EXPECTED}{hint}"
    return f"it has {len(raw)} bytes, and {_EXPECTED}"
