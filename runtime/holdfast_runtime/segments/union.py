"""The tagged union in which rows of several nodes and tasks travel between Python and Spark SQL in one frame.

Columns: `task`, `node` (-1 for a note, bytes that travel along), `time`, `mark`, `note`, then one nullable struct per
distinct schema. Rows that no Spark SQL looks at on the way travel sealed: whole Arrow batches in notes, whose time is
the node. Spark splits and joins batches freely; it only promises the order of rows, and nothing else is relied on here.
Spark marks fields it knows to be non-null as such, at any depth, while rows of a node need one type in all batches. So
all fields are made nullable again, which Arrow's own cast refuses for nulls below a null parent. Must not need a JVM,
know steps, touch single rows, or convert any other type.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.errors import HoldfastError
from holdfast_runtime.steps.timed_rows import TimedRows


def retyped(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the same values as this type, which differs only in nullability."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        children = [retyped(array.field(index), field.type) for index, field in enumerate(fields)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null() if array.null_count else None)
    if pa.types.is_map(kind):
        pairs = [retyped(array.keys, kind.key_type), retyped(array.items, kind.item_type)]
        inner = pa.StructArray.from_arrays(pairs, fields=[kind.key_field, kind.item_field])
    elif pa.types.is_list(kind):
        inner = retyped(array.values, kind.value_type)
    else:
        return array.cast(kind)
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [inner])


NOTE = -1
"""The node number of a note."""
SEALED_BYTES = 1 << 20
"""About how many bytes of rows travel in one note: Spark holds whole notes in memory."""
TAGS = pa.schema(
    [("task", pa.int32()), ("node", pa.int32()), ("time", pa.int64()), ("mark", pa.int64()), ("note", pa.binary())]
)


class CarriedNode(Protocol):
    """A node whose rows travel."""

    @property
    def index(self) -> int:
        """The tag of its rows."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""


@dataclass(frozen=True, slots=True)
class NodeRows:
    """Rows of one node in one task."""

    task: int
    node: int
    rows: TimedRows


@dataclass(frozen=True, slots=True)
class PackedNote:
    """Bytes that travel along with the rows of a task."""

    task: int
    note: bytes


