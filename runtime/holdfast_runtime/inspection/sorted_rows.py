"""Rows of tables that are kept in layers, as JSON and as columns of an export.

The table itself says which columns it has, so that also what another version of the app has kept can be seen. Must not
open stores.
"""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.times import Micros
from holdfast_runtime.inspection.table_rows import StepKeys, plain, row_time
from holdfast_runtime.state.sorted.layered_rows import LayeredTable
from holdfast_runtime.state.sorted.view import MOMENT, LayeredView
from holdfast_runtime.streams.codecs.codec import listed

_BUCKET = "bucket"


class LayeredTableRows:
    """The rows of one table."""

    def __init__(self, table: str, view: LayeredView) -> None:
        self._table, self._view = table, view
        self._keys = StepKeys(view.key)
        bucket = [pa.field(_BUCKET, MOMENT)] if view.timed else []
        ours = {"task", _BUCKET, *view.own.names}
        named = [field.with_name(f"key_{field.name}") if field.name in ours else field for field in view.key]
        self.columns = pa.schema([*named, *bucket, *view.own])
        """The columns of an export, after `task`."""

    @classmethod
    def of(cls, table: LayeredTable) -> "LayeredTableRows | None":
        """Return the rows of a table; None if it holds no layers."""
        view = LayeredView.of(table)
        return None if view is None else cls(table.name, view)

    def shown(self, key: str | None) -> Iterator[dict[str, Any]]:
        """Yield rows as JSON values, all or those of a key as a user writes it."""
        single_key = None if key is None else key_row(self._table, self._keys, key)
        count = len(self._view.key)
        for start, rows in self._view.rows(single_key):
            keys = zip(*(column.to_pylist() for column in rows.columns[:count]), strict=True)
            names = self._view.own.names
            own_values = [
                _values(column, moments=name in self._view.moments)
                for name, column in zip(names, rows.columns[count:], strict=True)
            ]
            bucket = {_BUCKET: _moment(start)} if self._view.timed else {}
            for values, *more in zip(keys, *own_values, strict=True):
                yield ({"key": self._keys.shown_values(values)} | bucket | dict(zip(names, more, strict=True)))

    def exported(self) -> Iterator[pa.RecordBatch]:
        """Yield rows with the columns of an export."""
        count = len(self._view.key)
        for start, rows in self._view.rows():
            bucket = [pa.repeat(pa.scalar(start, MOMENT), rows.num_rows)] if self._view.timed else []
            arrays = [*rows.columns[:count], *bucket, *rows.columns[count:]]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.columns)


def key_row(table: str, keys: StepKeys, text: str) -> pa.RecordBatch:
    """Return a key as a user writes it as a row; raise `UsageError` if it is none of these keys."""
    refusal = f"{text} is no key of table {table}, whose keys are ({listed(keys.schema)})"
    if len(keys.schema) > 1 and not _is_list(text, len(keys.schema)):
        message = f"{refusal}: write a JSON list with a value for each, in this order"
        raise UserActionError(message, code="UsageError")
    try:
        values = keys.values(keys.looked_up(text))
        columns = [pa.array([value], field.type) for value, field in zip(values, keys.schema, strict=True)]
    except (pa.ArrowException, ValueError, TypeError, ArithmeticError) as error:
        message = f"{refusal}: {error}"
        raise UserActionError(message, code="UsageError") from error
    return pa.RecordBatch.from_arrays(columns, schema=keys.schema)


def _is_list(text: str, length: int) -> bool:
    try:
        values = json.loads(text)
    except ValueError:
        return False
    return isinstance(values, list) and len(values) == length


def _values(column: pa.Array, *, moments: bool) -> list[Any]:
    """Return the values of a column; the step's own moments as numbers first: some are outside of Python's calendar."""
    if moments:
        return [_moment(value) for value in column.cast(pa.int64()).to_pylist()]
    return [plain(value) for value in column.to_pylist()]


def _moment(time: Micros | None) -> str | int | None:
    return None if time is None else row_time(time)
