"""What `aggregate`, `join` and `deduplicate` steps remember, by their own columns: as the steps themselves read it.

An `aggregate` has a row per key and window, with the results that it would give if the window ended now; a `join` the
rows that wait, each with its side; `deduplicate` the keys that have passed. Must not open stores.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa

from holdfast.errors import HoldfastError
from holdfast.spec.kept_state import row_tables, state_name
from holdfast.spec.steps import Deduplicate, Step
from holdfast_runtime.inspection.compiled_step import CompiledStep, compiled_step
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.shown_columns import call_columns, shown_columns, side_columns
from holdfast_runtime.segments.graph import PICK
from holdfast_runtime.state.sorted.layered_rows import LayeredTable
from holdfast_runtime.steps.joins.join_plan import LEFT, RIGHT, SIDES, JoinPlan
from holdfast_runtime.steps.joins.waiting_rows import waiting_rows
from holdfast_runtime.steps.keyed.deduplicate import DeduplicateStep
from holdfast_runtime.steps.plain.plain_step import PlainStep
from holdfast_runtime.steps.windows.aggregate import AggregateStep
from holdfast_runtime.steps.windows.aggregate_plan import AggregatePlan

Note = Callable[[str], None]
"""Tells people something about rows, beside them."""


class RowStore(Protocol):
    """The store of a task."""

    def table(self, name: str) -> LayeredTable:
        """Return a table by name; one that was never written to is empty."""


class StepTable(Protocol):
    """The rows that a step remembers."""

    key: pa.Schema
    """The columns of the key."""
    columns: pa.Schema
    """All columns."""

    def rows(self, store: RowStore, key: pa.RecordBatch | None, note: Note) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task, all or those of a key, in batches that may lack columns."""


def step_of(local_app: LocalApp, name: str) -> Step | None:
    """Return the step whose rows a name means: its own, that of its state, or of a side of either."""
    steps = [step for step in local_app.app.spec.steps if row_tables(step)]
    by_step = {name: step for step in steps for name in (step.name, *row_tables(step))}
    by_state = {name: step for step in steps for name in (state_name(step), *row_tables(step).values())}
    return (by_state | by_step).get(name)


def step_table(local_app: LocalApp, step: Step, name: str, note: Note) -> StepTable | None:
    """Return the rows of a step, or of a side; None if its columns can't be told, which is noted, or are as kept."""
    if step.process is not None:
        return None
    try:
        compiled = compiled_step(local_app.app.spec, local_app.plan, step)
    except HoldfastError as error:
        note(f"{name} is shown as it is kept: columns of step {step.name} can't be told without Spark ({error})")
        return None
    if step.deduplicate is not None:
        return DeduplicateTable(step, step.deduplicate, compiled.inputs[0])
    if compiled.node.join is not None:
        return JoinTable(step, compiled.node.join, name)
    assert compiled.node.aggregate is not None  # noqa: S101 - no other step keeps rows
    return AggregateTable(step, compiled.node.aggregate, compiled, note)


class AggregateTable:
    """The results of windows that have not left."""

    def __init__(self, step: Step, plan: AggregatePlan, compiled: CompiledStep, note: Note) -> None:
        self._name, self._kept_as = step.name, state_name(step)
        self._step, self._behind = AggregateStep(step.name, plan, self._kept_as), None
        self.key, self.columns = self._step.key, self._step.schema
        behind = compiled.behind
        if behind is None:
            return
        if behind.verb == PICK:
            self._behind, self.columns = PlainStep(step, behind.plain, behind.schema), behind.schema
        else:
            self.columns = call_columns(self.columns, plan, behind.schema.names)
            missing = [name for name in behind.schema.names if name not in self.columns.names]
            note(f"Spark SQL computes {', '.join(missing)} of {step.name}: shown is what it is computed from")

    def rows(self, store: RowStore, key: pa.RecordBatch | None, note: Note) -> Iterator[pa.RecordBatch]:
        """Yield a row per key and window."""
        for results in self._step.unfinished(store.table(self._kept_as), key):
            rows, impossible = results.rows, dict(results.impossible)
            if self._behind is not None:
                rows, reasons = self._behind.tried(rows)
                impossible |= reasons
            for column, reason in impossible.items():
                note(f"{column} of {self._name} is null where it can't be computed: {reason}")
            yield pa.RecordBatch.from_arrays(rows.columns, schema=self.columns)


class JoinTable:
    """The rows that wait for partners, on both sides or on one."""

    def __init__(self, step: Step, plan: JoinPlan, name: str) -> None:
        self._plan = plan
        self._tables = [f"{state_name(step)}.{side}" for side in SIDES]
        sides = [side for side in (LEFT, RIGHT) if name in (f"{step.name}.{SIDES[side]}", self._tables[side])]
        self._sides = side_columns(plan, sides or [LEFT, RIGHT])
        shown = [*self._sides.values()]
        self.key = pa.schema([*shown[0]][1 : len(plan.by) + 1])
        self.columns = pa.schema({field.name: field for schema in shown for field in schema}.values())

    def rows(self, store: RowStore, key: pa.RecordBatch | None, note: Note) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - as of other steps
        """Yield what waits, with the columns of its side."""
        for side, columns in self._sides.items():
            for rows in waiting_rows(store.table(self._tables[side]), self._plan, side, key):
                yield _cast(rows, columns)


class DeduplicateTable:
    """The keys that have passed, each with its event time, and until when others with it are dropped."""

    def __init__(self, step: Step, verb: Deduplicate, rows: pa.Schema) -> None:
        self._kept_as = state_name(step)
        self._step = DeduplicateStep(step.name, verb, rows, self._kept_as)
        self.columns = shown_columns(self._step.remembered_columns)
        self.key = pa.schema([*self.columns][: len(verb.by)])

    def rows(self, store: RowStore, key: pa.RecordBatch | None, note: Note) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - as of other steps
        """Yield a row per key and event time that has passed."""
        for rows in self._step.remembered(store.table(self._kept_as), key):
            yield _cast(rows, self.columns)


def _cast(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
