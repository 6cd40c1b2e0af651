"""The delta of one batch as an object of the durable copy, and the names of all objects there.

A delta holds what the batch did to one task: state changes per table and the bytes of each output stream. Outputs
are included where they are committed partition by partition: a replay after a crash between two of them must write the
rows of the first try. Where one transaction has them all, the delta only says where (`withheld`), and an attempt that
finds that nothing was committed computes the batch again: its delta has the number of its try behind its name. Only the
last batch is ever replayed, so a restore reads the changes and leaves the outputs out.
Format: a line `holdfast-delta 2` with length and sha256 of both parts, then two Arrow streams of (key, value or null),
compressed unless tiny: a record batch per table, as listed in the schema's metadata; and one of all outputs. The line
of a delta without its outputs says 3. Names are `delta-<batch, 20 digits>-<epoch, 10 digits>`, after the first try with
`-<6 digits>`, `snapshot-<batch>-<epoch>`, and `fence-<epoch>`. They sort by batch, epoch and try, so a listing is
enough to know what exists. An attempt that finds a batch decided by an earlier one writes the same content under its
own number (`DurableCopy.adopt`), so the number in a name may be another than that of who computed it. Must not open
files; reading raises only `DeltaDamagedError`, whatever the content.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import pyarrow as pa

from holdfast.attempt_number import PADDED, padded
from holdfast_runtime.state.errors import DeltaDamagedError
from holdfast_runtime.state.store.directory import TaskIdentity

_NAME = re.compile(rf"(delta|snapshot)-([0-9]{{20}})-({PADDED})(?:-([0-9]{{6}}))?|(fence)-({PADDED})")


@dataclass(frozen=True, slots=True, order=True)
class ObjectName:
    """An object name, and what is in it."""

    batch: int
    epoch: int
    retry: int
    """How many deltas of this batch the attempt had written in vain."""
    name: str


@dataclass(frozen=True, slots=True)
class Listing:
    """All objects of a task, each kind ordered by batch, epoch and try."""

    deltas: tuple[ObjectName, ...]
    snapshots: tuple[ObjectName, ...]
    fences: tuple[ObjectName, ...]

    def delta(self, batch: int) -> ObjectName | None:
        """Return the delta of this batch; of several, the newest one, because older ones were refused."""
        deltas = [delta for delta in self.deltas if delta.batch == batch]
        return deltas[-1] if deltas else None

    def newest_epoch(self, batch: int) -> int | None:
        """Return the newest epoch found in any fence, or in a delta of this batch or a later one."""
        epochs = [named.epoch for named in self.fences] + [named.epoch for named in self.deltas if named.batch >= batch]
        return max(epochs, default=None)


def delta_name(batch: int, epoch: int, retry: int = 0) -> str:
    """Return the name of a batch's delta."""
    return f"delta-{batch:020}-{padded(epoch)}" + (f"-{retry:06}" if retry else "")


def snapshot_name(batch: int, epoch: int) -> str:
    """Return the name of the snapshot taken after this batch."""
    return f"snapshot-{batch:020}-{padded(epoch)}"


def fence_name(epoch: int) -> str:
    """Return the name of the fence that shuts out older attempts."""
    return f"fence-{padded(epoch)}"


def listing(names: Iterable[str]) -> Listing:
    """Parse names into a listing, ignoring those that are not Holdfast's."""
    # Names sort like the numbers in them.
    names_by_kind: dict[str, list[ObjectName]] = {"delta": [], "snapshot": [], "fence": []}
    for name in sorted(names):
        match = _NAME.fullmatch(name)
        if match is not None and match[1]:
            names_by_kind[match[1]].append(ObjectName(int(match[2]), int(match[3]), int(match[4] or 0), name))
        elif match is not None:
            names_by_kind["fence"].append(ObjectName(-1, int(match[6]), 0, name))
    return Listing(*map(tuple, names_by_kind.values()))


def shutting_out(names: Iterable[str], batch: int) -> Iterator[str]:
    """Yield the names that `Listing.newest_epoch` of a batch asks for: few, where a listing has hundreds."""
    first = delta_name(batch, 0)
    return (name for name in names if name >= first and not name.startswith("snapshot"))


def obsolete(objects: Listing) -> tuple[str, ...]:
    """Return the names of objects no restore can need, in the order to delete them.

    Everything up to the older of the last two snapshots goes. Two are kept, because the newest may turn out damaged. An
    attempt with an older view deletes less than this, never more.
    """
    batches = sorted({snapshot.batch for snapshot in objects.snapshots})
    names: list[str] = [fence.name for fence in objects.fences[:-1]]
    if len(batches) > 1:
        horizon = batches[-2]
        # Delete snapshots first: a snapshot without deltas is harmless, deltas without a snapshot before them are
        # useless.
        names += [snapshot.name for snapshot in objects.snapshots if snapshot.batch < horizon]
        names += [delta.name for delta in objects.deltas if delta.batch <= horizon]
    return tuple(names)


