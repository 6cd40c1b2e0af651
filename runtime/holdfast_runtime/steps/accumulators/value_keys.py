"""Values of any type but maps as key columns, so that equal ones meet: structs by fields, arrays by their elements.

Key columns of streams are flat; values that are counted or collected need not be. Keys must not be stored: that of an
array depends on how its elements were numbered.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from holdfast_runtime.columns.grouping import group_rows
from holdfast_runtime.columns.key_columns import BytesColumn, KeyColumns, WordColumn, Words

_WORD = 8
ElementWords = Callable[[KeyColumns], Words]
"""Gives each element of an array a word."""


def element_numbers(keys: KeyColumns) -> Words:
    """Return the same word for the same element and for no other; holds within one call."""
    grouped = group_rows(keys, keys.hashes())
    numbers = np.empty(keys.rows, np.uint64)
    numbers[grouped.order] = grouped.groups
    return numbers


def element_hashes(keys: KeyColumns) -> Words:
    """Return the hashes of elements: the same in each call, but two elements may share one."""
    return keys.hashes()


def value_keys(columns: Sequence[pa.Array], rows: int, words: ElementWords) -> KeyColumns:
    """Return the keys of rows of values."""
    return KeyColumns(rows, tuple(part for column in columns for part in _parts(column, words)))


def _parts(column: pa.Array, words: ElementWords) -> tuple[WordColumn | BytesColumn, ...]:
    kind = column.type
    valid = np.asarray(column.is_valid())
    if pt.is_struct(kind):
        fields = (part for field in column.flatten() for part in _parts(field, words))
        return (WordColumn(valid.astype(np.uint64), None), *fields)
    if pt.is_list(kind):
        bounds = np.asarray(column.offsets).astype(np.int64)
        elements = column.values[int(bounds[0]) : int(bounds[-1])]
        content = words(value_keys([elements], len(elements), words)).view(np.uint8)
        return (BytesColumn((bounds - bounds[0]) * _WORD, content, valid),)
    if pt.is_null(kind):
        return (WordColumn(np.zeros(len(column), np.uint64), valid),)
    if pt.is_time(kind) or pt.is_duration(kind):
        column = column.view(pa.int64())
    return KeyColumns.of([column], len(column)).columns
