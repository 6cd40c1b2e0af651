"""The tables in which functions of `process` look rows up: for one key as a dict, for columns of keys as a batch.

They find what a `lookup` finds in the same batch. A row that is asked for by itself is searched and decoded once for as
long as the table stays as it is. As soon as that has cost more than to decode all rows, all are, unless they are very
many. A null in a key matches nothing. Must not write anything, or know which step asks.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from holdfast.planning.join_columns import JoinColumn
from holdfast.planning.sql.plain.expressions import Plain
from holdfast.suggest import did_you_mean
from holdfast_runtime.functions import Row, Tables, UnknownTableError
from holdfast_runtime.state.sorted.layered_rows import LayeredTable
from holdfast_runtime.steps.plain.plain_sql import pick
from holdfast_runtime.steps.row_dicts import TimeUnusableError, fits_type, row_dicts, short
from holdfast_runtime.steps.tables.kept_table import KeptTable, TableShape
from holdfast_runtime.steps.tables.lookup import LookupPlan, LookupStep
from holdfast_runtime.steps.timed_rows import TimedRows, find_column

_MOST_ROWS = 100_000
"""Rows of a table that are decoded at most: each takes some hundred bytes."""
_SEARCH = 400
"""How many rows are decoded in the time of one search."""
_HASHED_ALIKE = (
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_date,
    pa.types.is_decimal,
)
"""Types of key columns whose values are equal in Python if, and only if, they are in a table."""


@dataclass(frozen=True, slots=True)
class FunctionTablePlan:
    """The columns of a table that a function sees, and what computes them."""

    lookup: LookupPlan
    """Over rows that are keys."""
    computed: tuple[Plain, ...]
    """The columns that come out, over those that are found; empty if they are the same."""
    schema: pa.Schema
    """The columns that come out."""

    @staticmethod
    def by_keys(name: str, shape: TableShape, columns: tuple[JoinColumn, ...]) -> LookupPlan:
        """Return the look-up of these columns by keys alone."""
        keys = pa.schema([shape.kept.field(index) for index in range(len(shape.key))])
        return LookupPlan(shape.key, False, columns, keys, shape, name, shared=True)  # noqa: FBT003 - not inner


class LocationTable(LayeredTable, Protocol):
    """A table of a location as one process sees it."""

    @property
    def manifest(self) -> object:
        """What it holds: the same object as long as nothing of it changes."""


class LocationTables(Protocol):
    """The tables of a location."""

    def table(self, name: str) -> LocationTable:
        """Return a table by name."""


class FunctionTable:
    """One table, for all steps of a process."""

    def __init__(self, plan: FunctionTablePlan, tables: LocationTables) -> None:
        self._plan, self._tables, self._lookup = plan, tables, LookupStep(plan.lookup)
        self.name, self._key = plan.lookup.kept_as, plan.lookup.input_schema
        self._key_names = [plan.schema.field(find_column(plan.schema, name)).name for name in self._key.names]
        self._table = tables.table(self.name)
        self._hashed_alike = all(any(is_type(kind) for is_type in _HASHED_ALIKE) for kind in self._key.types)
        # A function may change what it is given.
        self._copied: Callable[[Row], Row] = deepcopy if any(map(pa.types.is_nested, plan.schema.types)) else dict
        self._right_types = set[object]()
        """Types of keys, or of their parts, that were checked."""
        self._manifest: object = None
        self._rows: dict[Any, Row | None] = {}
        self._searched, self._whole, self._decodable = 0, False, True

    def get(self, key: Any) -> Row | None:
        """Return the row of a key, None if there is none."""
        manifest = self._table.manifest
        if manifest is not self._manifest:
            self._manifest, self._rows = manifest, {}
            self._searched, self._whole, self._decodable = 0, False, self._hashed_alike
        if (type(key) if len(self._key) == 1 else _types(key)) not in self._right_types:
            self._check(key)
        try:
            row = self._rows[key]
        except KeyError:
            row = None if self._whole else self._sought(key)
        return None if row is None else self._copied(row)

    def lookup(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.RecordBatch:
        """Return a row for each key, all null where there is none. `columns`: of the key, in its order."""
        looked_up_by = f"table {self.name} is looked up by {_listed(self._key)}"
        if len(columns) != len(self._key):
            message = f"{looked_up_by}: give a column for each of them, in this order, not {len(columns)}"
            raise TypeError(message)
        arrays = []
        for column, field in zip(columns, self._key, strict=True):
            array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            if not isinstance(array, pa.Array) or array.type != field.type:
                kind = f"of type {array.type}" if isinstance(array, pa.Array) else f"a {type(array).__name__}"
                message = (
                    f"{looked_up_by}, and what is given for {field.name} is {kind}: cast it to an array of {field.type}"
                )
                raise TypeError(message)
            arrays.append(array)
        return self._found(pa.RecordBatch.from_arrays(arrays, schema=self._key))

    def _found(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._lookup.run(TimedRows(keys, pa.nulls(keys.num_rows, pa.int64())), self._tables).rows
        return (pick(rows, self._plan.computed, self._plan.schema) if self._plan.computed else rows).rows

    def _sought(self, key: Any) -> Row | None:
        """Return the row of a key that nobody has asked for since the table has changed."""
        self._searched += 1
        if self._decodable and self._decode_all():
            return self._rows.get(key)
        parts = (key,) if len(self._key) == 1 else key
        try:
            columns = [pa.array([part], field.type) for part, field in zip(parts, self._key, strict=True)]
        except (pa.ArrowException, ValueError, OverflowError):
            return None  # too large for the column, so that no row has it
        row = next(iter(self._dicts(pa.RecordBatch.from_arrays(columns, schema=self._key)).values()), None)
        if len(self._rows) >= _MOST_ROWS:
            self._rows = {}
        self._rows[key] = row
        return row

    def _decode_all(self) -> bool:
        """Decode all rows, if that is worth it; return whether they are."""
        kept_table = KeptTable(self._table, self._plan.lookup.table)
        rows = kept_table.size()
        self._decodable = rows <= _MOST_ROWS
        if not self._decodable or self._searched * _SEARCH < rows:
            return False
        try:
            self._rows = {key: row for keys in kept_table.all_keys() for key, row in self._dicts(keys).items()}
        except TimeUnusableError:  # which is the trouble of who asks for that row
            self._decodable = False
        self._whole = self._decodable
        return self._whole

    def _dicts(self, keys: pa.RecordBatch) -> dict[Any, Row]:
        """Return the rows of these keys that there are, by their keys."""
        found_rows = self._found(keys)
        in_table = found_rows.column(self._key_names[0]).is_valid()
        dicts = row_dicts(found_rows.filter(in_table), f"table {self.name}: ")
        if len(self._key_names) == 1:
            return {row[self._key_names[0]]: row for row in dicts}
        return {tuple(row[name] for name in self._key_names): row for row in dicts}

    def _check(self, key: Any) -> None:
        """Raise if a key has not the types of the key's columns; a null matches nothing, whatever it should be."""
        parts = (key,) if len(self._key) == 1 else key
        fits = isinstance(parts, tuple) and len(parts) == len(self._key)
        if not fits or not all(fits_type(part, field.type) for part, field in zip(parts, self._key, strict=True)):
            message = f"table {self.name} is looked up by {_listed(self._key)}, and {short(key)} is no such value"
            raise TypeError(message)
        self._right_types.add(type(key) if len(self._key) == 1 else _types(key))


class FunctionTables(Tables):
    """The tables that a step names."""

    def __init__(self, step: str, tables: Mapping[str, FunctionTable]) -> None:
        self._step, self._by_name = step, dict(tables)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    def get(self, table: str, key: Any) -> Row | None:
        named = self._by_name.get(table)
        return (self._named(table) if named is None else named).get(key)

    def lookup(self, table: str, *keys: pa.Array | pa.ChunkedArray) -> pa.RecordBatch:
        return self._named(table).lookup(keys)

    def _named(self, name: str) -> FunctionTable:
        if name not in self._by_name:
            message = f"step {self._step} has no table {name}{did_you_mean(name, self._by_name)}: name it in its tables"
            raise UnknownTableError(message)
        return self._by_name[name]


def _types(key: Any) -> object:
    return tuple(map(type, key)) if type(key) is tuple else type(key)


def _listed(schema: pa.Schema) -> str:
    listed = ", ".join(f"{field.name} ({field.type})" for field in schema)
    return listed if len(schema) == 1 else f"a tuple of {listed}"
