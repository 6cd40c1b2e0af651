"""The delta of one batch as an object of the durable copy, and the bundle that stands for the deltas of many.

A delta holds what the batch did to one task: state changes per table and the bytes of each output stream. Outputs
are included where they are committed partition by partition: a replay after a crash between two of them must write the
rows of the first try. Where one transaction has them all, the delta only says where (`withheld`), and an attempt that
finds that nothing was committed computes the batch again. Only the last batch is ever replayed, so a restore reads the
changes and leaves the outputs out. A bundle has the last value of each key that its batches changed, and no outputs.
Format: a line `holdfast-delta 2` with length and sha256 of both parts, then two Arrow streams of (key, value or null),
compressed unless tiny: a record batch per table, as listed in the schema's metadata; and one of all outputs. The line
of a delta without its outputs says 3. Must not open files; reading raises only `DeltaDamagedError`, whatever the
content.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from holdfast_runtime.state.errors import DeltaDamagedError
from holdfast_runtime.state.store.directory import TaskIdentity
from holdfast_runtime.state.store.object_names import ObjectName

FORMAT, WITHHELD_FORMAT = 2, 3
"""With and without outputs. A release that knows no delta without must not take it for one of no outputs."""
_LINE = b"holdfast-delta %d state=%018d %s outputs=%018d %s\n"
_HEADER = re.compile(rb"holdfast-delta [23] state=(\d{18}) ([0-9a-f]{64}) outputs=(\d{18}) ([0-9a-f]{64})\n")
_HEADER_LENGTH = len(_LINE % (FORMAT, 0, b"0" * 64, 0, b"0" * 64))
_WORTH_LZ4, _WORTH_ZSTD = 1 << 14, 1 << 18
"""Bytes. Below the first, starting a codec takes longer than all else here, while a batch waits for it, and so many
deltas are less than a snapshot is due for. Below the second, lz4 takes half of zstd's time, and leaves little more."""
# Handing pieces over to threads takes up to a third as long as compressing them, and other slots have the cores.
_PLAIN, _LZ4, _ZSTD = (pa.ipc.IpcWriteOptions(compression=codec, use_threads=False) for codec in (None, "lz4", "zstd"))
_KEY = b"holdfast"
_SCHEMA = pa.schema([("key", pa.large_binary()), ("value", pa.large_binary())])

Changes = list[tuple[bytes, bytes | None]]


@dataclass(frozen=True, slots=True)
class Delta:
    """The changes of one batch to the state of one task, and its outputs."""

    identity: TaskIdentity
    batch: int
    epoch: int
    """The attempt that computed it."""
    base: int | None
    """Epoch of the state it was computed on; None for the task's first batch."""
    tables: Mapping[str, Changes] = field(default_factory=dict)
    """Changes per table, in key order; a value of None deletes the key."""
    outputs: Mapping[str, bytes] = field(default_factory=dict)
    withheld: str | None = None
    """The Kafka system whose transaction has the outputs, of which the object has none; None: it has them all."""
    after: int | None = None
    """The batch before the first one of a bundle; None: it is none."""
    digest: str = field(default="", compare=False)
    """Digest of its stored object, empty before it is written. A replay that reads the object gets the same digest."""
    size: int = field(default=0, compare=False)
    """Bytes of its changes in that object, without outputs."""


@dataclass(frozen=True, slots=True)
class StoredDelta:
    """A delta that was found, and the object that has it."""

    object: ObjectName
    delta: Delta


@dataclass(frozen=True, slots=True)
class PackedDelta:
    """A delta, and the content of its object."""

    delta: Delta
    """With its digest and size."""
    line: bytes
    state: bytes
    outputs: bytes

    @property
    def chunks(self) -> tuple[bytes, bytes, bytes]:
        """The content in pieces."""
        return self.line, self.state, self.outputs


def pack_delta(delta: Delta) -> PackedDelta:
    """Return this delta with the content of its object."""
    state = _stream([_columns(rows) for rows in delta.tables.values()], _about(delta, delta.tables))
    stored = {} if delta.withheld else delta.outputs
    outputs = (
        _stream([_columns([(name.encode(), sent) for name, sent in stored.items()])], {}) if stored else _NO_OUTPUTS
    )
    return _packed(delta, state, outputs)


@dataclass(frozen=True, slots=True)
class DeltaColumns:
    """A delta without its rows, and these as they are stored."""

    delta: Delta
    tables: Mapping[str, pa.RecordBatch]


def pack_bundle(parts: Sequence[DeltaColumns], after: int) -> PackedDelta:
    """Return the bundle of the deltas of these batches, of which the first one follows `after`."""
    first, last = parts[0].delta, parts[-1].delta
    bundle = Delta(last.identity, last.batch, last.epoch, first.base, after=after)
    rows: dict[str, list[pa.RecordBatch]] = {}
    for part in parts:
        for name, batch in part.tables.items():
            rows.setdefault(name, []).append(batch)
    state = _stream([_newest(batches) for batches in rows.values()], _about(bundle, rows))
    return _packed(bundle, state, _NO_OUTPUTS)


