"""A `filter` or a `select` of plain expressions, and what becomes of rows that it can't be computed for.

Which they are is asked only after Arrow has failed. Must not write dead letters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.planning.sql.plain.expressions import Plain, can_fail
from holdfast.spec.steps import Step
from holdfast_runtime.steps.failures import FailedRow, FailedRows, not_computed, row_named
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.plain.plain_failures import FailingRows
from holdfast_runtime.steps.plain.plain_sql import pick, picked, sift
from holdfast_runtime.steps.timed_rows import TimedRows


@dataclass(frozen=True, slots=True)
class PlainStep:
    """One of them."""

    step: Step
    expressions: Sequence[Plain]
    """The columns of a `select`, or the condition of a `filter`."""
    schema: pa.Schema
    """The columns of the result."""

    def run(self, rows: TimedRows) -> StepOutcome:
        """Return the rows that result; those it can't be computed for are put aside, or the first one is an error."""
        try:
            return StepOutcome(self._computed(rows))
        except pa.ArrowInvalid:
            if not any(map(can_fail, self.expressions)):
                raise
        return self._outcome(rows)

    def tried(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Mapping[str, str]]:
        """Return the rows of a `select`, null where nothing can be computed, and by column why the first of it can't.

        For who looks at rows: none is put aside, and none is an error.
        """
        failing = FailingRows(rows)
        columns, reasons = zip(*map(failing.tried, self.expressions, self.schema.types), strict=True)
        named = zip(self.schema.names, reasons, strict=True)
        why = {name: texts.drop_null()[0].as_py() for name, texts in named if texts.null_count < len(texts)}
        return pa.RecordBatch.from_arrays([*columns], schema=self.schema), why

    def _computed(self, rows: TimedRows) -> TimedRows:
        if self.step.filter is not None:
            return sift(rows, self.expressions[0])
        return pick(rows, self.expressions, self.schema)

    def _outcome(self, rows: TimedRows) -> StepOutcome:
        """Return the same where some rows can't be computed."""
        failing, is_filter = FailingRows(rows.rows), self.step.filter is not None
        names, kinds = ([None], [pa.bool_()]) if is_filter else (self.schema.names, self.schema.types)
        columns, reasons = zip(*map(failing.tried, self.expressions, kinds), strict=True)
        failed = {
            row: FailedRow(row, not_computed(self.step, name, why), name)
            for name, column_reasons in reversed(list(zip(names, reasons, strict=True)))
            for row, why in enumerate(column_reasons.to_pylist())
            if why is not None
        }
        if failed and self.step.on_error != "DeadLetter":
            raise self._named(rows, min(failed), failed[min(failed)].reason)
        good = np.ones(rows.count, bool)
        good[list(failed)] = False
        if is_filter:
            good &= columns[0].fill_null(fill_value=False).to_numpy(zero_copy_only=False)
        made_rows = (rows if is_filter else picked(rows, list(columns), self.schema)).where(good)
        return StepOutcome(made_rows, failed=[FailedRows(rows, [failed[row] for row in sorted(failed)])])

    def _named(self, rows: TimedRows, row: int, reason: str) -> UserActionError:
        message = (
            f"step {self.step.name}: {reason}. The row is {row_named(rows, row)}. Correct the expression and run "
            f"again, or put such rows aside: onError: DeadLetter of the step"
        )
        return UserActionError(message, code="ExpressionFailedError")