FORMAT, WITHHELD_FORMAT = 2, 3
"""With and without outputs. A release that knows no delta without must not take it for one of no outputs."""
_LINE = b"holdfast-delta %d state=%018d %s outputs=%018d %s\n"
_HEADER = re.compile(rb"holdfast-delta [23] state=(\d{18}) ([0-9a-f]{64}) outputs=(\d{18}) ([0-9a-f]{64})\n")
_HEADER_LENGTH = len(_LINE % (FORMAT, 0, b"0" * 64, 0, b"0" * 64))
_WORTH_LZ4, _WORTH_ZSTD = 1 << 14, 1 << 18
"""Bytes. Below the first, starting a codec takes longer than all else here, while a batch waits for it, and so many
deltas are less than a snapshot is due for. Below the second, lz4 takes half of zstd's time, and leaves little more."""
_KEY = b"holdfast"
_FIELDS = [("key", pa.large_binary()), ("value", pa.large_binary())]

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
    identity = delta.identity
    about = {
        "app": identity.app,
        "run": identity.run,
        "task": identity.task,
        "batch": delta.batch,
        "epoch": delta.epoch,
        "base": delta.base,
        "tables": list(delta.tables),
        "withheld": delta.withheld,
    }
    state = _stream([list(zip(*rows, strict=True)) for rows in delta.tables.values()], about)
    stored = {} if delta.withheld else delta.outputs
    outputs = _stream([[[name.encode() for name in stored], list(stored.values())]], {}) if stored else _NO_OUTPUTS
    parts = (part for body in (state, outputs) for part in (len(body), hashlib.sha256(body).hexdigest().encode()))
    line = _LINE % (WITHHELD_FORMAT if delta.withheld else FORMAT, *parts)
    return PackedDelta(replace(delta, digest=_digest(line), size=len(state)), line, state, outputs)


def _digest(line: bytes) -> str:
    """Return the digest of a whole object: its line holds those of the parts."""
    return hashlib.sha256(line).hexdigest()


def read_delta(path: str, read: Callable[[int], bytes], *, outputs: bool = True) -> Delta:
    """Parse the delta in the object at this path, which `read` returns. Without `outputs`, they are not read."""
    line = read(_HEADER_LENGTH)
    header = _HEADER.fullmatch(line)
    if header is None:
        _refuse(path, f"it starts with {line[:24]!r}, which is no delta of format {FORMAT} or {WITHHELD_FORMAT}")
    bodies = [_body(path, read, int(header[1]), header[2])]
    if outputs:
        bodies.append(_body(path, read, int(header[3]), header[4]))
        if read(1):
            _refuse(path, "it is longer than its header says")
    try:
        about, *groups = _groups(bodies[0])
        tables = dict(zip(about["tables"], groups, strict=True))
        sent = {name.decode(): value or b"" for name, value in _groups(bodies[1])[1]} if outputs else {}
        identity = TaskIdentity(about["app"], about["run"], about["task"])
        withheld = about.get("withheld")  # which earlier releases don't say
        size = int(header[1])
        return Delta(
            identity, about["batch"], about["epoch"], about["base"], tables, sent, withheld, _digest(line), size
        )
    except (pa.ArrowException, ValueError, KeyError, IndexError, TypeError) as error:
        _refuse(path, f"its content is not as this release writes it ({error})")


def _stream(groups: list[list[Sequence[Any]]], about: dict[str, Any]) -> bytes:
    schema = pa.schema(_FIELDS, metadata={_KEY: json.dumps(about).encode()})
    batches = [
        pa.record_batch([pa.array(column, pa.large_binary()) for column in columns or ((), ())], schema=schema)
        for columns in groups
    ]
    size = sum(batch.nbytes for batch in batches)
    compression = None if size < _WORTH_LZ4 else "lz4" if size < _WORTH_ZSTD else "zstd"
    sink, options = pa.BufferOutputStream(), pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, schema, options=options) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


_NO_OUTPUTS = _stream([[]], {})


def _groups(body: bytes) -> list[Any]:
    """Return what a stream says about itself, and the rows of each record batch."""
    with pa.ipc.open_stream(body) as stream:
        columns = [[column.to_pylist() for column in batch.columns] for batch in stream]
        return [json.loads(stream.schema.metadata[_KEY]), *(list(zip(*pair, strict=True)) for pair in columns)]


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
