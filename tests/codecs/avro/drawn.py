"""Random Avro schemas, columns of their own or others that fit, records, and the values that must be read of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from holdfast.planning.types.ddl import parse_type
from holdfast.planning.types.spark_types import Column, RowType
from holdfast_runtime.streams.codecs.arrow_types import FIRST_MICROS, LAST_MICROS
from tests.codecs.schemas import TEXT

DAY_MICROS = 24 * 60 * 60 * 10**6


class Part(NamedTuple):
    """A type of Avro, a type of columns that takes its values, these, and what they are in such a column."""

    tree: Any
    column: str
    values: st.SearchStrategy[Any]
    bare: Callable[[Any], Any]
    """As `plain_writer.bare` has it."""
    least: int = 1
    """The fewest bytes."""


class Drawn(NamedTuple):
    """A schema, columns, records, and the rows that they are."""

    tree: Any
    columns: RowType
    records: list[dict[str, Any]]
    rows: list[tuple[Any, ...]]


def ints(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def same(value: Any) -> Any:
    return value


def text_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def single(value: int) -> float:
    """The nearest float of 32 bits, of an integer that Python's float holds."""
    return float(np.float32(value))


FLOATS = st.floats(width=32, allow_nan=False)
DOUBLES = st.floats(allow_nan=False)
BYTES = st.binary(max_size=9)
EXACT = [
    Part("null", "VOID", st.none(), same, 0),
    Part("boolean", "BOOLEAN", st.booleans(), same),
    Part("int", "INT", ints(32), same),
    Part("long", "BIGINT", ints(64), same),
    Part("float", "FLOAT", FLOATS, same, 4),
    Part("double", "DOUBLE", DOUBLES, same, 8),
    Part("bytes", "BINARY", BYTES, same),
    Part("string", "STRING", TEXT, text_bytes),
    Part({"type": "fixed", "name": "", "size": 3}, "BINARY", st.binary(min_size=3, max_size=3), same, 3),
    Part({"type": "enum", "name": "", "symbols": ["A", "BB", "C"]}, "STRING", st.sampled_from(["A", "C"]), text_bytes),
    Part({"type": "int", "logicalType": "date"}, "DATE", st.integers(-719_162, 2_932_896), same),
    Part({"type": "int", "logicalType": "time-millis"}, "TIME(3)", st.integers(0, DAY_MICROS // 1000 - 1),
         lambda v: v * 10**6),
    Part({"type": "long", "logicalType": "time-micros"}, "TIME(6)", st.integers(0, DAY_MICROS - 1), lambda v: v * 1000),
    *(
        Part({"type": "long", "logicalType": f"{local}timestamp-{unit}"}, column, st.integers(first, last), bare)
        for local, column in (("", "TIMESTAMP"), ("local-", "TIMESTAMP_NTZ"))
        for unit, first, last, bare in (
            ("millis", FIRST_MICROS // 1000, LAST_MICROS // 1000, lambda v: v * 1000),
            ("micros", FIRST_MICROS, LAST_MICROS, same),
        )
    ),
]  # fmt: skip
"""Each with the column that its schema has by itself."""
PROMOTED = [
    Part("int", "BIGINT", ints(32), same),
    Part("int", "SMALLINT", ints(16), same),
    Part("int", "TINYINT", ints(8), same),
    Part("int", "DOUBLE", ints(32), float),
    Part("int", "FLOAT", ints(32), single),
    Part("long", "DOUBLE", ints(64), float),
    Part("long", "FLOAT", ints(50), single),
    Part("float", "DOUBLE", FLOATS, same, 4),
    Part("string", "BINARY", TEXT, text_bytes),
    Part("string", "VARCHAR(3)", TEXT, text_bytes),
    Part("bytes", "STRING", TEXT.map(str.encode), text_bytes),
    Part({"type": "int", "logicalType": "date"}, "INT", ints(32), same),
    Part({"type": "long", "logicalType": "timestamp-millis"}, "BIGINT", ints(64), same),
    Part({"type": "long", "logicalType": "timestamp-nanos"}, "TIMESTAMP", ints(64), lambda v: v // 1000),
    Part("null", "STRING", st.none(), same, 0),
    Part(["int", "long"], "BIGINT", ints(64), same),
    Part(["null", "int", "double"], "DOUBLE", st.none() | ints(32) | DOUBLES,
         lambda v: None if v is None else float(v)),
    Part(["null", "string", {"type": "enum", "name": "", "symbols": ["A", "BB"]}], "STRING", st.none() | TEXT,
         lambda v: None if v is None else text_bytes(v)),
]  # fmt: skip
"""Each with another column that takes its values."""


@st.composite
def decimals(draw: st.DrawFn, *, exact: bool) -> Part:
    """Decimals in bytes and fixed, in columns that may have more digits on both sides of the point."""
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    more_whole = 0 if exact else draw(st.integers(0, 38 - precision))
    more = 0 if exact else draw(st.integers(0, 38 - precision - more_whole))
    size = (10**precision - 1).bit_length() // 8 + 1
    fixed = draw(st.booleans())
    tree = {"logicalType": "decimal", "precision": precision, "scale": scale}
    tree |= {"type": "fixed", "name": "", "size": size} if fixed else {"type": "bytes"}
    numbers = st.integers(-(10**precision) + 1, 10**precision - 1)

    def raw(number: int) -> bytes:
        return number.to_bytes(size if fixed else fewest(number), "big", signed=True)

    return Part(
        tree,
        f"DECIMAL({precision + more_whole + more},{scale + more})",
        numbers.map(raw),
        lambda content: int.from_bytes(content, "big", signed=True) * 10**more,
        size if fixed else 2,
    )


def fewest(number: int) -> int:
    return (number if number >= 0 else ~number).bit_length() // 8 + 1


def nullable(part: Part, *, null_first: bool) -> Part:
    if part.tree == "null" or isinstance(part.tree, list):
        return part
    tree = ["null", part.tree] if null_first else [part.tree, "null"]
    bare = part.bare
    return Part(tree, part.column, st.none() | part.values, lambda v: None if v is None else bare(v))


def list_of(part: Part) -> Part:
    """Of what has bytes: a record may not claim more items than it has."""
    part = part if part.least else EXACT[2]
    tree, values = {"type": "array", "items": part.tree}, st.lists(part.values, max_size=3)
    bare = part.bare
    return Part(tree, f"ARRAY<{part.column}>", values, lambda items: [bare(item) for item in items])


def map_of(part: Part) -> Part:
    tree, values = {"type": "map", "values": part.tree}, st.dictionaries(TEXT, part.values, max_size=3)
    bare = part.bare
    column = f"MAP<STRING, {part.column}>"
    return Part(tree, column, values, lambda pairs: [(key.encode(), bare(value)) for key, value in pairs.items()])


@st.composite
def record_of(draw: st.DrawFn, inner: st.SearchStrategy[Part], *, exact: bool, most: int = 3) -> Part:
    """A record, into a row that may lack fields, have them in another order, and have others that are null."""
    fields = {f"f{at}": part for at, part in enumerate(draw(st.lists(inner, min_size=1, max_size=most)))}
    names = list(fields)
    if not exact:
        names = draw(st.permutations([name for name in names if draw(st.integers(0, 4))] or names[:1]))
        names += ["absent"] if draw(st.booleans()) else []
    columns = ", ".join(f"{name}: {fields[name].column if name in fields else 'ARRAY<INT>'}" for name in names)

    def bare(record: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(fields[name].bare(record[name]) if name in fields else None for name in names)

    return Part(
        {"type": "record", "name": "", "fields": [{"name": name, "type": part.tree} for name, part in fields.items()]},
        f"STRUCT<{columns}>",
        st.fixed_dictionaries({name: part.values for name, part in fields.items()}),
        bare,
        sum(part.least for part in fields.values()),
    )


def parts(*, exact: bool) -> st.SearchStrategy[Part]:
    leaves = st.sampled_from(EXACT if exact else EXACT + PROMOTED) | decimals(exact=exact)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(nullable, inner, null_first=st.booleans()),
            inner.map(list_of),
            inner.map(map_of),
            record_of(inner, exact=exact),
        ),
        max_leaves=5,
    )


@st.composite
def drawn(draw: st.DrawFn, *, exact: bool = False) -> Drawn:
    """A schema with its own columns if `exact`, else with any that fit."""
    whole = draw(record_of(parts(exact=exact), exact=exact, most=4))
    records = draw(st.lists(whole.values, max_size=5))
    row = parse_type(whole.column)
    assert row is not None
    columns = tuple(Column(name, str(kind)) for name, kind in zip(row.names, row.inner, strict=True))
    return Drawn(named(whole.tree), RowType(columns), records, [whole.bare(record) for record in records])


def named(tree: Any) -> Any:
    """The schema in which each type without a name has one."""
    count = 0

    def walk(part: Any) -> Any:
        nonlocal count
        if isinstance(part, list):
            return [walk(branch) for branch in part]
        if not isinstance(part, dict):
            return part
        walked = dict(part)
        if part.get("name") == "":
            count += 1
            walked["name"] = f"N{count}"
        for key in ("type", "items", "values"):
            if isinstance(part.get(key), dict | list):
                walked[key] = walk(part[key])
        if "fields" in part:
            walked["fields"] = [walk(field) for field in part["fields"]]
        return walked

    return walk(tree)
