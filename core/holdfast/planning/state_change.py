"""Why: a schema may change in one place and the state that holds its columns lie in another.

Compares two plans of an app: a column that state holds under another type can't be read back. Must not judge a column
that only comes or goes; the runtime fills and drops those.
"""

from collections.abc import Iterator

from holdfast.planning.flow import differ
from holdfast.planning.plan import Plan, PlannedStep
from holdfast.planning.sql.columns import OPEN, Rows
from holdfast.spec.change import Change
from holdfast.spec.diff import FieldChange


def state_changes(old: Plan, new: Plan) -> tuple[FieldChange, ...]:
    """Columns whose type changes where state of the old plan holds them."""
    return tuple(
        FieldChange(f"state of {name}: {column}", before, after, Change.NEW_RUN)
        for name, held, now in _held_by_both(old, new)
        for column, before, after in _changed(held, now)
    )


def _held_by_both(old: Plan, new: Plan) -> Iterator[tuple[str, Rows, Rows]]:
    steps = {step.name: step for step in new.steps}
    for step in old.steps:
        later = steps.get(step.name)
        if later is not None and later.verb == step.verb:
            yield from zip([step.name] * len(step.inputs), _held(old, step), _held(new, later), strict=False)
    tables = {table.name: table for table in new.tables}
    for table in old.tables:
        if table.name in tables:
            yield f"table {table.name}", table.rows, tables[table.name].rows


def _held(plan: Plan, step: PlannedStep) -> list[Rows]:
    """What a step keeps: a join the rows of both sides, the keyed verbs what comes out of them."""
    if step.verb == "join":
        rows = {stream.name: stream.rows for stream in plan.streams} | {one.name: one.rows for one in plan.steps}
        return [rows.get(source, OPEN) for source in step.inputs]
    return [step.rows] if step.verb in ("aggregate", "deduplicate") else []


def _changed(held: Rows, now: Rows) -> Iterator[tuple[str, str, str]]:
    for column in held.columns:
        later = now.find(column.name)
        if later is not None and differ(column.type, later.type):
            yield column.name, column.type, later.type
