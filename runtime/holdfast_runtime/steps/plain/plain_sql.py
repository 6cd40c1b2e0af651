"""Plain expressions over rows in Arrow: `filter` and `select` where the JVM would compute nothing else.

What is plain, and why it means the same here as in Spark SQL, stands in `holdfast.planning.sql.plain`. Whole numbers
are computed in 64 bits, and a decimal's type is the one that its kind says. Arrow says that some row can't be computed,
never which: that is found out elsewhere.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.planning.sql.plain.expressions import (
    FAILING,
    Plain,
    PlainCall,
    PlainColumn,
    PlainValue,
    columns_of,
    functions_of,
)
from holdfast.planning.sql.plain.kinds import Kind, PlainDecimal, PlainKind, PlainStruct, PlainWhole
from holdfast_runtime.steps.plain.plain_texts import TEXT_FUNCTIONS
from holdfast_runtime.steps.plain.plain_times import MOMENT, TIME_FUNCTIONS
from holdfast_runtime.steps.timed_rows import TimedRows


def plain_kinds(schema: pa.Schema) -> dict[str, Kind]:
    """Return what plain expressions may do with each column; empty if names are not unique."""
    kinds = {field.name: _kind(field.type) for field in schema}
    return kinds if len(kinds) == len(schema) else {}


def keeps_kinds(expressions: Sequence[Plain], schema: pa.Schema) -> bool:
    """Whether columns that are computed have types that plain expressions give."""
    return len(expressions) == len(schema) and all(
        isinstance(expression, PlainColumn) or expression == PlainValue(None) or _kind(kind) is not PlainKind.OTHER
        for expression, kind in zip(expressions, schema.types, strict=True)
    )


def sift(rows: TimedRows, condition: Plain) -> TimedRows:
    """Return the rows for which the condition is true."""
    mask = pc.fill_null(PlainRows(rows.rows).computed(condition), fill_value=False).to_numpy(zero_copy_only=False)
    return rows if mask.all() else rows.where(mask)


def pick(rows: TimedRows, expressions: Sequence[Plain], schema: pa.Schema) -> TimedRows:
    """Return these columns under the names of the schema."""
    computed = PlainRows(rows.rows)
    pairs = zip(expressions, schema, strict=True)
    return picked(rows, [computed.column(expression, field.type) for expression, field in pairs], schema)


def picked(rows: TimedRows, columns: Sequence[pa.Array], schema: pa.Schema) -> TimedRows:
    """Return columns, as computed, in place of those of the rows."""
    made_rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    return TimedRows(made_rows, rows.times, rows.origins, rows.marks)


def computed_column(rows: pa.RecordBatch, expression: Plain, kind: pa.DataType) -> pa.Array:
    """Return a column of this type, computed of rows."""
    return PlainRows(rows).column(expression, kind)


def _kind(kind: pa.DataType) -> Kind:
    if pa.types.is_signed_integer(kind):
        return PlainWhole.of(kind.bit_width)
    if pa.types.is_decimal128(kind):
        return PlainDecimal.of(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return PlainStruct(tuple((field.name, _kind(field.type)) for field in kind))
    return _SIMPLE.get(kind, PlainKind.OTHER)


_SIMPLE: Mapping[pa.DataType, Kind] = {
    pa.string(): PlainKind.TEXT,
    pa.bool_(): PlainKind.BOOLEAN,
    pa.float64(): PlainKind.DOUBLE,
    pa.date32(): PlainKind.DATE,
    MOMENT: PlainKind.MOMENT,
}


class PlainRows:
    """Rows of which expressions are computed; what costs most only once, though several expressions have it."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self.rows = rows
        self._shared: dict[Plain, Any] = {}

    def column(self, expression: Plain, kind: pa.DataType) -> pa.Array:
        """Return a column of this type; one of the rows as it is."""
        if isinstance(expression, PlainColumn):
            return self.rows.column(expression.name)
        values = self.computed(expression)
        return self.repeated(values).cast(kind)

    def repeated(self, values: Any) -> pa.Array:
        """Return an array of what may be one value for all rows."""
        return pa.repeat(values, len(self.rows)) if isinstance(values, pa.Scalar) else values

    def computed(self, expression: Plain) -> Any:
        """Return an array, or a scalar for a value from the text."""
        match expression:
            case PlainValue():
                return _scalar(expression.value)
            case PlainColumn():
                return _widened(self.rows.column(expression.name))
            case PlainCall(function) if function in _SHARED:
                if expression not in self._shared:
                    self._shared[expression] = self.called(expression)
                return self._shared[expression]
        return self.called(expression)

    def called(self, call: PlainCall) -> Any:
        """Return what a call gives; Arrow's error if there is a row that it fails on."""
        match call:
            case PlainCall("and" | "or", (left, right)) if _costly(right):
                return self._either(call.function, self.computed(left), right)
            case PlainCall("case", arguments) if any(map(_costly, arguments)):
                return self._case(arguments)
        return FUNCTIONS[call.function](*map(self.computed, call.arguments))

    def _either(self, word: str, first: Any, other: Plain) -> Any:
        """Return `and` or `or`; the other side is only computed where the first one does not settle it."""
        if isinstance(first, pa.Scalar):
            return FUNCTIONS[word](first, self.computed(other))
        settled = pc.fill_null(first if word == "or" else pc.invert(first), fill_value=False)
        unsettled = pc.invert(settled)
        rest = FUNCTIONS[word](first.filter(unsettled), self._among(unsettled, other))
        return pc.replace_with_mask(first, unsettled, rest)

    def _case(self, arguments: Sequence[Plain]) -> Any:
        """Return a `case`; results that cost much, or may fail, are only computed where they are chosen."""
        branches, left = list[Any](), pa.repeat(pa.scalar(value=True), len(self.rows))
        for condition, result in zip(arguments[::2], arguments[1::2], strict=False):
            true = pc.fill_null(self.computed(condition), fill_value=False)
            branches += [true, self._chosen(pc.and_(left, true), result)]
            left = pc.and_not(left, true)
        if len(arguments) % 2:
            branches.append(self._chosen(left, arguments[-1]))
        return _case(*branches)

    def _chosen(self, rows: Any, result: Plain) -> Any:
        if not _costly(result):
            return self.computed(result)
        values = self._among(rows, result)
        return pc.replace_with_mask(pa.nulls(len(self.rows), values.type), rows, values)

    def _among(self, mask: Any, expression: Plain) -> Any:
        """Return what an expression is for these rows alone, of which no more is copied than it reads."""
        return PlainRows(self.rows.select(sorted(columns_of(expression))).filter(mask)).computed(expression)


