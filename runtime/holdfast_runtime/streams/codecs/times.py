"""The years that a time may lie in, 1 to 9999, and which column holds a time outside of them.

Spark SQL, ISO 8601 and Python's `datetime` end there; Arrow goes on for 292 000 years, which is where microseconds
taken for milliseconds come to lie. Looked for wherever rows come in (records, generators, functions), inside of
structs, lists and maps too, since whoever meets such a time later stops on it. Must not say what becomes of the row.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FIRST_MICROS, LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
FIRST_DAY, LAST_DAY = -719_162, 2_932_896


def outside_years(column: pa.Array, path: str) -> str | None:
    """The path of the first time outside of the years 1 to 9999 in this column; None: there is none."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return None if _between(column.cast(pa.timestamp("us", kind.tz)), FIRST_MICROS, LAST_MICROS) else path
    if pa.types.is_date(kind):
        return None if _between(column, FIRST_DAY, LAST_DAY) else path
    if not has_times(kind):
        return None
    found = (outside_years(part, f"{path}{where}") for where, part in parts(column))
    return next((one for one in found if one is not None), None)


def has_times(kind: pa.DataType) -> bool:
    """Whether a type is, or holds, timestamps or dates."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return True
    return any(has_times(kind.field(at).type) for at in range(kind.num_fields))


def parts(column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """What a nested column is made of, and how its path goes on; without what stands behind nulls."""
    kind = column.type
    if pa.types.is_map(kind):
        entries = compact(column).cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        yield from zip((" key", " value"), entries.flatten().flatten(), strict=True)
    elif pa.types.is_struct(kind):
        yield from zip((f".{field.name}" for field in kind), compact(column).flatten(), strict=True)
    elif pa.types.is_list(kind):
        yield "[]", compact(column).flatten()


def compact(array: pa.Array) -> pa.Array:
    """The same values in memory of their own: pyarrow's `flatten` and `cast` can abort on slices of nested arrays."""
    return array.take(pa.array(np.arange(len(array))))


def _between(times: pa.Array, first: int, last: int) -> bool:
    ends = pc.min_max(times.view(pa.int32() if pa.types.is_date(times.type) else pa.int64()))
    return not ends["min"].is_valid or (ends["min"].as_py() >= first and ends["max"].as_py() <= last)
