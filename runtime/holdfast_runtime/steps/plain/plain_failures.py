"""Plain expressions over rows of which some can't be computed: null instead, and which they are.

The other side of a null is not computed in Spark, so nothing fails there. All of it is computed for all rows at once,
since a column may have many zeros; it costs more than what Arrow checks by itself, and is asked for after that failed.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.planning.sql.plain.expressions import Plain, PlainCall, can_fail
from holdfast_runtime.steps.plain.plain_sql import FUNCTIONS, PlainRows
from holdfast_runtime.steps.plain.plain_times import since_unit


class FailingRows(PlainRows):
    """Rows of which expressions are computed as far as they can be."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        super().__init__(rows)
        self._reasons: dict[Plain, pa.StringArray] = {}
        self._of_chosen: list[pa.StringArray] = []
        """Why results of the `case` that is being computed can't be."""

    def tried(self, expression: Plain, kind: pa.DataType) -> tuple[pa.Array, pa.StringArray]:
        """Return a column of this type, and why it can't be computed, by row; null where it can."""
        return self.column(expression, kind), self._why(expression)

    def _why(self, expression: Plain) -> pa.StringArray:
        return self._reasons[expression] if expression in self._reasons else pa.nulls(len(self.rows), pa.string())

    def called(self, call: PlainCall) -> Any:
        """Return what a call gives; null for rows that it fails on."""
        if not can_fail(call):
            return super().called(call)
        if call.function == "case":
            return self._tried_case(call)
        values = [self.computed(argument) for argument in call.arguments]
        reasons = [self._why(argument) for argument in call.arguments]
        if call.function in _NULL_OF_NULL:
            first, other = (1, 0) if call.function in _DIVISIONS else (0, 1)
            reasons[other] = pc.if_else(pc.is_valid(values[first]), reasons[other], _NO_REASON)
        if call.function in _DIVISIONS:
            reasons.append(self._where(_by_zero(*values), values, "a division by zero"))
        if call.function in _BEYOND:
            reasons.append(self._where(_BEYOND[call.function](*values), values, "a number too large for its type"))
        self._reasons[call] = pc.coalesce(*reasons)
        values[0] = pc.if_else(pc.is_null(self._reasons[call]), values[0], pa.scalar(None, values[0].type))
        return FUNCTIONS[call.function](*values)

    def _tried_case(self, call: PlainCall) -> Any:
        values = self._case(call.arguments)
        self._reasons[call], self._of_chosen = pc.coalesce(*self._of_chosen), []
        return values

    def _chosen(self, rows: Any, result: Plain) -> Any:
        if not can_fail(result):
            return super()._chosen(rows, result)
        chosen_rows = FailingRows(self.rows.filter(rows))
        values, reasons = chosen_rows.computed(result), chosen_rows._why(result)
        self._of_chosen.append(pc.replace_with_mask(pa.nulls(len(self.rows), pa.string()), rows, reasons))
        return pc.replace_with_mask(pa.nulls(len(self.rows), values.type), rows, values)

    def _where(self, fails: Any, values: list[Any], reason: str) -> pa.StringArray:
        """Return the reason for the rows that a function fails on; it does not fail for null."""
        failing = pc.fill_null(pc.and_(fails, pc.is_valid(values[0])), fill_value=False)
        return pc.if_else(self.repeated(failing), reason, _NO_REASON)


_NO_REASON = pa.scalar(None, pa.string())


def _beyond(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that says which results of whole numbers have no room in so many bits."""

    def beyond(*numbers: Any) -> Any:
        *values, bits = numbers
        exact = compute(*(value.cast(_EXACT) for value in values))
        most = 2 ** (bits.as_py() - 1) - 1
        return pc.or_(pc.greater(exact, _exact(most)), pc.less(exact, _exact(-most - 1)))

    return beyond


_EXACT = pa.decimal256(20)
_LONGEST = pa.decimal256(41)


def _exact(number: int) -> pa.Scalar:
    return pa.scalar(Decimal(number), _LONGEST)


def _by_zero(_: Any, divisor: Any) -> Any:
    return pc.equal(divisor, pa.scalar(0, divisor.type))


_BEYOND: Mapping[str, Callable[..., Any]] = {
    "checked +": _beyond(pc.add),
    "checked -": _beyond(pc.subtract),
    "checked *": _beyond(pc.multiply),
    "checked abs": _beyond(pc.abs),
    "checked whole": _beyond(lambda number: number),
    "shift": lambda moments, micros: _beyond(pc.add)(moments.cast(pa.int64()), micros, pa.scalar(64)),
    "date_trunc": lambda moments, unit: _beyond(pc.subtract)(
        moments.cast(pa.int64()), since_unit(moments, unit), pa.scalar(64)
    ),
    "div": lambda number, divisor: pc.and_(pc.equal(number, -(2**63)), pc.equal(divisor, -1)),
}
_DIVISIONS = ("checked /", "checked %", "div")
"""Functions of which Spark computes the second number first."""
_NULL_OF_NULL = (
    *_DIVISIONS,
    *("+", "-", "*", "checked +", "checked -", "checked *", "&", "|", "^"),
    *(prefix + sign for prefix in ("", "double ") for sign in ("=", "<>", "<", "<=", ">", ">=")),
)
"""Functions of which Spark computes one number or text only where the other is not null."""
