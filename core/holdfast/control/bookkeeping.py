"""The control bookkeeping of a task: the watermarks and ends of its partitions, as one value that each batch updates.

A slot calls `batch` once per batch. The bookkeeping is part of the task's state, so a restart loses nothing: `entries`
returns what changed since the last batch, `restored` reads it again. Stored are small entries of bytes, one per
partition and kind, each beginning with a format version. Watermarks are packed numbers, because every producer's
heartbeat rewrites its partition's entry in every batch; the rest changes rarely and is JSON. Must not read or write the
store, and raises nothing but `StoredBookkeepingError` whatever bytes come in.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from struct import Struct, pack, unpack_from
from struct import error as StructError  # noqa: N812 - it is an error, and reads as one here
from typing import Any, Final

from holdfast.control.end_of_stream import EndOfStream, PartitionEnd, no_ends
from holdfast.control.partition_watermark import PartitionWatermark, ProducerWatermark
from holdfast.control.producers import Delivery, Producers
from holdfast.control.runs import WriterRuns
from holdfast.control.watermark import Watermarks, no_watermarks
from holdfast.errors import UserActionError
from holdfast.tasks.partitions import PartitionNameError, StreamPartition, parse_partition

FORMAT_VERSION: Final = 3
_READABLE: Final = {2: 4, 3: 5}
"""Version -> numbers in a row: before version 3 nobody said that he is idle."""
WATERMARK: Final = "watermark"
END: Final = "end"

_HEADER = Struct("<B??qqqqI")
"""Version, has a value, has a nameless row; since, value, moved at, said; size of names and runs, which follow,
and after them the rows."""
_UNREADABLE = (StructError, ValueError, RecursionError, KeyError, TypeError)


class StoredBookkeepingError(UserActionError):
    """Stored control bookkeeping that can't be read."""


def key_of(kind: str, partition: StreamPartition) -> bytes:
    """Return the key of a partition's entry."""
    return f"{kind}/{partition}".encode()


def parse_key(key: bytes) -> tuple[str, StreamPartition]:
    """Return the kind and partition that a key names."""
    try:
        kind, _, rest = key.decode().partition("/")
        partition = parse_partition(rest)
    except (UnicodeDecodeError, PartitionNameError) as error:
        message = f"stored control bookkeeping has an entry {key!r}; {_CURE}"
        raise StoredBookkeepingError(message) from error
    if kind not in (WATERMARK, END):
        message = f"stored control bookkeeping has an entry {key!r}; it can be {WATERMARK} or {END}; {_CURE}"
        raise StoredBookkeepingError(message)
    return kind, partition


def watermark_bytes(watermark: PartitionWatermark) -> bytes:
    """Return the entry of a partition's watermark."""
    names = _names_bytes(tuple(watermark.producers), watermark.runs)
    rows = (
        watermark.producers.values()
        if watermark.nameless is None
        else (watermark.nameless, *watermark.producers.values())
    )
    flat = list(chain.from_iterable(rows))
    has_value = watermark.value is not None
    header = _HEADER.pack(
        FORMAT_VERSION,
        has_value,
        watermark.nameless is not None,
        watermark.since,
        watermark.value or 0,
        watermark.moved_at or 0,
        watermark.said,
        len(names),
    )
    return header + names + pack(f"<{len(flat)}q", *flat)


def watermark_in(value: bytes, partition: StreamPartition) -> PartitionWatermark:
    """Return the watermark in an entry."""
    what = f"the watermark of {partition}"
    _check_version(value[:1], what)
    try:
        _, has_value, has_nameless, since, watermark, moved_at, named_count, length = _HEADER.unpack_from(value)
        rest = value[_HEADER.size + length :]
        names, *runs = json.loads(value[_HEADER.size : _HEADER.size + length].decode())
        flat = unpack_from(f"<{len(rest) // 8}q", rest)
        rows = [_row(*one) for one in zip(*[iter(flat)] * _READABLE[value[0]], strict=True)]
        nameless = rows.pop(0) if has_nameless else None
        producers = dict(zip(names, rows, strict=True))
        if len(rest) % 8 or not _texts(names) or len(producers) != len(rows):
            _refuse("it does not add up")
    except (*_UNREADABLE, IndexError) as error:
        raise _unreadable(what, error) from error
    return PartitionWatermark(
        since,
        watermark if has_value else None,
        moved_at if has_value else None,
        producers,
        nameless,
        named_count,
        WriterRuns.of_tree(runs),
    )


def _row(watermark: int, read_at: int, batch: int, sequence: int, idle: int = 0) -> ProducerWatermark:
    return ProducerWatermark(watermark, read_at, batch, sequence, bool(idle))


@lru_cache(maxsize=4096)
def _names_bytes(names: tuple[str, ...], runs: WriterRuns) -> bytes:
    """Cached, since the same tasks write all partitions of a stream, in every batch."""
    return json.dumps([names, *runs.tree()]).encode()


def end_bytes(end: PartitionEnd) -> bytes:
    """Return the entry of a partition's end."""
    return _json([end.ended, end.said, sorted(end.tasks), *end.runs.tree()])


