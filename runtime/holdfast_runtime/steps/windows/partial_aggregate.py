"""The part of an `aggregate` step that runs before its rows travel: a partial for each key and pane of a batch.

What is sent on has the columns of a partial; its event time is the latest of its pane, which is late where any other of
that pane is. Keeps nothing. Must not know what the step that reads it does with partials.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.steps.windows.aggregate_plan import AggregatePlan, with_times
from holdfast_runtime.steps.windows.panes import by_pane


class PartialAggregateStep:
    """The part of a step that runs before its rows travel."""

    def __init__(self, name: str, plan: AggregatePlan) -> None:
        self.name = name
        self._windowed, self._panes = plan.verb.windowed, plan.panes
        self._partials = plan.partials_sent(name)
        self.schema = self._partials.schema
        """The columns that are sent on."""

    def run(self, rows: TimedRows) -> StepOutcome:
        """Run one batch of one task."""
        usable = rows
        if self._windowed and rows.times.null_count:
            usable = rows.where(np.asarray(rows.times.is_valid().to_numpy(zero_copy_only=False), np.bool_))
        panes = self._panes.panes(usable.times.fill_null(0).to_numpy())
        partials = [self._gathered(part) for _, part in by_pane(panes, with_times(usable))]
        return StepOutcome(TimedRows.joined(partials, self.schema), late={self.name: rows.count - usable.count})

    def _gathered(self, rows: pa.RecordBatch) -> TimedRows:
        latest = pc.max(rows.column(rows.num_columns - 1))
        partials = self._partials.gather(rows).rows
        return TimedRows(partials, pa.repeat(latest, partials.num_rows))