@dataclass(frozen=True)
class UnionLayout:
    """The columns at one boundary between two segments."""

    schemas: Mapping[int, pa.Schema]
    """Node -> the columns of its rows."""
    shapes: tuple[pa.Schema, ...]
    """The distinct schemas among them: column `s<i>` holds shape i."""
    shape_of: Mapping[int, int]
    """Node -> the index of its shape; a sealed node has none."""

    @classmethod
    def of(cls, nodes: Iterable[CarriedNode], sealed: Iterable[CarriedNode] = ()) -> "UnionLayout":
        """Return the layout for nodes that travel in columns, and for sealed ones."""
        schemas = {node.index: node.schema.remove_metadata() for node in nodes}
        shapes: list[pa.Schema] = []
        for schema in schemas.values():
            if schema not in shapes:
                shapes.append(schema)
        shape_of = {node: shapes.index(schema) for node, schema in schemas.items()}
        return cls(schemas | {node.index: node.schema.remove_metadata() for node in sealed}, tuple(shapes), shape_of)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The columns as they travel."""
        structs = [pa.field(f"s{number}", pa.struct(list(shape))) for number, shape in enumerate(self.shapes)]
        return pa.schema([*TAGS, *structs])

    def packed(self, task: int, node: int, rows: TimedRows) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one node as they travel."""
        if node in self.shape_of:
            yield self.pack(task, node, rows)
            return
        per_row = max(1, rows.rows.nbytes // max(1, rows.count))
        step = max(1, SEALED_BYTES // per_row)
        for start in range(0, rows.count, step):
            part = rows.part(start, min(start + step, rows.count))
            columns = [part.times, _marks(part), *part.rows.columns]
            sealed = pa.RecordBatch.from_arrays(columns, schema=self._sealed(node))
            yield self.pack_note(task, sealed.serialize().to_pybytes(), node)

    def pack(self, task: int, node: int, rows: TimedRows) -> pa.RecordBatch:
        """Pack rows of one node into columns."""
        count = rows.count
        tags = [_repeated(task, count), _repeated(node, count), rows.times, _marks(rows), pa.nulls(count, pa.binary())]
        return self._batch(tags, self.shape_of[node], rows.rows)

    def pack_note(self, task: int, note: bytes, node: int | None = None) -> pa.RecordBatch:
        """Pack a note for travel behind the already packed rows of its task; `node`: whose rows it holds, if sealed."""
        which, none = pa.array([node], pa.int64()), pa.nulls(1, pa.int64())
        tags = [_repeated(task, 1), _repeated(NOTE, 1), which, none, pa.array([note], pa.binary())]
        return self._batch(tags, None, None)

    def unpack(self, batch: pa.RecordBatch) -> Iterator[NodeRows | PackedNote]:
        """Yield the content of a batch, task by task: the rows of each node, then the notes, each in order."""
        if not batch.num_rows:
            return
        tasks, nodes = (batch.column(index).to_numpy() for index in (0, 1))
        times, marks, packed, *structs = (
            retyped(batch.column(index), self.arrow_schema.field(index).type) for index in range(2, batch.num_columns)
        )
        edges = [0, *(np.flatnonzero(np.diff(tasks)) + 1).tolist(), batch.num_rows]
        for start, end in pairwise(edges):
            task, task_nodes = int(tasks[start]), nodes[start:end]
            present = np.unique(task_nodes)
            for node in present[present != NOTE].tolist():
                # A row for several nodes arrives as neighbours, so runs of one node may be one row long.
                which = np.flatnonzero(task_nodes == node) + start
                rows = self._rows(node, _picked(structs[self.shape_of[node]], which))
                yield NodeRows(task, node, TimedRows(rows, _picked(times, which), marks=_picked(marks, which)))
            notes = np.flatnonzero(task_nodes == NOTE) + start
            for sealed, note in zip(*(_picked(column, notes).to_pylist() for column in (times, packed)), strict=True):
                yield PackedNote(task, note) if sealed is None else NodeRows(task, sealed, self._opened(sealed, note))

    def gathered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, dict[int, TimedRows], list[bytes]]]:
        """Yield for each task the rows of each node that has any, and the notes, in order."""
        done: set[int] = set()
        for task, pieces in _by_task(piece for batch in batches for piece in self.unpack(batch)):
            if task in done:
                message = f"rows of task {task} are not together: something between the segments has moved rows"
                raise HoldfastError(message, code="UnionBrokenError")
            done.add(task)
            parts: dict[int, list[TimedRows]] = {}
            notes: list[bytes] = []
            for piece in pieces:
                if isinstance(piece, PackedNote):
                    notes.append(piece.note)
                else:
                    parts.setdefault(piece.node, []).append(piece.rows)
            yield (
                task,
                {node: TimedRows.joined(node_parts, self.schemas[node]) for node, node_parts in parts.items()},
                notes,
            )

    def _sealed(self, node: int) -> pa.Schema:
        return pa.schema([TAGS.field("time"), TAGS.field("mark"), *self.schemas[node]])

    def _opened(self, node: int, sealed: bytes) -> TimedRows:
        batch = pa.ipc.read_record_batch(pa.py_buffer(sealed), self._sealed(node))
        times, marks, *columns = batch.columns
        return TimedRows(pa.RecordBatch.from_arrays(columns, schema=self.schemas[node]), times, marks=marks)

    def _batch(self, tags: list[pa.Array], shape: int | None, rows: pa.RecordBatch | None) -> pa.RecordBatch:
        count = len(tags[0])
        structs = [
            _struct(rows, fields) if number == shape and rows is not None else pa.nulls(count, pa.struct(list(fields)))
            for number, fields in enumerate(self.shapes)
        ]
        return pa.RecordBatch.from_arrays([*tags, *structs], schema=self.arrow_schema)

    def _rows(self, node: int, struct: pa.StructArray) -> pa.RecordBatch:
        if struct.null_count:
            message = f"{struct.null_count} rows of node {node} came without their columns"
            raise HoldfastError(message, code="UnionBrokenError")
        return pa.RecordBatch.from_arrays(struct.flatten(), schema=self.schemas[node])


def _by_task(pieces: Iterator[NodeRows | PackedNote]) -> Iterator[tuple[int, list[NodeRows | PackedNote]]]:
    task_pieces: list[NodeRows | PackedNote] = []
    for piece in pieces:
        if task_pieces and task_pieces[0].task != piece.task:
            yield task_pieces[0].task, task_pieces
            task_pieces = []
        task_pieces.append(piece)
    if task_pieces:
        yield task_pieces[0].task, task_pieces


def _marks(rows: TimedRows) -> pa.Int64Array:
    return pa.nulls(rows.count, pa.int64()) if rows.marks is None else rows.marks


def _picked(column: pa.Array, which: npt.NDArray[np.intp]) -> pa.Array:
    """Return these entries, without copying if they are adjacent."""
    if len(which) and which[-1] - which[0] + 1 == len(which):
        return column.slice(int(which[0]), len(which))
    return column.take(pa.array(which))


def _repeated(value: int, count: int) -> pa.Int32Array:
    return pa.array(np.full(count, value, np.int32))


def _struct(rows: pa.RecordBatch, shape: pa.Schema) -> pa.StructArray:
    return pa.StructArray.from_arrays(rows.columns, fields=list(shape))
