"""Why: a timer knows only the bytes of its key, and the function wants the values its rows had in these columns.

The way back from `streams.keys`, for every type a key may have. Must not be used where rows are at hand.
"""

import base64
import json
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

_Read = Callable[[Any], Any]


class KeyReader:
    """Reads keys made of some columns."""

    def __init__(self, schema: pa.Schema, by: Sequence[str]) -> None:
        kinds = [schema.field(name).type for name in by]
        self._alone = len(kinds) == 1
        self._reads = [_reader(kind) for kind in kinds]
        self._text = self._alone and _is_text(kinds[0])
        self._binary = self._alone and _is_binary(kinds[0])

    def values(self, key: bytes | None) -> tuple[Any, ...]:
        """One value per column."""
        if key is None:
            return (None,)
        if self._text:
            return (key.decode(),)
        if self._binary:
            return (key,)
        found = json.loads(key)
        return tuple(read(value) for read, value in zip(self._reads, [found] if self._alone else found, strict=True))


def _reader(kind: pa.DataType) -> _Read:  # noqa: PLR0911 - one per family of types
    """From JSON as `streams.keys` writes it."""
    if pa.types.is_dictionary(kind):
        return _reader(kind.value_type)
    if pa.types.is_timestamp(kind):
        return _or_none(datetime.fromisoformat)
    if pa.types.is_date(kind):
        return _or_none(date.fromisoformat)
    if pa.types.is_decimal(kind):
        return _or_none(Decimal)
    if _is_binary(kind):
        return _or_none(base64.b64decode)
    if pa.types.is_struct(kind):
        inner = {kind.field(i).name: _reader(kind.field(i).type) for i in range(kind.num_fields)}
        return _or_none(lambda value: {name: read(value[name]) for name, read in inner.items()})
    if pa.types.is_map(kind):
        of_key, of_item = _reader(kind.key_type), _reader(kind.item_type)
        return _or_none(lambda value: [(of_key(key), of_item(item)) for key, item in value])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        each = _reader(kind.value_type)
        return _or_none(lambda value: [each(one) for one in value])
    return lambda value: value


def _or_none(read: _Read) -> _Read:
    return lambda value: None if value is None else read(value)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or (pa.types.is_dictionary(kind) and _is_text(kind.value_type))
    )


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or (pa.types.is_dictionary(kind) and _is_binary(kind.value_type))
    )
