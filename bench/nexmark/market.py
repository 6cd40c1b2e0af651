"""The events of a run as files, made once and cut into the same batches for every engine.

Stock Structured Streaming reads Parquet files, its fastest source, two for each batch of a stream. A StreamApp reads a
generator that gives slices of mapped Arrow files, one for each partition, so no engine pays for making events. What
looks up (`AHEAD`) comes a batch before what is looked up from, so that a look-up finds what a join finds.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from bench.engine.files import cached, dated
from bench.nexmark.events import KINDS, Nexmark, side_input
from holdfast_runtime.streams.record_keys import key_bytes, place, split

PARTS = 2
"""Partitions of a stream, and files of one of its batches."""
KEYS = {"person": "id", "auction": "id", "bid": "auction", "side-input": "key"}
AHEAD = ("person", "auction")
"""Streams that are also there a batch earlier, under `<name>-ahead`."""


@dataclass(frozen=True, slots=True)
class Market:
    """So many events in each of so many batches."""

    batches: int
    events: int
    """Of one batch: whole epochs."""
    rate: int
    """Events in a second of event time."""

    @property
    def nexmark(self) -> Nexmark:
        """Where the events come from."""
        return Nexmark(rate=self.rate)

    def directory(self) -> Path:
        """Where the files are; made if they are not there."""
        return cached(f"nexmark-{self.batches}x{self.events}-{self.rate}", self._write)

    def _write(self, folder: Path) -> None:
        bounds = [number * self.events for number in range(self.batches + 1)]
        whole = [range(start, end) for start, end in pairwise(bounds)]
        for kind in KINDS:
            self._stream(folder / kind, kind, whole)
        for kind in AHEAD:
            self._stream(folder / f"{kind}-ahead", kind, [range(bounds[2]), *whole[2:]])
        _write_stream(folder / "side-input", "side-input", [side_input()])

    def _stream(self, folder: Path, kind: str, batches: list[range]) -> None:
        _write_stream(folder, kind, (self.nexmark.rows(kind, some) for some in batches))


def _write_stream(folder: Path, kind: str, batches: Iterable[pa.RecordBatch]) -> None:
    folder.mkdir()
    ends: list[list[int]] = []
    files = [pa.OSFile(str(folder / f"{part}.arrow"), "wb") for part in range(PARTS)]
    writers: list[pa.ipc.RecordBatchFileWriter] = []
    for number, rows in enumerate(batches):
        writers = writers or [pa.ipc.new_file(file, rows.schema) for file in files]
        for half in range(PARTS):
            start, end = (rows.num_rows * at // PARTS for at in (half, half + 1))
            path = folder / f"{number * PARTS + half:05d}.parquet"
            parquet.write_table(pa.table(rows.slice(start, end - start)), path, compression="none")
            dated(path, number * PARTS + half)
        counts = [0] * PARTS
        for part, part_rows in split(rows, place(key_bytes(rows, [KEYS[kind]]), PARTS)):
            writers[part].write_batch(part_rows)
            counts[part] = part_rows.num_rows
        before = ends[-1] if ends else [0] * PARTS
        ends.append([end + count for end, count in zip(before, counts, strict=True)])
    for writer, file in zip(writers, files, strict=True):
        writer.close()
        file.close()
    (folder / "ends.json").write_text(json.dumps(ends))


def ends(stream: Path, batch: int) -> Mapping[int, int]:
    """Where each partition of a stream ends when a batch, from 0, has come."""
    ends_by_batch = json.loads((stream / "ends.json").read_text())
    return dict(enumerate(ends_by_batch[min(batch, len(ends_by_batch) - 1)]))


@dataclass(frozen=True, slots=True)
class Mapped:
    """A stream as the function of a generator system."""

    stream: str

    def __call__(self, partition: int, offset: int, count: int) -> pa.RecordBatch:
        """Rows of a partition, without copying them if they are of one batch."""
        table = _mapped(f"{self.stream}/{partition}.arrow")
        rows = table.slice(offset, count).combine_chunks().to_batches()
        return rows[0] if rows else pa.RecordBatch.from_pylist([], table.schema)


@cache
def _mapped(path: str) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(path)).read_all()
