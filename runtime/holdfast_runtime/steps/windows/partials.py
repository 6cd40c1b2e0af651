"""What an `aggregate` step keeps of the rows of a key: the key, and the accumulators of each call, as columns.

    rows -> `gather`: one partial per key -> `merge`: partials of one key become one -> `finish`: results

Partials of one key may be many, from batches and panes; their order is that in which the rows came. A key has the form
in which Spark gives it back: 0.0 for -0.0. Must not know windows, times or stores.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import UserActionError
from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.columns.grouping import group_rows
from holdfast_runtime.columns.hashed_rows import HashedRows
from holdfast_runtime.columns.key_columns import KeyColumns, Mask
from holdfast_runtime.state.sorted.schema import made_by
from holdfast_runtime.steps.accumulators.accumulator import Accumulator, AggregateResult, RowGroups, TooManyValuesError
from holdfast_runtime.steps.accumulators.functions import accumulator_for, kept_columns

_Column = TypeVar("_Column", pa.Array, pa.Field)


@dataclass(frozen=True, slots=True)
class FinishedGroups:
    """The keys of groups and their results."""

    keys: list[pa.Array]
    results: list[AggregateResult]


class Partials:
    """The partials of one step."""

    def __init__(self, step: str, by: Sequence[str], schema: pa.Schema, calls: Sequence[AggregateCall]) -> None:
        self._step, self.by, self._calls = step, list(by), list(calls)
        self._accumulators = [
            accumulator_for(call, [schema.field(column).type for column in call.arguments]) for call in calls
        ]
        self._places = _places(len(by), calls, self._accumulators)
        """Of each call, where the columns are that it keeps."""
        fields = [pa.field(column, schema.field(column).type) for column in by]
        for number, (places, accumulator) in enumerate(zip(self._places, self._accumulators, strict=True)):
            call_fields = [pa.field(f"#{number}.{part}", kind) for part, kind in enumerate(accumulator.kept)]
            fields += _its_own(call_fields, places, len(fields))
        self.schema = pa.schema(fields)
        self.results = [accumulator.result for accumulator in self._accumulators]

    def made_by(self, schema: pa.Schema, calls: Sequence[str]) -> pa.Schema:
        """Return a schema that begins with that of partials, in which columns say by which of these calls they are."""
        fields = [*schema]
        # Backwards, so that a column of several calls is the first one's.
        for places, text in reversed([*zip(self._places, calls, strict=False)]):
            for place in places:
                fields[place] = made_by(fields[place], text)
        return pa.schema(fields)

    def keys(self, rows: pa.RecordBatch) -> KeyColumns:
        """Return the keys of rows or of partials."""
        return KeyColumns.of([rows.column(column) for column in self.by], rows.num_rows)

    def gather(self, rows: pa.RecordBatch) -> HashedRows:
        """Return a partial for each key of these rows."""
        return self._by_key(rows, self.gathered)

    def gather_sent(self, partials: pa.RecordBatch) -> HashedRows:
        """Return a partial for each key of these partials, which are in any order."""
        return self._by_key(partials.select(self.schema.names), self.merged)

    def _by_key(
        self, rows: pa.RecordBatch, make_partials: Callable[[pa.RecordBatch, RowGroups], pa.RecordBatch]
    ) -> HashedRows:
        keys = self.keys(rows)
        grouped = group_rows(keys, keys.hashes())
        groups = RowGroups(grouped.order, grouped.starts)
        return HashedRows(grouped.hashes[groups.starts], make_partials(rows, groups))

    def gathered(self, rows: pa.RecordBatch, groups: RowGroups) -> pa.RecordBatch:
        """Return a partial for each group; rows of a group are of one key."""
        firsts = pa.array(groups.order[groups.starts])

        def gather(number: int) -> list[pa.Array]:
            call = self._calls[number]
            counted = None if call.condition is None else _true(rows.column(call.condition))
            return self._accumulators[number].gather([rows.column(name) for name in call.arguments], counted, groups)

        return self._joined([_plain_zeros(rows.column(column).take(firsts)) for column in self.by], gather)

    def merge(self, partials: HashedRows) -> HashedRows:
        """Return one partial for each key."""
        grouped = group_rows(self.keys(partials.rows), partials.hashes)
        starts = grouped.starts
        if len(starts) == len(grouped.order):
            return partials
        return HashedRows(grouped.hashes[starts], self.merged(partials.rows, RowGroups(grouped.order, starts)))

    def merged(self, partials: pa.RecordBatch, groups: RowGroups) -> pa.RecordBatch:
        """Return one partial for each group; partials of a group are of one key."""
        firsts = pa.array(groups.order[groups.starts])

        def merge(number: int) -> list[pa.Array]:
            return self._accumulators[number].merge(self._columns_of(number, partials), groups)

        return self._joined([partials.column(column).take(firsts) for column in self.by], merge)

    def finish(self, partials: pa.RecordBatch) -> FinishedGroups:
        """Return the results of each partial."""
        results = [
            accumulator.finish(self._columns_of(number, partials))
            for number, accumulator in enumerate(self._accumulators)
        ]
        return FinishedGroups(partials.columns[: len(self.by)], results)

    def rows_of(self, partials: pa.RecordBatch) -> int:
        """Return of how many rows these partials are, where the last call counts them."""
        (place,) = self._places[-1]
        return pc.sum(partials.column(self.schema.names[place])).as_py() or 0

    def call_text(self, number: int) -> str:
        """Return a call as users know it, for an error."""
        return call_text(self._calls[number])

    def key_text(self, keys: Sequence[pa.Array], group: int) -> str:
        """Return a key as users know it, for an error."""
        return ", ".join(f"{name} {column[group].as_py()!r}" for name, column in zip(self.by, keys, strict=False))

    def _columns_of(self, number: int, partials: pa.RecordBatch) -> list[pa.Array]:
        """Return what a call keeps of these partials."""
        return [partials.column(place) for place in self._places[number]]

    def _joined(self, keys: Sequence[pa.Array], make: Callable[[int], list[pa.Array]]) -> pa.RecordBatch:
        """Return partials of these keys, with the columns that `make` returns for a call, each column once."""
        columns = [*keys]
        for number, places in enumerate(self._places):
            if max(places) < len(columns):
                continue  # earlier calls keep all of it
            try:
                columns += _its_own(make(number), places, len(columns))
            except TooManyValuesError as error:
                raise self._too_many(self._calls[number], error, columns) from error
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _too_many(self, call: AggregateCall, error: TooManyValuesError, keys: Sequence[pa.Array]) -> UserActionError:
        key = self.key_text(keys, error.group)
        message = (
            f"step {self._step}: {call_text(call)} has more than {error.most} values for {key}, which is what it keeps "
            "at most; filter the rows before, add a column to by, or count with approx_count_distinct"
        )
        return UserActionError(message, code="TooManyValuesError")


def _places(first: int, calls: Sequence[AggregateCall], accumulators: Sequence[Accumulator]) -> list[list[int]]:
    """Return where each call has its columns, from this place on; what several keep is where the first has it."""
    places = dict[Hashable, int]()
    return [
        [places.setdefault(column, first + len(places)) for column in kept_columns(call, len(accumulator.kept))]
        for call, accumulator in zip(calls, accumulators, strict=True)
    ]


def _its_own(columns: Sequence[_Column], places: Sequence[int], before: int) -> list[_Column]:
    """Return those of a call's columns that are not among the first `before`, which are of other calls."""
    return [column for column, place in zip(columns, places, strict=True) if place >= before]


def _true(column: pa.Array) -> Mask:
    return np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)  # noqa: FBT003 - Arrow's own


def _plain_zeros(column: pa.Array) -> pa.Array:
    if not pa.types.is_floating(column.type):
        return column
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    values = column.fill_null(0.0).to_numpy() + column.type.to_pandas_dtype()(0.0)  # -0.0 becomes 0.0
    return pa.array(values, column.type, mask=~valid)


def call_text(call: AggregateCall) -> str:
    """Return a call as users know it."""
    distinct = "DISTINCT " if call.distinct else ""
    return f"{call.function}({distinct}{', '.join(call.arguments) or '*'})"