def _costly(expression: Plain) -> bool:
    return not functions_of(expression).isdisjoint(_COSTLY)


def _widened(column: Any) -> Any:
    return column.cast(pa.int64()) if pa.types.is_signed_integer(column.type) else column


def _scalar(value: Any) -> pa.Scalar:
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        scale = -int(exponent)
        return pa.scalar(value, pa.decimal128(max(len(digits), scale), scale))
    return pa.scalar(value)


def _checked(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of whole numbers that fails where a result is too large for the type of so many bits."""
    return lambda *numbers: _fitting(compute(*numbers[:-1]), numbers[-1])


def _fitting(numbers: Any, bits: pa.Scalar) -> Any:
    return numbers.cast(f"int{bits.as_py()}").cast(pa.int64())


def _checked_remainder(value: Any, by: Any) -> Any:
    # By -1 as by 1: Arrow has no quotient of the least number.
    return _remainder(value, pc.if_else(pc.equal(by, -1), 1, by))


def _remainder(value: Any, by: Any) -> Any:
    # Arrow's division of whole numbers drops the fraction, so the rest has the sign of the value, as in Spark.
    return pc.subtract(value, pc.multiply(pc.divide(value, by), by))


def _among(value: Any, *values: pa.Scalar) -> Any:
    options = pa.array([option.as_py() for option in values], value.type)
    return pc.if_else(pc.is_valid(value), pc.is_in(value, options), pa.scalar(None, pa.bool_()))


def _decimal(value: Any, precision: pa.Scalar, scale: pa.Scalar) -> Any:
    # Arrow wants room for any whole number first.
    number = value.cast(pa.decimal128(20, 0)) if pa.types.is_integer(value.type) else value
    return number.cast(pa.decimal128(precision.as_py(), scale.as_py()))


def _double(number: Any) -> Any:
    # A decimal stands in the text. Arrow would round it twice.
    if pa.types.is_decimal(number.type):
        return pa.scalar(float(number.as_py()))
    return pc.cast(number, pa.float64(), safe=False)


def _same_double(left: Any, right: Any) -> Any:
    """Return where two numbers are equal; NaN is equal to NaN, as in Spark."""
    return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _at_most(left: Any, right: Any) -> Any:
    """Return where the left number is not the larger one; NaN is the largest of all, as in Spark."""
    return pc.or_(pc.less_equal(left, right), pc.is_nan(right))


def _case(*arguments: Any) -> Any:
    """Return the result of the first condition that is true; what stands alone at the end if none is."""
    pairs = [arguments[start : start + 2] for start in range(0, len(arguments) - 1, 2)]
    rest = arguments[-1] if len(arguments) % 2 else pa.scalar(None, arguments[1].type)
    return reduce(
        lambda then, pair: pc.if_else(pc.fill_null(pair[0], fill_value=False), pair[1], then), pairs[::-1], rest
    )


def _struct(*parts: Any) -> Any:
    return pa.StructArray.from_arrays(list(parts[1::2]), [name.as_py() for name in parts[::2]])


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "double =": _same_double,
    "double <>": lambda left, right: pc.invert(_same_double(left, right)),
    "double <": lambda left, right: pc.invert(_at_most(right, left)),
    "double <=": _at_most,
    "double >": lambda left, right: pc.invert(_at_most(left, right)),
    "double >=": lambda left, right: _at_most(right, left),
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
    "null": pc.is_null,
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": pc.divide,
    "%": _remainder,
    "&": pc.bit_wise_and,
    "|": pc.bit_wise_or,
    "^": pc.bit_wise_xor,
    "~": pc.bit_wise_not,
    "checked +": _checked(pc.add_checked),
    "checked -": _checked(pc.subtract_checked),
    "checked *": _checked(pc.multiply_checked),
    "checked /": pc.divide_checked,
    "checked %": _checked_remainder,
    "checked abs": _checked(pc.abs_checked),
    "checked whole": _fitting,
    "div": pc.divide_checked,
    "abs": pc.abs,
    "negative": pc.negate,
    "double": _double,
    "isnan": lambda numbers: pc.fill_null(pc.is_nan(numbers), fill_value=False),
    "in": _among,
    "decimal": _decimal,
    "case": _case,
    "coalesce": pc.coalesce,
    "field": lambda structs, name: _widened(pc.struct_field(structs, name.as_py())),
    "greatest": pc.max_element_wise,
    "least": pc.min_element_wise,
    "struct": _struct,
    **TEXT_FUNCTIONS,
    **TIME_FUNCTIONS,
}
_COSTLY = (*FAILING, "extract", "like", "regexp_replace", "replace", "rlike", "split", "translate")
"""Functions that are computed for no more rows than needed: they cost much, or may fail on others."""
_SHARED = (
    *(
        "*",
        "checked *",
        "date_format",
        "decimal",
        "extract",
        "hour",
        "length",
        "lower",
        "regexp_replace",
        "replace",
        "split",
        "translate",
        "unix_seconds",
        "upper",
    ),
)