def end_in(value: bytes, partition: StreamPartition) -> PartitionEnd:
    """Return the end in an entry."""
    what = f"the end of {partition}"
    _check_version(value[:1], what)
    try:
        ended, named_count, tasks, *runs = json.loads(value[1:].decode())
        if type(ended) is not bool or type(named_count) is not int or not _texts(tasks):
            _refuse("a field has another type")
        return PartitionEnd(ended, frozenset(tasks), named_count, WriterRuns.of_tree(runs))
    except _UNREADABLE as error:
        raise _unreadable(what, error) from error


_CURE = "restore the task's state from its durable copy, or set a new spec.runId to start with empty state"


def _json(tree: list[Any]) -> bytes:
    return bytes((FORMAT_VERSION,)) + json.dumps(tree, separators=(",", ":")).encode()


def _check_version(first: bytes, what: str) -> None:
    if not first or first[0] not in _READABLE:
        stored_format = f"format {first[0]}" if first else "nothing at all"
        message = (
            f"{what} is stored in {stored_format}, and this release reads format {FORMAT_VERSION}: run the release "
            f"that wrote it, or set a new spec.runId to start with empty state"
        )
        raise StoredBookkeepingError(message, code="StoredVersionError")


def _texts(tree: object) -> bool:
    return isinstance(tree, list) and all(isinstance(text, str) for text in tree)


def _refuse(why: str) -> None:
    raise ValueError(why)


def _unreadable(what: str, error: Exception) -> StoredBookkeepingError:
    return StoredBookkeepingError(f"{what} is stored, but can't be read ({error}); {_CURE}")


@dataclass(frozen=True, slots=True)
class ControlInputs:
    """The partitions a task reads in this attempt, and the producers of their streams."""

    partitions: tuple[StreamPartition, ...]
    """All partitions, including those of side inputs."""
    producers: Mapping[str, Producers] = field(default_factory=dict)
    """Stream -> producers, for intermediate streams and streams of other apps; a source has none."""
    side_inputs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Bookkeeping:
    """Watermarks and ends of everything a task reads."""

    watermarks: Watermarks
    ends: EndOfStream

    @classmethod
    def started(cls, inputs: ControlInputs, now: int) -> "Bookkeeping":
        """Return the bookkeeping of a new task."""
        return cls(no_watermarks(), no_ends()).tracking(inputs, now)

    def tracking(self, inputs: ControlInputs, now: int) -> "Bookkeeping":
        """Return the bookkeeping for the inputs of this attempt."""
        return Bookkeeping(
            self.watermarks.tracking(inputs.partitions, inputs.producers, now),
            self.ends.tracking(inputs.partitions, inputs.producers, inputs.side_inputs),
        )

    def resumed(self, now: int) -> "Bookkeeping":
        """Return the bookkeeping at the start of an attempt: see `Watermarks.resumed`."""
        return replace(self, watermarks=self.watermarks.resumed(now))

    def believed(self, limits: Mapping[str, int], now: int) -> "Bookkeeping":
        """Return the bookkeeping without impossible watermarks: see `Watermarks.believed`."""
        return replace(self, watermarks=self.watermarks.believed(limits, now))

    def batch(self, deliveries: Iterable[Delivery], now: int) -> "Bookkeeping":
        """Return the bookkeeping after a batch with these control messages; checks idleness also without messages."""
        heard = tuple(deliveries)
        return Bookkeeping(self.watermarks.apply(heard, now).tick(now), self.ends.apply(heard))

    def entries(self, before: "Bookkeeping | None" = None) -> dict[bytes, bytes | None]:
        """Return the entries to write where the store has `before`; None: delete. Without `before`: all entries."""
        changed: dict[bytes, bytes | None] = {}
        old_watermarks: Mapping[StreamPartition, PartitionWatermark] = before.watermarks.partitions if before else {}
        old_ends: Mapping[StreamPartition, PartitionEnd] = before.ends.partitions if before else {}
        for partition, watermark in self.watermarks.partitions.items():
            if watermark is not old_watermarks.get(partition):
                changed[key_of(WATERMARK, partition)] = watermark_bytes(watermark)
        for partition, end in self.ends.partitions.items():
            if end is not old_ends.get(partition):
                changed[key_of(END, partition)] = end_bytes(end)
        for partition in old_watermarks.keys() - self.watermarks.partitions.keys():
            changed[key_of(WATERMARK, partition)] = None
            changed[key_of(END, partition)] = None
        return changed

    @classmethod
    def restored(cls, entries: Mapping[bytes, bytes], inputs: ControlInputs, now: int) -> "Bookkeeping":
        """Return the bookkeeping in these entries, for what is read now; raise `StoredBookkeepingError`."""
        watermarks: dict[StreamPartition, PartitionWatermark] = {}
        ends: dict[StreamPartition, PartitionEnd] = {}
        for key, value in entries.items():
            kind, partition = parse_key(key)
            if kind == WATERMARK:
                watermarks[partition] = watermark_in(value, partition)
            else:
                ends[partition] = end_in(value, partition)
        stored = cls(Watermarks(watermarks, inputs.producers), EndOfStream(ends, inputs.producers, inputs.side_inputs))
        return stored.tracking(inputs, now)
