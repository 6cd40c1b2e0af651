"""Why: `format: arrow`: a record's value is an Arrow IPC stream, for producers that have columns already.

A record may hold many rows, and should: one row per record costs far more bytes and time than JSON. Columns go by
name: missing ones are null, others are ignored, a column of another type makes the record bad (text and bytes may be in
any of Arrow's layouts, times in any unit that loses nothing). Holdfast writes one row per record, since rows are
partitioned one by one. Must not trust a byte: what a record would grow into is bounded before it does, and what is read
is validated in full before anything computes.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast_runtime.streams.codecs.arrow_columns import MOST_BYTES, ColumnMapping, RefusedError, unusable
from holdfast_runtime.streams.codecs.codec import BadRecord, DecodedBatch, present, require_schema, stacked
from holdfast_runtime.streams.codecs.ipc_messages import is_of_this_byte_order, unpacked_size

MOST_ROWS = 100_000
"""Of a record: a column of nulls takes no byte, whatever its length."""
DICTIONARY = "dictionary"
BODIES = frozenset({DICTIONARY, "record batch"})


class BatchTooLargeError(UserActionError):
    """Each record of a batch can be read, and their rows together are more than pyarrow can hold."""


class ArrowCodec:
    """`format: arrow`. Remembers the last schema that it read, which changes speed and never results."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._known: tuple[pa.Buffer, ColumnMapping] | None = None

    def decode(self, values: pa.BinaryArray) -> DecodedBatch:
        """The rows of all records; a record is read as a whole or not at all."""
        here, index, nulls = present(values)
        read: list[tuple[int, list[pa.RecordBatch]]] = []
        bad: list[BadRecord] = []
        for at, value in zip(index.tolist(), here, strict=True):
            try:
                read.append((at, self._rows(value.as_buffer())))
            except RefusedError as error:
                bad.append(BadRecord(at, str(error)))
        rows = self._together(read)
        if unusable(rows) is not None:
            why = {at: reason for at, batches in read if (reason := unusable(self._together([(at, batches)])))}
            bad = sorted([*bad, *(BadRecord(at, reason) for at, reason in why.items())], key=lambda one: one.index)
            read = [(at, batches) for at, batches in read if at not in why]
            rows = self._together(read)
        counts = [sum(batch.num_rows for batch in batches) for _, batches in read]
        good = np.repeat(np.array([at for at, _ in read], np.int64), counts)
        return DecodedBatch(rows, good, tuple(bad), nulls)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """One IPC stream per row."""
        require_schema(rows, self.schema)
        start = self.schema.serialize().to_pybytes()
        end = b"\xff\xff\xff\xff\x00\x00\x00\x00"
        return pa.array(
            [start + rows.slice(at, 1).serialize().to_pybytes() + end for at in range(rows.num_rows)], pa.binary()
        )

    def _rows(self, value: pa.Buffer) -> list[pa.RecordBatch]:
        try:
            fitting, batches = self._read(value)
            rows = sum(batch.num_rows for batch in batches)
            if rows > MOST_ROWS:
                message = f"the value has {rows} rows, and {MOST_ROWS} of a record are read; write more records"
                raise RefusedError(message)
            for batch in batches:
                batch.validate(full=True)
        except RefusedError:
            raise
        except Exception as error:  # noqa: BLE001 - for bytes that are no Arrow, pyarrow has a dozen of classes
            said = str(error).splitlines()[0][:120] if str(error) else "empty"
            message = f"the value is not an Arrow IPC stream: {said}"
            raise RefusedError(message) from None
        return [fitting.fit(batch) for batch in batches]

    def _read(self, value: pa.Buffer) -> tuple[ColumnMapping, list[pa.RecordBatch]]:
        messages = list(pa.ipc.MessageReader.open_stream(value))
        kinds = [message.type for message in messages]
        # Asked for a schema or a batch, pyarrow takes whatever message it is given for one.
        if kinds[:1] != ["schema"] or not BODIES.issuperset(kinds[1:]):
            message = f"its messages are {', '.join(kinds[:3]) or 'none'}, and not a schema and batches"
            raise ValueError(message)
        fitting, others = self._fitting_of(messages[0]), messages[1:]
        size = sum(map(unpacked_size, others))
        if size > max(MOST_BYTES, value.size):
            message = f"the value of {value.size} bytes is {size} when it is decompressed, and {MOST_BYTES} are read"
            raise RefusedError(message)
        if not is_of_this_byte_order(messages[0]) or DICTIONARY in kinds:
            with pa.ipc.open_stream(value) as stream:
                return fitting, list(stream)
        return fitting, [pa.ipc.read_record_batch(message, fitting.found) for message in others]

    def _fitting_of(self, message: pa.Message) -> ColumnMapping:
        if self._known is None or not self._known[0].equals(message.metadata):
            # A copy: the message is a part of all records of its batch, and would keep them.
            header = pa.py_buffer(message.metadata.to_pybytes())
            self._known = header, ColumnMapping.of(self.schema, pa.ipc.read_schema(message))
        return self._known[1]

    def _together(self, read: Iterable[tuple[int, list[pa.RecordBatch]]]) -> pa.RecordBatch:
        pieces = [batch for _, batches in read for batch in batches]
        try:
            return stacked(pieces, self.schema)
        except pa.ArrowException as error:
            message = (
                f"the records of a batch hold {sum(piece.nbytes for piece in pieces)} bytes when they are unpacked, "
                f"which is too much at once ({error}); lower trigger.maxRecordsPerPartition"
            )
            raise BatchTooLargeError(message) from error
