"""Why: what one batch did to one task, as one object: enough to do it again without computing it.

State changes per table (offsets and control bookkeeping among them) and the bytes of each output partition. The outputs
are in it because outputs are committed partition by partition: a replay after a crash between two of them must write
the rows of the first attempt at computing, not other ones.

On the wire: a line `holdfast-delta 1 length=<n> sha256=<64 digits>`, then an Arrow stream of (key, value or null), one
record batch per table or output, compressed with zstd unless it is tiny; what each batch is stands in the schema's
metadata. Must not open anything, and must not let anything but `DeltaDamagedError` out, whatever bytes come in.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pyarrow as pa

from holdfast_runtime.state.errors import DeltaDamagedError
from holdfast_runtime.state.names import delta_name
from holdfast_runtime.state.place import TaskIdentity

FORMAT = 1
_HEADER = re.compile(rb"holdfast-delta 1 length=(\d{1,18}) sha256=([0-9a-f]{64})\n")
_LONGEST_HEADER = 120
_WORTH_COMPRESSING = 4096
"""Bytes. Below, zstd's start takes more time than all else here, for no block of a disk less."""
_KEY = b"holdfast"
_FIELDS = [("key", pa.large_binary()), ("value", pa.large_binary())]

Changes = list[tuple[bytes, bytes | None]]


@dataclass(frozen=True, slots=True)
class Delta:
    """The changes of one batch to the state of one task, and its outputs."""

    identity: TaskIdentity
    batch: int
    epoch: int
    """Of the attempt that computed it."""
    base: int | None
    """Epoch of the state it was computed on; None: the task's first batch."""
    tables: Mapping[str, Changes] = field(default_factory=dict)
    """Per table, in key order; None: deleted."""
    outputs: Mapping[str, bytes] = field(default_factory=dict)
    digest: str = field(default="", compare=False)
    """Of its object, once there is one: a replay that reads it finds the same."""

    @property
    def name(self) -> str:
        """Of its object."""
        return delta_name(self.batch, self.epoch)


def delta_bytes(delta: Delta) -> bytes:
    """The object of this delta."""
    one = delta.identity
    about = {
        "app": one.app,
        "run": one.run,
        "task": one.task,
        "batch": delta.batch,
        "epoch": delta.epoch,
        "base": delta.base,
        "tables": list(delta.tables),
        "outputs": len(delta.outputs),
    }
    schema = pa.schema(_FIELDS, metadata={_KEY: json.dumps(about).encode()})
    batches = [_batch([row[0] for row in rows], [row[1] for row in rows], schema) for rows in delta.tables.values()]
    batches.append(_batch([name.encode() for name in delta.outputs], list(delta.outputs.values()), schema))
    worth = sum(batch.nbytes for batch in batches) >= _WORTH_COMPRESSING
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd" if worth else None)
    ) as stream:
        for batch in batches:
            stream.write_batch(batch)
    body = sink.getvalue()
    digest = hashlib.sha256(body).hexdigest()
    return b"holdfast-delta %d length=%d sha256=%s\n" % (FORMAT, body.size, digest.encode()) + bytes(body)


def digest_of(content: bytes) -> str:
    """Of the object that `delta_bytes` made."""
    header = _HEADER.match(content)
    assert header is not None  # noqa: S101 - it was made here
    return header[2].decode()


def read_delta(path: str, content: bytes) -> Delta:
    """The delta in the object at this path."""
    header = _HEADER.match(content[:_LONGEST_HEADER])
    if header is None:
        _refuse(path, f"it starts with {content[:24]!r}, which is no delta of format {FORMAT}")
    body = memoryview(content)[header.end() :]
    if len(body) != int(header[1]):
        _refuse(path, f"it holds {len(body)} bytes where its header says {int(header[1])}")
    if hashlib.sha256(body).hexdigest().encode() != header[2]:
        _refuse(path, "its checksum is wrong")
    try:
        with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
            about: dict[str, Any] = json.loads(stream.schema.metadata[_KEY])
            groups = [_rows(batch) for batch in stream]
        tables = dict(zip(about["tables"], groups, strict=False))
        outputs = {name.decode(): value or b"" for name, value in groups[len(tables)]}
        identity = TaskIdentity(about["app"], about["run"], about["task"])
        digest = header[2].decode()
        return Delta(identity, about["batch"], about["epoch"], about["base"], tables, outputs, digest)
    except (pa.ArrowException, ValueError, KeyError, IndexError, TypeError) as error:
        _refuse(path, f"its content is not as this release writes it ({error})")


def _batch(keys: list[bytes], values: list[bytes | None] | list[bytes], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary())]
    return pa.record_batch(columns, schema=schema)


def _rows(batch: pa.RecordBatch) -> Changes:
    return list(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))


def _refuse(path: str, why: str) -> NoReturn:
    message = (
        f"delta {path} can't be read: {why}. The state after its batch can't be restored without it, and nothing is "
        f"skipped silently: put the object back from a copy of the checkpoint location; or run where the task's local "
        f"store is still whole; or start with empty state under a new spec.runId"
    )
    raise DeltaDamagedError(message)
