"""Columns as plain values, as the careful writers of records take them. Must not be used for batches that are fast."""

from decimal import Context
from typing import Any

import pyarrow as pa

from holdfast_runtime.streams.codecs.arrow_types import compact

_ALL_DIGITS = Context(prec=100)


def bare(column: pa.Array) -> list[Any]:  # noqa: PLR0911 - one per family of types
    """Return values as the writer takes them: times, decimals in their last digit and lengths as whole numbers.

    Texts are bytes, rows inside of rows are tuples, maps are lists of pairs.
    """
    kind = column.type
    if pa.types.is_map(kind):
        column = compact(column)
        pairs = list(zip(bare(column.keys), bare(column.items), strict=True))
        return _lists(column, pairs)
    if pa.types.is_list(kind):
        return _lists(column, bare(column.values))
    if pa.types.is_struct(kind):
        parts = [bare(column.field(index)) for index in range(kind.num_fields)]
        rows = list(zip(*parts, strict=True)) if parts else [()] * len(column)
        return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)]
    if pa.types.is_decimal(kind):
        numbers = column.to_pylist()
        return [None if number is None else int(number.scaleb(kind.scale, _ALL_DIGITS)) for number in numbers]
    if pa.types.is_string(kind):
        return column.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_temporal(kind):
        return column.view(pa.int32() if pa.types.is_date(kind) else pa.int64()).to_pylist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]


def _lists(column: pa.Array, items: list[Any]) -> list[Any]:
    ends = column.offsets.to_pylist()
    return [
        items[ends[row] : ends[row + 1]] if valid else None for row, valid in enumerate(column.is_valid().to_pylist())
    ]
