"""Why: lines from a file or a pipe become records of a stream, many at a time, none lost without a word.

Needs the extra `runtime`; imported by `holdfast feed` alone.
"""

import os
import select
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from holdfast.errors import HoldfastError, UserActionError
from holdfast.spec.streams import Partitioner
from holdfast.tasks.partitions import StreamPartition
from holdfast_cli.local.feed import BadLineError, LineFormat, ValueKind
from holdfast_cli.local.local_app import LocalApp
from holdfast_cli.plan.partition_counts import UsageError
from holdfast_runtime.streams.keys import key_bytes
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.partitioner import place, split
from holdfast_runtime.streams.records import written_batch

_BATCH = 10_000
_READ = 1 << 18


class FeedStoppedError(UserActionError):
    """Not all lines could be written; says how many were."""


@dataclass(slots=True)
class Feed:
    """A stream that takes lines."""

    log: EmbeddedLog
    topic: str
    partitions: int
    partitioner: Partitioner
    lines: LineFormat
    position: int
    """Where null keys go on taking turns."""
    written: int = 0

    @staticmethod
    def into(logs: LocalApp, name: str, *, now: int) -> "Feed":
        """The stream of this name, created when it is not there."""
        planned, stream = logs.stream(name), logs.declared(name)
        if stream is None or planned.role == "intermediate":
            message = f"stream {name} is written by the app itself; feed one of its inputs"
            raise UsageError(message)
        if stream.format == "arrow":
            message = f"stream {name} has format arrow, which JSON lines are not; write it with pyarrow"
            raise UsageError(message)
        columns = {column: planned.rows.find(column) for column in stream.key or ()}
        types = {column: found.type if found else None for column, found in columns.items()}
        value: ValueKind = stream.format
        lines = LineFormat(types, value, b"\0" if logs.has_type_bytes(name) else b"")
        log = EmbeddedLog(logs.directory)
        if planned.count is not None:
            partitions = log.ensure(planned.topic, planned.count.actual, now=now).partitions
        elif log.has(planned.topic):
            partitions = log.meta(planned.topic).partitions
        else:
            message = f"stream {name} has no partition count; write partitions: N into the spec"
            raise UsageError(message)
        position = sum(bounds.end for bounds in log.bounds(planned.topic).values())
        return Feed(log, planned.topic, partitions, stream.partitioner, lines, position)

    def write(self, values: list[bytes], keys: pa.RecordBatch, now: int) -> None:
        """Write records to the partitions of their keys."""
        records = written_batch(key_bytes(keys, keys.schema.names), values, now)
        places = place(records.column("key"), self.partitions, self.partitioner, position=self.position + self.written)
        for partition, part in split(records, places):
            self.log.append(StreamPartition(self.topic, partition), part)
            self.written += part.num_rows


def feed(
    to: Feed, file: int, name: str, *, clock: Callable[[], int], progress: Callable[[int], None] | None = None
) -> None:
    """Write all lines of a file; what comes before a bad line is written."""
    number = 1
    for lines in _batches(file):
        parsed = to.lines.parse(lines, number)
        try:
            if parsed.values:
                to.write(parsed.values, parsed.keys, clock())
        except HoldfastError as error:
            message = f"{error} ({to.written} records were written before that)"
            raise FeedStoppedError(message) from error
        if parsed.bad is not None:
            raise _stopped(name, parsed.bad, to.written)
        number += len(lines)
        if progress is not None:
            progress(to.written)


def _stopped(name: str, bad: BadLineError, written: int) -> FeedStoppedError:
    return FeedStoppedError(
        f"{name}:{bad.line}: {bad}; the {written} records before this line were written, it and all after it were not"
    )


def _batches(file: int) -> Iterator[list[bytes]]:
    """Lines as they come: many while there are many, few as soon as the writer pauses."""
    lines: list[bytes] = []
    rest = b""
    while data := os.read(file, _READ):
        *whole, rest = (rest + data).split(b"\n")
        lines += whole
        while len(lines) >= _BATCH:
            yield lines[:_BATCH]
            lines = lines[_BATCH:]
        if lines and not select.select([file], [], [], 0)[0]:
            yield lines
            lines = []
    if rest:
        lines.append(rest)
    if lines:
        yield lines
