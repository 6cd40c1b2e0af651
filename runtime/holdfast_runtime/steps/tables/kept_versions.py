"""Versions of a table's data set in one copy of the table: each in a bucket of its own, and which of them is looked up.

A row belongs to the version that its partition has reached, which is known by the ends of data sets before it: marked
records, or end-of-stream messages of all producers. Rows are stored and versions switched together, so that whatever
dies, a version is seen whole or not at all. What a version is, the core decides. Must not read streams.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from holdfast.control.messages import EndOfStreamMessage
from holdfast.control.runs import NO_RUNS, WriterRuns
from holdfast.tables.versions import PartitionVersion, Versions
from holdfast.tasks.partitions import StreamPartition, parse_partition
from holdfast_runtime.state.errors import parsing_state
from holdfast_runtime.state.sorted.layered_rows import LayeredTable
from holdfast_runtime.state.sorted.newest_rows import VERSIONS
from holdfast_runtime.steps.tables.kept_table import SET, KeptTable, TableShape

_SHIFT = 32
_BEFORE = (1 << _SHIFT) - 1


class DatasetEnd(NamedTuple):
    """Somebody says that a data set ends here."""

    offset: int
    message: EndOfStreamMessage | None = None
    """The end of one producer, or of all; None: a marked record, which ends it for all."""


@dataclass(frozen=True, slots=True)
class DatasetProducers:
    """The tasks that write one partition of a data set, and which of them have ended it."""

    runs: WriterRuns = NO_RUNS
    ended: frozenset[str] = frozenset()
    whole: bool = False
    """Whether the run has ended its data set already: ends that its tasks repeat end no other."""

    def after(self, message: EndOfStreamMessage | None) -> "tuple[DatasetProducers, bool]":
        """Return the producers after an end, and whether the data set is whole by it."""
        if message is None:
            return replace(self, ended=frozenset()), True
        runs = self.runs.after(message.run, message.writers)
        if runs is None:
            return self, False
        if message.task is None:
            return DatasetProducers(runs), True
        producers = self._in(runs)
        ended = producers.ended | {message.task}
        if producers.whole or len(ended) < (message.task_count or 1):
            return replace(producers, ended=ended), False
        return DatasetProducers(runs, whole=message.run is not None), True

    def _in(self, runs: WriterRuns) -> "DatasetProducers":
        """Return the producers in these runs. Ends of other runs, or of an attempt with other tasks, do not add up."""
        if not self.runs.replaced_by(runs):
            return replace(self, runs=runs)
        same_run = (
            self.runs.current is not None and runs.current is not None and self.runs.current.name == runs.current.name
        )
        return DatasetProducers(runs, whole=self.whole and same_run)


def with_sets(partition: int, offsets: np.typing.NDArray[np.int64], ends: Sequence[DatasetEnd]) -> pa.Array:
    """Return for each row of a range what `put` has to know: its partition, and how many ends come before it."""
    before = np.searchsorted(np.array([end.offset for end in ends], np.int64), offsets)
    return pa.array((partition << _SHIFT) | before.astype(np.int64))


@dataclass(frozen=True, slots=True)
class _Known:
    versions: Versions
    producers: Mapping[StreamPartition, DatasetProducers]


class KeptVersions:
    """A versioned table during one batch."""

    def __init__(self, table: LayeredTable, shape: TableShape, partitions: Iterable[StreamPartition]) -> None:
        self._table, self._kept = table, KeptTable(table, shape)
        self._shape, self._partitions = shape, tuple(partitions)

    def begin(self, generation: int | None = None) -> None:
        """Begin a batch: see `KeptTable.begin`."""
        if self._kept.begin(generation):
            self._table.put_many([VERSIONS], [None])

    def put(self, source: str, rows: pa.RecordBatch, ends: Mapping[int, Sequence[DatasetEnd]]) -> int:
        """Write rows of a side input with `SET`, and the ends among them; return how many rows have no key."""
        state = self._known()
        sets = rows.column(rows.schema.get_field_index(SET.name)).to_numpy()
        partitions, before = sets >> _SHIFT, sets & _BEFORE
        unkeyed = 0
        for partition in sorted({*np.unique(partitions).tolist(), *ends}):
            stream_partition = StreamPartition(source, partition)
            first = state.versions.version_for(stream_partition)
            state, whole = _ended(state, stream_partition, ends.get(partition, ()))
            indices = np.flatnonzero(partitions == partition)
            version_of = first + np.cumsum([0, *whole])[before[indices]]
            for version in np.unique(version_of).tolist():
                version_rows = rows.take(pa.array(indices[version_of == version]))
                unkeyed += self._kept.put(self._shape.stored(version_rows), version)
        self._keep(state)
        return unkeyed

    def switch(self) -> None:
        """Look up the newest version that is whole from now on, and drop those before it."""
        state = self._known()
        switched = state.versions.at_boundary()
        for version in switched.removed:
            self._kept.drop(version)
        self._keep(_Known(switched.versions, state.producers))

    def _known(self) -> _Known:
        (value,) = self._table.get_many([VERSIONS])
        if value is None:
            return _Known(Versions.empty(self._partitions), {})
        with parsing_state(f"the versions of table {self._table.name}"):
            tree: dict[str, Any] = json.loads(bytes(value))
            parts = {parse_partition(name): PartitionVersion(*fields) for name, fields in tree["parts"].items()}
            producers = {
                parse_partition(name): DatasetProducers(WriterRuns.of_tree(runs), frozenset(ended), whole)
                for name, (runs, ended, whole) in tree["producers"].items()
            }
            # A partition that is new begins with the data set that the others are at.
            newest = max((part.version for part in parts.values()), default=1)
            new = {partition: PartitionVersion(newest) for partition in self._partitions if partition not in parts}
            return _Known(Versions({**parts, **new}, tree["serving"]), producers)

    def _keep(self, state: _Known) -> None:
        tree = {
            "serving": state.versions.serving,
            "parts": {
                str(partition): [part.version, part.marker] for partition, part in sorted(state.versions.parts.items())
            },
            "producers": {
                str(partition): [producers.runs.tree(), sorted(producers.ended), producers.whole]
                for partition, producers in sorted(state.producers.items())
            },
        }
        value = json.dumps(tree).encode()
        if self._table.get_many([VERSIONS]) != [value]:
            self._table.put_many([VERSIONS], [value])


def _ended(state: _Known, partition: StreamPartition, ends: Sequence[DatasetEnd]) -> tuple[_Known, list[int]]:
    """Return what is known after these ends, and for each whether it ends the data set of this partition."""
    versions, producers, whole = state.versions, state.producers.get(partition, DatasetProducers()), []
    for end in ends:
        producers, complete = producers.after(end.message)
        versions = versions.marked(partition, end.offset) if complete else versions
        whole.append(int(complete))
    return _Known(versions, {**state.producers, partition: producers}), whole