def _newest(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the last row of each key, in key order."""
    rows = pa.concat_batches(batches)
    places = pa.table({"key": rows.column(0), "place": np.arange(rows.num_rows)})
    newest = places.group_by("key").aggregate([("place", "max")]).sort_by("key")
    return rows.take(newest.column("place_max").combine_chunks())


def _about(delta: Delta, tables: Mapping[str, object]) -> dict[str, Any]:
    identity = delta.identity
    return {
        "app": identity.app,
        "run": identity.run,
        "task": identity.task,
        "batch": delta.batch,
        "epoch": delta.epoch,
        "base": delta.base,
        "tables": list(tables),
        "withheld": delta.withheld,
    } | ({} if delta.after is None else {"after": delta.after})


def _packed(delta: Delta, state: bytes, outputs: bytes) -> PackedDelta:
    parts = (part for body in (state, outputs) for part in (len(body), hashlib.sha256(body).hexdigest().encode()))
    line = _LINE % (WITHHELD_FORMAT if delta.withheld else FORMAT, *parts)
    return PackedDelta(replace(delta, digest=_digest(line), size=len(state)), line, state, outputs)


def _digest(line: bytes) -> str:
    """Return the digest of a whole object: its line holds those of the parts."""
    return hashlib.sha256(line).hexdigest()


def read_delta(path: str, read: Callable[[int], bytes], *, outputs: bool = True) -> Delta:
    """Parse the delta in the object at this path, which `read` returns. Without `outputs`, they are not read."""
    columns, header = _read_columns(path, read)
    sent: dict[str, bytes] = {}
    if outputs:
        body = _body(path, read, int(header[3]), header[4])
        if read(1):
            _refuse(path, "it is longer than its header says")
        with _refusing(path):
            sent = {name.decode(): value or b"" for name, value in _rows(_batches(body)[1][0])}
    with _refusing(path):
        tables = {name: _rows(batch) for name, batch in columns.tables.items()}
    return replace(columns.delta, tables=tables, outputs=sent)


def read_columns(path: str, read: Callable[[int], bytes]) -> DeltaColumns:
    """Parse the changes of a delta in the object at this path, which `read` returns."""
    return _read_columns(path, read)[0]


def _read_columns(path: str, read: Callable[[int], bytes]) -> tuple[DeltaColumns, re.Match[bytes]]:
    line = read(_HEADER_LENGTH)
    header = _HEADER.fullmatch(line)
    if header is None:
        _refuse(path, f"it starts with {line[:24]!r}, which is no delta of format {FORMAT} or {WITHHELD_FORMAT}")
    body = _body(path, read, int(header[1]), header[2])
    with _refusing(path):
        about, batches = _batches(body)
        tables = dict(zip(about["tables"], batches, strict=True))
        delta = Delta(
            TaskIdentity(about["app"], about["run"], about["task"]),
            about["batch"],
            about["epoch"],
            about["base"],
            withheld=about.get("withheld"),  # which earlier releases don't say
            after=about.get("after"),
            digest=_digest(line),
            size=len(body),
        )
    return DeltaColumns(delta, tables), header


def _columns(rows: Sequence[tuple[bytes, bytes | None]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or ((), ())
    return pa.record_batch([pa.array(column, pa.large_binary()) for column in columns], schema=_SCHEMA)


def _rows(batch: pa.RecordBatch) -> Changes:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _stream(batches: Sequence[pa.RecordBatch], about: dict[str, Any]) -> bytes:
    schema = _SCHEMA.with_metadata({_KEY: json.dumps(about).encode()})
    size = sum(batch.nbytes for batch in batches)
    options = _PLAIN if size < _WORTH_LZ4 else _LZ4 if size < _WORTH_ZSTD else _ZSTD
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=options) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


_NO_OUTPUTS = _stream([_columns([])], {})


def _batches(body: bytes) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    """Return what a stream says about itself, and its record batches."""
    with pa.ipc.open_stream(body) as stream:
        return json.loads(stream.schema.metadata[_KEY]), [*stream]


@contextmanager
def _refusing(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, ValueError, KeyError, IndexError, TypeError) as error:
        _refuse(path, f"its content is not as this release writes it ({error})")


def _body(path: str, read: Callable[[int], bytes], length: int, digest: bytes) -> bytes:
    body = read(length)
    if len(body) != length:
        _refuse(path, f"a part of it holds {len(body)} bytes where its header says {length}")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        _refuse(path, "its checksum is wrong")
    return body


def _refuse(path: str, why: str) -> NoReturn:
    message = (
        f"delta {path} can't be read: {why}. The state after its batch can't be restored without it, and nothing is "
        f"skipped silently: put the object back from a copy of the checkpoint location; or run where the task's local "
        f"store is still whole; or start with empty state under a new spec.runId"
    )
    raise DeltaDamagedError(message)
