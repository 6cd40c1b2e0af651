"""Size limits of records: finds rows too large for their topic while encoding, before their batch is decided.

A batch that is decided has to be written as it is, so it must not contain what can't be written: either the batch fails
with an error that names the row, or such rows become dead letters, as the stream's `onUnwritable` says. Dead letters
themselves are cut until they fit. Pure: limits are arguments. Must not count or write.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import UserActionError
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.codecs import DEAD_LETTER_SCHEMA
from holdfast_runtime.streams.keys import Numbers
from holdfast_runtime.streams.records import OffsetRange, RecordLimit

Encode = Callable[[pa.RecordBatch], pa.Array]
"""Encodes rows as the values of their records."""
_SHOWN = 80
_LONGEST = 2**31 - 1
"""An end for Arrow's slices: without one, Arrow miscounts."""
_BASE64_SLACK = 16
"""Bytes that base64 may add beyond four for every three."""
_LONGEST_REASON = 200


class RecordTooLargeError(UserActionError):
    """A row's record is larger than its topic takes, and its stream says `onUnwritable: Fail`."""


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Rows encoded as records of a stream."""

    stream: str
    step: str
    """The step that writes them."""
    rows: TimedRows
    keys: pa.Array
    values: pa.Array
    places: Numbers
    """The partition of each row."""

    def too_large(self, limit: RecordLimit | None) -> Numbers:
        """Return the indices of records above the limit."""
        return too_large(self.keys, self.values, limit)

    def refused(self, at: int, limit: RecordLimit, read: Sequence[OffsetRange]) -> RecordTooLargeError:
        """Return the error for one record; `read`: the ranges that the task's rows came from."""
        key = self.keys[at].as_py()
        by = "without a key" if key is None else f"with key {key[:_SHOWN]!r}{'...' if len(key) > _SHOWN else ''}"
        came = ", ".join(map(str, read)) or "timers"
        return RecordTooLargeError(
            f"step {self.step}: a row for {self.stream}/{self.places[at]} {by} makes a record of {self._size(at)} "
            f"bytes, and {limit.most} are taken ({limit.where}). It was made of {came}. Raise the limit, make rows "
            f"smaller, or, if {self.stream} is a stream of the spec, set its onUnwritable to DeadLetter"
        )

    def letters(self, bad: Numbers, limit: RecordLimit, skip: int = 0) -> pa.RecordBatch:
        """Return dead letters for these records; `skip`: leading bytes of each value that are Holdfast's own."""
        at, none = pa.array(bad), [None] * len(bad)
        reasons = [f"its record has {self._size(one)} bytes, and {limit.most} are taken ({limit.where})" for one in bad]
        columns = {
            "reason": reasons,
            "stream": [self.stream] * len(bad),
            "partition": self.places[bad],
            "offset": none,
            "key": self.keys.take(at),
            "value": pc.binary_slice(self.values.take(at), skip, _LONGEST),
            "timestamp": self.rows.times.take(at).cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC")),
            "headers": none,
            "step": [self.step] * len(bad),
            "column": none,
        }
        arrays = [
            values if isinstance(values := columns[field.name], pa.Array) else pa.array(values, field.type)
            for field in DEAD_LETTER_SCHEMA
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=DEAD_LETTER_SCHEMA)

    def without(self, bad: Numbers) -> "EncodedRows":
        """Return the other records."""
        kept = np.delete(np.arange(len(self.values)), bad)
        at = pa.array(kept)
        rows = TimedRows(self.rows.rows.take(at), self.rows.times.take(at))
        return EncodedRows(self.stream, self.step, rows, self.keys.take(at), self.values.take(at), self.places[kept])

    def _size(self, at: int) -> int:
        return len(self.keys[at].as_py() or b"") + len(self.values[at].as_py() or b"")


def too_large(keys: pa.Array, values: pa.Array, limit: RecordLimit | None) -> Numbers:
    """Return the indices of records above the limit."""
    if limit is None:
        return np.array([], np.int64)
    sizes = pc.add(*(pc.fill_null(pc.binary_length(column), 0).cast(pa.int64()) for column in (keys, values)))
    return np.flatnonzero(sizes.to_numpy(zero_copy_only=False) > limit.most)


def fitting(letters: pa.RecordBatch, encode: Encode, limit: RecordLimit | None) -> pa.RecordBatch:
    """Return dead letters that can be written: one that is too large keeps as much of its value as fits."""
    bad = too_large(pa.nulls(letters.num_rows, pa.binary()), encode(letters), limit)
    if limit is None or not len(bad):
        return letters
    rows = letters.to_pylist()
    for at in bad:
        rows[at] = _cut(rows[at], encode, limit)
    return pa.RecordBatch.from_pylist(rows, DEAD_LETTER_SCHEMA)


def _cut(letter: Mapping[str, Any], encode: Encode, limit: RecordLimit) -> dict[str, Any]:
    value, reason = letter["value"] or b"", str(letter["reason"])
    for left_out in ({}, {"headers": None}, {"headers": None, "key": None}):
        cut = f"; too large for this stream, it is cut: of {len(value)} bytes of its value, the first are here"
        if left_out:
            cut += f", and no {' or '.join(left_out)}"
        bare = {**letter, **left_out, "reason": reason[:_LONGEST_REASON] + cut, "value": b""}
        room = (limit.most - _size(bare, encode)) * 3 // 4 - _BASE64_SLACK
        if room >= 0:
            return {**bare, "value": value[:room]}
    message = (
        f"a dead letter of {letter['stream']}/{letter['partition']} takes more than {limit.most} bytes even without "
        f"what it is about ({limit.where}): raise the limit of the stream that takes dead letters"
    )
    raise RecordTooLargeError(message)


def _size(letter: Mapping[str, Any], encode: Encode) -> int:
    return len(encode(pa.RecordBatch.from_pylist([letter], DEAD_LETTER_SCHEMA))[0].as_py())
