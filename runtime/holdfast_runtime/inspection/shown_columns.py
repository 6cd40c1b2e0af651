"""The names under which columns of steps are shown: those that the app gives them.

Columns that are a step's own, whose names begin with `#`, and that of the task give way: they get a `_` behind their
name where the app has that name, too. Names are compared as SQL does. Pure.
"""

from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa

from holdfast_runtime.state.sorted.schema import OWN, is_time
from holdfast_runtime.state.sorted.view import MOMENT
from holdfast_runtime.steps.joins.join_plan import SIDES, JoinPlan
from holdfast_runtime.steps.joins.waiting_rows import waiting_columns
from holdfast_runtime.steps.windows.aggregate_plan import AggregatePlan


def task_column(columns: pa.Schema) -> pa.Field:
    """Return the column with the name of the task, which stands before these."""
    return pa.field(_free("task", _folded(columns)), pa.string())


def shown_columns(columns: pa.Schema) -> pa.Schema:
    """Return the columns of rows with the names and types under which they are shown."""
    used_names = _folded(field for field in columns if not field.name.startswith(OWN))
    return pa.schema([_own(field, used_names) if field.name.startswith(OWN) else field for field in columns])


def side_columns(plan: JoinPlan, sides: Sequence[int]) -> dict[int, pa.Schema]:
    """Return side of a join -> the columns of what waits there.

    Keys have the names of the first of these sides. A name with another type on each side has the side in front.
    """
    schemas, width = {side: waiting_columns(plan, side) for side in sides}, len(plan.by)
    of_app = {side: [field for field in schema if not field.name.startswith(OWN)] for side, schema in schemas.items()}
    keys = of_app[sides[0]][:width]
    same_name: dict[str, list[pa.Field]] = {}
    for fields in of_app.values():
        for field in fields[width:]:
            same_name.setdefault(field.name.casefold(), []).append(field)
    used_names = _folded(keys) | same_name.keys()
    shown: dict[int, pa.Schema] = {}
    for side, schema in schemas.items():
        named = [*keys]
        for field in of_app[side][width:]:
            alike = same_name[field.name.casefold()]
            same_type = alike[0].type == alike[-1].type
            named.append(alike[0] if same_type else field.with_name(_free(f"{SIDES[side]}_{field.name}", used_names)))
        names = iter(named)
        shown[side] = pa.schema(
            [_own(field, used_names) if field.name.startswith(OWN) else next(names) for field in schema]
        )
    return shown


def call_columns(columns: pa.Schema, plan: AggregatePlan, made_names: Collection[str]) -> pa.Schema:
    """Return the columns of an aggregate's results; those that only expressions use have their call as name.

    `made_names`: the columns that come out.
    """
    calls = dict(zip(plan.parts.results, plan.call_texts, strict=True))
    used_names, fields = _folded(columns), []
    for field in columns:
        hidden = field.name in calls and field.name not in made_names
        name = _free(calls[field.name], used_names) if hidden else field.name
        used_names.add(name.casefold())
        fields.append(field.with_name(name))
    return pa.schema(fields)


def _own(field: pa.Field, used_names: set[str]) -> pa.Field:
    """Return a column of the step's own as it is shown."""
    return pa.field(_free(field.name.removeprefix(OWN), used_names), MOMENT if is_time(field) else field.type)


def _free(name: str, used_names: Collection[str]) -> str:
    return name if name.casefold() not in used_names else _free(f"{name}_", used_names)


def _folded(fields: Iterable[pa.Field]) -> set[str]:
    return {field.name.casefold() for field in fields}
