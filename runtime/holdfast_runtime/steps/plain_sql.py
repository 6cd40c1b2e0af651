"""Plain expressions over rows in Arrow: `filter` and `select` where the JVM would compute nothing else.

What is plain, and why it means the same here as in Spark SQL, stands in `holdfast.planning.sql.plain`. Must not be
given anything that can fail for a row.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.planning.sql.plain import Plain, PlainCall, PlainColumn, PlainKind, PlainValue
from holdfast_runtime.steps.timed_rows import TimedRows

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
    "null": pc.is_null,
}


def plain_kinds(schema: pa.Schema) -> dict[str, PlainKind]:
    """Return what plain expressions may do with each column; empty if names are not unique."""
    kinds = {field.name: _kind(field.type) for field in schema}
    return kinds if len(kinds) == len(schema) else {}


def keeps_kinds(made: Sequence[Plain], schema: pa.Schema) -> bool:
    """Whether columns that are computed have types that plain expressions give."""
    return len(made) == len(schema) and all(
        isinstance(one, PlainColumn) or pa.types.is_boolean(kind) or pa.types.is_int32(kind) or pa.types.is_int64(kind)
        for one, kind in zip(made, schema.types, strict=True)
    )


def sift(given: TimedRows, condition: Plain) -> TimedRows:
    """Return the rows for which the condition is true."""
    kept = pc.fill_null(_computed(condition, given.rows), fill_value=False).to_numpy(zero_copy_only=False)
    return given if kept.all() else given.where(kept)


def pick(given: TimedRows, made: Sequence[Plain], schema: pa.Schema) -> TimedRows:
    """Return these columns under the names of the schema."""
    columns = [
        given.rows.column(one.name) if isinstance(one, PlainColumn) else _computed(one, given.rows).cast(field.type)
        for one, field in zip(made, schema, strict=True)
    ]
    return TimedRows(pa.RecordBatch.from_arrays(columns, schema=schema), given.times, given.origins)


def _kind(kind: pa.DataType) -> PlainKind:
    if pa.types.is_signed_integer(kind):
        return "whole"
    if pa.types.is_string(kind):
        return "text"
    return "boolean" if pa.types.is_boolean(kind) else "other"


def _computed(made: Plain, rows: pa.RecordBatch) -> Any:
    """Return an array, or a scalar for a value from the text."""
    match made:
        case PlainValue():
            return pa.scalar(made.value)
        case PlainColumn():
            column = rows.column(made.name)
            return column.cast(pa.int64()) if pa.types.is_signed_integer(column.type) else column
        case PlainCall("in", (value, *values)):
            found = _computed(value, rows)
            there = pa.array([one.value for one in values if isinstance(one, PlainValue)], found.type)
            return pc.if_else(pc.is_valid(found), pc.is_in(found, there), pa.scalar(None, pa.bool_()))
        case PlainCall("%", (value, by)):
            whole, part = _computed(value, rows), _computed(by, rows)
            # Arrow's division of whole numbers drops the fraction, so the rest has the sign of the value, as in Spark.
            return pc.subtract(whole, pc.multiply(pc.divide(whole, part), part))
        case PlainCall():
            return _FUNCTIONS[made.function](*(_computed(one, rows) for one in made.arguments))
