"""Record keys: their bytes from columns, and the partition of each key, exactly as Kafka's clients place them.

A key must be the same wherever it is made, otherwise rows that belong together never meet. A single text is its UTF-8,
a single binary is itself, as other producers write them. Anything else is compact JSON, several columns a JSON list;
the key of one null column is null. As in Spark, 0.0 and -0.0 are one key, and so are all NaN. Works on whole batches:
murmur2 takes all keys together, one word of four bytes at a time, the longest first, so that keys with words left are
always at the head of the arrays. Must not reorder records of one key: joins and state rely on their order.
"""

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.spec.streams import Partitioner

Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]


def key_bytes(rows: pa.RecordBatch, columns: Sequence[str] | None) -> pa.Array:
    """Return the key of each row; without columns, no row has one."""
    if not columns:
        return pa.nulls(rows.num_rows, pa.binary())
    if len(columns) == 1:
        return _single(column_at(rows, columns[0]))
    texts = [pc.fill_null(_json(column_at(rows, name)), "null") for name in columns]
    inner = pc.binary_join_element_wise(*texts, ",")
    return pc.binary_join_element_wise("[", inner, "]", "").cast(pa.binary())


def column_at(rows: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column, or the field inside one to which a name with dots leads; names as Spark resolves them."""
    if name in rows.schema.names:
        return rows.column(name)
    first, *inside = key_path(name, rows.schema.names)
    column = rows.column(_spelled(first, rows.schema.names))
    for part in inside:
        column = pc.struct_field(column, _spelled(part, [inner.name for inner in column.type]))
    return column


def key_path(name: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Return a part of a key as the names that lead to it: a column, and fields inside it."""
    return (name,) if name.casefold() in map(str.casefold, columns) else tuple(name.split("."))


def _spelled(name: str, names: Sequence[str]) -> str:
    """Return the name among these that is meant, where not even its case need be the same."""
    return name if name in names else next(known for known in names if known.casefold() == name.casefold())


def _single(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _single(column.dictionary_decode())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_bytes(kind):
        return column.cast(pa.binary())
    return _json(column).cast(pa.binary())


def _json(column: pa.Array) -> pa.Array:  # noqa: PLR0911 - one per family of types
    """Return each value as compact JSON, what Python's `json` would write; nulls stay null."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _json(column.dictionary_decode())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.string())
    if pa.types.is_string(kind):
        escaped = pc.match_substring_regex(column, r'[\x00-\x1f"\\]')
        return _one_by_one(column, _quoted(column), escaped.fill_null(False))  # noqa: FBT003 - Arrow's own
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        moments = column.view(pa.timestamp("us")).cast(pa.string())
        iso = pc.replace_substring(moments, pattern=" ", replacement="T", max_replacements=1)
        return _quoted(iso, "Z" if kind.tz else "")
    if pa.types.is_date32(kind) or pa.types.is_decimal128(kind):
        return _quoted(column.cast(pa.string()))
    if pa.types.is_floating(kind):
        return _floating(column)
    return _one_by_one(column, pa.nulls(len(column), pa.string()), column.is_valid())


def _quoted(texts: pa.Array, more: str = "") -> pa.Array:
    return pc.binary_join_element_wise('"', texts, f'{more}"', "")


_WHOLE, _PLAIN_FROM, _PLAIN_TO = 1e16, 1e-4, 1e10


def _floating(column: pa.Array) -> pa.Array:
    """Return what Python's `repr` gives. Zero has one text, though it has two signs, or equal keys would not meet."""
    numbers = pc.add(column.cast(pa.float64()), 0.0)
    values = numbers.fill_null(0.0).to_numpy()
    whole = (np.abs(values) < _WHOLE) & (np.floor(values) == values)
    # Arrow begins with exponents elsewhere than Python, and writes some without fraction, by its version.
    plain = (np.abs(values) >= _PLAIN_FROM) & (np.abs(values) < _PLAIN_TO)
    nulls = numbers.is_null().to_numpy(zero_copy_only=False)
    digits = pa.array(np.where(whole, values, 0.0).astype(np.int64), mask=nulls)
    texts = pc.binary_join_element_wise(digits.cast(pa.string()), ".0", "")
    if not whole.all():
        texts = pc.if_else(pa.array(whole), texts, numbers.cast(pa.string()))
    return _one_by_one(numbers, texts, pa.array(~(whole | plain)))


def _one_by_one(column: pa.Array, texts: pa.Array, odd: pa.Array) -> pa.Array:
    """Return these texts, but for odd values the JSON that Python writes."""
    if not pc.any(odd).as_py():
        return texts
    written = [_text(value) for value in column.filter(odd).to_pylist()]
    return pc.replace_with_mask(texts, odd, pa.array(written, pa.string()))


def _text(value: Any) -> str:
    return json.dumps(one_zero(value), separators=(",", ":"), ensure_ascii=False, default=_plain)


def holds_floats(kind: pa.DataType) -> bool:
    """Whether a type is, or contains, floating-point numbers."""
    return bool(pa.types.is_floating(kind)) or any(holds_floats(kind.field(i).type) for i in range(kind.num_fields))


def one_zero(value: Any) -> Any:
    """Return the value with all zeros positive, also inside."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, dict):
        return {name: one_zero(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(one_zero(member) for member in value)
    return value


def _plain(value: object) -> Any:
    if isinstance(value, datetime):
        aware = value.astimezone(UTC) if value.tzinfo else value
        return aware.replace(tzinfo=None).isoformat(timespec="microseconds") + ("Z" if value.tzinfo else "")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    message = f"a key can't be a {type(value).__name__}; choose columns of texts, numbers, dates or times"
    raise TypeError(message)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


_SIGN_OFF = np.uint32(0x7FFFFFFF)


def place(keys: pa.Array, count: int, partitioner: Partitioner = "murmur2", *, position: int | None = 0) -> Numbers:
    """Return the partition of each key among `count`.

    Null keys go round in turn, starting from `position`; None: all of them go to the first partition.
    With the partitioner `none` it is unknown how others placed their keys; Holdfast uses murmur2.
    """
    hashes = crc32(keys) if partitioner == "crc32" else murmur2(keys) & _SIGN_OFF
    partitions = (hashes % np.uint32(count)).astype(np.int64)
    if keys.null_count:
        turns = 0 if position is None else (position + np.arange(len(keys), dtype=np.int64)) % count
        partitions = np.where(keys.is_null().to_numpy(zero_copy_only=False), turns, partitions)
    return partitions


def misplaced(keys: pa.Array, partition: int, count: int, partitioner: Partitioner) -> int:
    """Return how many keys in a partition belong to another one."""
    return len(misplaced_keys(keys, partition, count, partitioner))


def misplaced_keys(keys: pa.Array, partition: int, count: int, partitioner: Partitioner) -> pa.Array:
    """Return the keys in a partition that belong to another one. A null key may be in any."""
    present_keys = keys.drop_null()
    if partitioner == "crc32":
        # librdkafka's default partitioner treats an empty key as no key.
        present_keys = present_keys.filter(pc.greater(pc.binary_length(present_keys), 0))
    return present_keys.filter(pa.array(place(present_keys, count, partitioner) != partition))


PartitionCounts = Sequence[tuple[int, int]]
"""Partitions, and how many records each has."""


def ordered(records: pa.RecordBatch, partitions: Numbers) -> tuple[pa.RecordBatch, PartitionCounts]:
    """Return the records by partition, each one's in their order; `partitions`: that of each record."""
    if (partitions == partitions[:1]).all():
        return records, [(partition, len(partitions)) for partition in partitions[:1].tolist()]
    distinct, counts = np.unique(partitions, return_counts=True)
    records = records.take(pa.array(np.argsort(partitions, kind="stable")))
    return records, list(zip(distinct.tolist(), counts.tolist(), strict=True))


def slices(records: pa.RecordBatch, counts: PartitionCounts) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each partition with its part of ordered records."""
    start = 0
    for partition, count in counts:
        yield partition, records.slice(start, count)
        start += count


def split(records: pa.RecordBatch, partitions: Numbers) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each partition with its records, in order; `partitions`: that of each record."""
    return slices(*ordered(records, partitions))


_WORD = 4
_FEW = 8
"""Of so few keys, or so few that are longer than the others, hashing one by one is faster."""
_FULL = 0xFFFFFFFF
_SEED, _FACTOR = 0x9747B28C, 0x5BD1E995


def crc32(keys: pa.Array) -> Words:
    """Return the CRC-32 of each key; a null counts as an empty key."""
    # zlib takes 0.1 us per key, as fast as tables in numpy could be.
    return np.fromiter((zlib.crc32(key or b"") for key in keys.to_pylist()), np.uint32, len(keys))


def murmur2(keys: pa.Array) -> Words:
    """Return Kafka's murmur2 of each key, as unsigned numbers; a null counts as an empty key."""
    if keys.type != pa.binary():
        keys = keys.cast(pa.binary())
    if len(keys) <= _FEW:
        return np.fromiter((_murmur2(key or b"") for key in keys.to_pylist()), np.uint32, len(keys))
    starts, lengths, data = _bytes_of(keys)
    words = lengths // _WORD
    order = None if words.min() == words.max() else np.argsort(-words, kind="stable")
    if order is not None:
        starts, lengths, words = starts[order], lengths[order], words[order]
    state = _eaten(np.uint32(_SEED) ^ lengths.astype(np.uint32), starts, words, data)
    left = lengths % _WORD
    tail = _words_at(data)[starts + words * _WORD] & ((np.uint32(1) << (8 * left).astype(np.uint32)) - np.uint32(1))
    state = np.where(left > 0, (state ^ tail) * np.uint32(_FACTOR), state)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(_FACTOR)
    state ^= state >> np.uint32(15)
    if order is None:
        return state
    as_given = np.empty_like(state)
    as_given[order] = state
    return as_given


def _eaten(state: Words, starts: Numbers, words: Numbers, data: Bytes) -> Words:
    """Return the states after all whole words; the longest keys come first."""
    view, ends = _words_at(data), -words
    for i in range(int(words[0])):
        active = int(np.searchsorted(ends, -i, side="left"))
        if active <= _FEW:
            for k in range(active):
                rest = data[starts[k] + i * _WORD : starts[k] + words[k] * _WORD]
                state[k] = _alone(int(state[k]), rest)
            break
        word = view[starts[:active] + i * _WORD] * np.uint32(_FACTOR)
        word ^= word >> np.uint32(24)
        word *= np.uint32(_FACTOR)
        state[:active] *= np.uint32(_FACTOR)
        state[:active] ^= word
    return state


def _murmur2(key: bytes) -> int:
    whole = len(key) // _WORD * _WORD
    state = _alone(_SEED ^ len(key), np.frombuffer(key, np.uint8, whole))
    if tail := key[whole:]:
        state = (state ^ int.from_bytes(tail, "little")) * _FACTOR & _FULL
    state = (state ^ state >> 13) * _FACTOR & _FULL
    return state ^ state >> 15


def _alone(state: int, data: Bytes) -> int:
    for word in data.view("<u4").tolist():
        mixed = word * _FACTOR & _FULL
        state = (state * _FACTOR & _FULL) ^ ((mixed ^ mixed >> 24) * _FACTOR & _FULL)
    return state


def _words_at(data: Bytes) -> Words:
    """Return the word that starts at each byte, aligned or not."""
    return np.ndarray((len(data) - _WORD + 1,), "<u4", data.data, 0, (1,))


def _bytes_of(keys: pa.Array) -> tuple[Numbers, Numbers, Bytes]:
    """Return where each key starts, its length, and the bytes, padded with one more word."""
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(keys) + 1, keys.offset * 4).astype(np.int64)
    lengths = np.diff(bounds)
    if keys.null_count:
        lengths[keys.is_null().to_numpy(zero_copy_only=False)] = 0
    padded = np.zeros(bounds[-1] - bounds[0] + _WORD, np.uint8)
    if data is not None:
        padded[: bounds[-1] - bounds[0]] = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    return bounds[:-1] - bounds[0], lengths, padded
