"""What an `aggregate` step computes, over which rows, and whether these come to it as partials.

The same for the part of the step that runs before its rows travel, and the part that keeps state. Plain values: the
driver makes them, tasks read them.
"""

import re
from dataclasses import dataclass

import pyarrow as pa

from holdfast.planning.aggregation import AggregateCall, Aggregation
from holdfast.spec.steps import Aggregate
from holdfast.spec.values import millis
from holdfast.times import micros
from holdfast_runtime.steps.timed_rows import TimedRows, find_column
from holdfast_runtime.steps.windows.panes import AllTime, Panes, WindowPanes
from holdfast_runtime.steps.windows.partials import Partials, call_text

_TIME = pa.field("#time", pa.int64())
_LATEST, _ROWS = AggregateCall("max", (_TIME.name,)), AggregateCall("count")


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """An `aggregate` over rows of these columns."""

    verb: Aggregate
    parts: Aggregation
    rows: pa.Schema
    columns: tuple[str, ...] = ()
    """The columns of rows as the step was given them: without those that Spark SQL has made for it."""
    sent: bool = False
    """Whether partials of the rows are made before these travel, and come to the step in their place."""

    @property
    def panes(self) -> Panes:
        """How time is cut, for a step without sessions."""
        if self.verb.window is None:
            return AllTime()
        window = micros(millis(self.verb.window))
        return WindowPanes(window, window if self.verb.slide is None else micros(millis(self.verb.slide)))

    @property
    def call_texts(self) -> list[str]:
        """The calls as users write them: over the expressions that Spark SQL has computed before."""
        return [self._over_expressions(call) for call in self.parts.calls]

    def _over_expressions(self, call: AggregateCall) -> str:
        text = call_text(call) if call.condition is None else f"{call_text(call)} FILTER (WHERE {call.condition})"
        for item in self.parts.before:
            expression, _, name = item.rpartition(" AS ")
            if expression:
                text = expression.join(re.split(rf"\b{re.escape(name.strip('`'))}\b", text))
        return text

    def partials(self, step: str) -> Partials:
        """Return the partials that a step keeps: without windows also their latest time."""
        return self._partials(step)

    def partials_sent(self, step: str) -> Partials:
        """Return the partials that travel: the last call is the number of their rows."""
        return self._partials(step, _ROWS)

    def _partials(self, step: str, *more: AggregateCall) -> Partials:
        calls = [*self.parts.calls, *(() if self.verb.windowed else (_LATEST,)), *more]
        indices = [find_column(self.rows, column) for column in self.verb.by]
        by = [self.rows.names[index] for index in indices if index is not None]
        return Partials(step, by, pa.schema([*self.rows, _TIME]), calls)


def with_times(rows: TimedRows) -> pa.RecordBatch:
    """Return rows with their event time as a column that calls may be over."""
    return rows.rows.append_column(_TIME, rows.times)
