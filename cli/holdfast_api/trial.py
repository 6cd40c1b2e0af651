"""Rows tried on an app in this process: each input's rows in, and the rows of every step out.

A copy of the app writes the rows of each step into a stream of the embedded log behind it, and a `TestDriver` runs
that copy; so the rows are those of the engine. The copy differs in this: Kafka topics are in the log, with a partition
where nobody says how many, and inputs end behind the rows. Must not compute any row.
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.errors import UserActionError
from holdfast.planning.plan import Plan
from holdfast.spec.app import StreamApp
from holdfast.spec.parse import parse_app
from holdfast.suggest import did_you_mean
from holdfast_api.draft import AppDraft
from holdfast_api.plan_view import PlanView

if TYPE_CHECKING:
    import pandas as pd

Rows = list[dict[str, Any]]
_SYSTEM = "holdfast-shown"
_SHOWN_ROWS = 20
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")


class TrialError(UserActionError):
    """Rows that can't be tried on an app."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """A step or stream whose rows are shown."""

    name: str
    stream: str
    """The stream of the copy that has them."""
    columns: tuple[str, ...]


class TriedRows(Mapping[str, "pd.DataFrame"]):
    """Step, or stream that is written, -> the rows that came out, as a DataFrame."""

    def __init__(self, rows: Mapping[str, Rows], columns: Mapping[str, tuple[str, ...]], notes: Sequence[str]) -> None:
        self._rows, self._columns = dict(rows), dict(columns)
        self.notes = tuple(notes)
        """What became of rows that did not come through: how many were late, failed or could not be decoded."""

    def __getitem__(self, name: str) -> "pd.DataFrame":
        import pandas as pd  # noqa: PLC0415 - needs the extra `runtime`

        rows = self.rows(name)
        return pd.DataFrame(rows, columns=list(rows[0]) if rows else list(self._columns[name]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, name: str) -> Rows:
        """Return the rows of a step or stream as dicts."""
        if name not in self._rows:
            message = f"there are no rows of {name}{did_you_mean(name, list(self._rows))}"
            raise TrialError(message)
        return self._rows[name]

    def __str__(self) -> str:
        parts = [f"{name}: {_counted(rows)}\n{_table(self[name])}" for name, rows in self._rows.items()]
        return "\n\n".join([*parts, *self.notes])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        parts = [
            f"<b>{html.escape(name)}</b>: {_counted(rows)}{self[name].head(_SHOWN_ROWS).to_html(index=False)}"
            for name, rows in self._rows.items()
        ]
        return "".join([*parts, *(f"<p>{html.escape(note)}</p>" for note in self.notes)])


def _counted(rows: Rows) -> str:
    return "1 row" if len(rows) == 1 else f"{len(rows)} rows"


def _table(frame: "pd.DataFrame") -> str:
    return "" if frame.empty else str(frame.head(_SHOWN_ROWS).to_string(index=False))


def tried_rows(
    draft: AppDraft,
    rows: Mapping[str, Any],
    *,
    end: bool,
    now: datetime | None,
    spark: Any,
) -> TriedRows:
    """Run a copy of the app on these rows and return those of each step."""
    from holdfast_runtime.testing import TestDriver  # noqa: PLC0415 - needs the extra `runtime`

    view = PlanView.of(draft, {})
    if view.app is not None:
        # As a TestDriver does with topics, which it has not.
        view = PlanView.of(draft, dict.fromkeys(_uncounted(view.app), 1))
    if view.app is None or view.plan is None or not view.valid:
        raise TrialError(str(view))
    shown = shown_rows(view.app, view.plan)
    fed = {name: _dicts(view.plan, name, table) for name, table in rows.items()}
    copy = watched(draft.tree(), shown, ends(view.app) if end else ())
    with TestDriver(parse_app(copy), now=now or datetime.now(UTC), spark=spark) as driver:
        for stream, stream_rows in fed.items():
            driver.feed(stream, stream_rows)
        driver.run_until_idle()
        for stream in ends(view.app) if end else ():
            driver.end(stream)
        driver.run_until_idle()
        notes = {"late": driver.late, "ahead of the clock": driver.ahead, "not decoded": driver.undecoded}
        notes["failed, and dead letters"] = driver.failed
        return TriedRows(
            {each.name: driver.rows(each.stream) for each in shown},
            {each.name: each.columns for each in shown},
            [f"rows {what}: {count}" for what, count in notes.items() if count],
        )


def _uncounted(app: StreamApp) -> tuple[str, ...]:
    """Return the topics that are read and whose partition counts are not written."""
    topics = {system.name for system in app.spec.systems if system.kafka is not None}
    written = {step.to for step in app.spec.steps}
    return tuple(
        stream.name
        for stream in app.spec.streams
        if stream.system in topics and stream.partitions is None and stream.name not in written
    )


def ends(app: StreamApp) -> tuple[str, ...]:
    """Return the inputs of steps that can end. What only feeds tables holds nothing back."""
    made_up = {system.name for system in app.spec.systems if system.generator is not None}
    written = {*(step.to for step in app.spec.steps), *app.spec.dead_letters}
    read = {name for step in app.spec.steps for name in step.inputs}
    return tuple(
        stream.name
        for stream in app.spec.streams
        if stream.name in read - written and stream.system not in made_up and stream.changes is None
    )


def shown_rows(app: StreamApp, planned: Plan) -> tuple[_Shown, ...]:
    """Return what is shown: every step by a stream of its own, and every stream that is written, as it is."""
    columns = {step.name: tuple(column.name for column in step.rows.columns) for step in planned.steps}
    names = [step.name for step in app.spec.steps]
    steps = [_Shown(name, f"{_SYSTEM}-{number}", columns.get(name, ())) for number, name in enumerate(names)]
    letters = [_Shown(name, name, ()) for name in sorted(app.spec.dead_letters)]
    return (*steps, *letters)


def watched(tree: Mapping[str, Any], shown: Sequence[_Shown], ending: Sequence[str]) -> dict[str, Any]:
    """Return the copy of an app that keeps the rows of each step, and whose inputs can end."""
    copy: dict[str, Any] = deepcopy(dict(tree))
    spec = copy["spec"]
    steps, streams = spec["steps"], spec["streams"]
    by_name = {step["name"]: step for step in steps}
    for stream in streams:
        if stream["name"] in ending and not stream.get("control"):
            stream["bounded"] = True
    spec["systems"] = [*spec["systems"], {"name": _SYSTEM, "log": {}}]
    for each in shown:
        if each.name not in by_name:
            continue
        step = by_name[each.name]
        # Every task reads what is broadcast, so that each row would be shown as often as there are tasks.
        source = step["from"][0] if "broadcast" in step else each.name
        streams.append({"name": each.stream, "system": _SYSTEM, "partitions": 1})
        steps.append({"name": f"{each.stream}-to", "from": [source], "to": each.stream})
    return copy


def _dicts(planned: Plan, stream: str, table: Any) -> Rows:
    """Return rows of a DataFrame, or of a list of dicts, as a stream takes them."""
    if isinstance(table, Sequence):
        return [dict(row) for row in table]
    import pyarrow as pa  # noqa: PLC0415 - needs the extra `runtime`

    types = {column.name: str(column.type).upper() for column in planned.stream(stream).rows.columns}
    try:
        arrow = pa.Table.from_pandas(table, preserve_index=False)
    except pa.ArrowException as error:
        message = f"rows of {stream}: {error}"
        raise TrialError(message) from error
    for index, field in enumerate(arrow.schema):
        if pa.types.is_timestamp(field.type):
            kind = pa.timestamp("us", tz=field.type.tz)
        elif pa.types.is_floating(field.type) and types.get(field.name) in _WHOLE:
            # pandas has no null among whole numbers, and makes them floats.
            kind = pa.int64()
        else:
            continue
        try:
            arrow = arrow.set_column(index, field.name, arrow.column(index).cast(kind))
        except pa.ArrowException as error:
            message = f"rows of {stream}, column {field.name}: {error}"
            raise TrialError(message) from error
    rows: Rows = arrow.to_pylist()
    return rows
