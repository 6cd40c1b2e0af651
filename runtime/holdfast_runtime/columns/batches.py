"""Arrow batches put together to one, and the error if that is more than a batch can hold.

The ends of texts in a column have 32 bits, so a column of one batch holds 2 GiB of them. Rows of a task's batch are one
Arrow batch everywhere (functions are given it whole, an output is written whole), so more is refused with what to do,
before anything is decided. Must not know streams or steps.
"""

from collections.abc import Sequence

import pyarrow as pa

from holdfast.errors import UserActionError

MOST_BYTES = 2**31 - 1
"""The most bytes that one column of one batch can hold."""


class BatchTooLargeError(UserActionError):
    """Rows or records that belong together hold more bytes than one Arrow batch can."""

    @classmethod
    def of(cls, what: str, size: int) -> "BatchTooLargeError":
        """Return the error for these rows or records and their size."""
        return cls(
            f"{what}: {size} bytes at once, and a column holds at most {MOST_BYTES}. Lower "
            "runtime.trigger.maxRecordsPerPartition; a batch stays what it was planned to be, so have it planned anew, "
            "too (runtime.replan, or holdfast offsets --replan)"
        )


def stacked(parts: Sequence[pa.RecordBatch], schema: pa.Schema, what: str) -> pa.RecordBatch:
    """Return all parts as one batch, in order; `what` they are, for the error."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    try:
        return pa.concat_batches(parts)
    except pa.ArrowInvalid as error:
        size = sum(part.nbytes for part in parts)
        if size <= MOST_BYTES:
            raise
        raise BatchTooLargeError.of(what, size) from error
