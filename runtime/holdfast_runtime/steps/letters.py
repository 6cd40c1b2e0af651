"""Dead letters of steps: a row on which a step fails, with the reason, the step, and where the row was read if known.

Must not decide whether a row becomes one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.streams.codecs import DEAD_LETTER_SCHEMA, EncodeError, codec_for

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that a step can't take, or a call without rows that failed."""

    row: int | None
    """Which of the rows that the step was given; None: it was called for the timers of a key."""
    reason: str
    column: str | None = None
    """The column that could not be computed, where one is to blame."""
    key: bytes | None = None
    """The key the function was called for, as records have it."""


def letters_of(step: str, given: TimedRows, failed: Sequence[FailedRow]) -> pa.RecordBatch:
    """Their dead letters. The value is the row as JSON."""
    rows = [one.row for one in failed]
    found = [None if row is None else given.origin(row) for row in rows]
    columns: dict[str, list[object] | pa.Array] = {
        "reason": [one.reason for one in failed],
        "stream": [None if at is None else at[0].stream for at in found],
        "partition": [None if at is None else at[0].partition for at in found],
        "offset": [None if at is None else at[1] for at in found],
        "key": [one.key for one in failed],
        "value": row_texts(given.rows, rows),
        "step": [step] * len(failed),
        "column": [one.column for one in failed],
    }
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(len(failed), field.type)
            if (values := columns.get(field.name)) is None
            else pa.array(values, field.type)
            for field in DEAD_LETTER_SCHEMA
        ],
        schema=DEAD_LETTER_SCHEMA,
    )


def row_texts(rows: pa.RecordBatch, wanted: Sequence[int | None]) -> list[object]:
    """These rows as JSON, None where none is meant or JSON can't express it."""
    there = [row for row in wanted if row is not None]
    if not there:
        return [None] * len(wanted)
    texts = iter(_texts(rows.take(pa.array(np.array(there)))))
    return [None if row is None else next(texts) for row in wanted]


def _texts(rows: pa.RecordBatch) -> list[object]:
    try:
        return codec_for("json", rows.schema).encode(rows).to_pylist()  # type: ignore[no-any-return]
    except EncodeError:
        # The row that can't be expressed must not hide why it failed, nor take others with it.
        if rows.num_rows == 1:
            return [None]
        return [text for at in range(rows.num_rows) for text in _texts(rows.slice(at, 1))]


def row_named(given: TimedRows, row: int) -> str:
    """A row in a message: its values, shortened, and where it was read if that is known."""
    (text,) = row_texts(given.rows, [row])
    shown = text.decode() if isinstance(text, bytes) else str(text)
    shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
    at = given.origin(row)
    return shown if at is None else f"{shown} ({at[0]}, offset {at[1]})"
