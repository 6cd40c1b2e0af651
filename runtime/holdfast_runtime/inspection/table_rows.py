"""Rows of state tables, decoded to JSON and to Arrow columns.

The table's name determines the kind of its rows: keys of a `process` step, its timers, or plain bytes; those of tables
in runs are in `sorted_rows`. Must not open stores.
"""

import base64
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pyarrow as pa

from holdfast.planning.types.spark_types import RowType
from holdfast.spec.kept_state import row_tables, state_name
from holdfast.times import Micros
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.steps.keyed.grouped_keys import KeyReader
from holdfast_runtime.steps.keyed.key_state import TimerKind, Timers, parse_index_key
from holdfast_runtime.steps.keyed.key_table import TIMERS_SUFFIX, KeyRow, key_of, read_rows, row_key
from holdfast_runtime.streams.codecs.arrow_types import SchemaUnsupportedError, arrow_schema

_BASE64 = "base64:"
Row = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class RowKind:
    """How the rows of a table are decoded."""

    columns: pa.Schema
    """The columns of an export, after `task`."""
    shown: Callable[[Row], dict[str, Any]]
    """A row as JSON values."""
    exported: Callable[[Row], tuple[Any, ...]]
    """A row as one value per column."""
    looked_up: Callable[[str], bytes | None]
    """The stored key for a user's text; None: rows of this kind can't be looked up by key."""


def row_kind(local_app: LocalApp, table: str) -> RowKind:
    """Return how to decode the rows of this table."""
    steps = {state_name(step): step for step in local_app.app.spec.steps if step.process and not row_tables(step)}
    name = table.removesuffix(TIMERS_SUFFIX)
    step = steps.get(name)
    if step is None or step.process is None:
        return _PLAIN
    keys = StepKeys(_schema(local_app, step.name, step.process.by))
    return _process_rows(keys) if name == table else _timer_rows(keys)


class StepKeys:
    """Decodes the keys of a step."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._reader = KeyReader(schema, schema.names)
        self._text = len(schema) == 1 and pa.types.is_string(schema.field(0).type)
        self._binary = len(schema) == 1 and pa.types.is_binary(schema.field(0).type)

    def values(self, stored: bytes) -> tuple[Any, ...]:
        """Return one value per key column."""
        return self._reader.values(key_of(stored))

    def shown(self, stored: bytes) -> Any:
        """Return the only value, or a list of several."""
        return self.shown_values(self.values(stored))

    def shown_values(self, values: Sequence[Any]) -> Any:
        """Return the only value, or a list of several."""
        key_values = [plain(value) for value in values]
        return key_values[0] if len(key_values) == 1 else key_values

    def looked_up(self, text: str) -> bytes:
        """Return the key as stored in the table."""
        if self._text:
            return row_key(text.encode())
        if self._binary:
            return row_key(_plain_key(text))
        try:
            key = json.loads(text)
        except ValueError:
            # A date or a timestamp written without JSON quotes.
            key = text
        if key is None and len(self.schema) == 1:
            return row_key(None)
        return row_key(json.dumps(key, separators=(",", ":"), ensure_ascii=False).encode())


def _process_rows(keys: StepKeys) -> RowKind:
    """Key, state, and last touch and timers if there are any; an export has state and timers as JSON text."""
    ours = {"task", "state", "touched", "timers"}
    named = [field.with_name(f"key_{field.name}") if field.name in ours else field for field in keys.schema]
    more = [("state", pa.string()), ("touched", pa.timestamp("ms", tz="UTC")), ("timers", pa.string())]

    def shown(row: Row) -> dict[str, Any]:
        key_state = _key_row(row)
        tree: dict[str, Any] = {"key": keys.shown(row[0]), "state": plain(key_state.values)}
        if key_state.touched:
            tree["touched"] = moment(key_state.touched)
        if key_state.timers:
            tree["timers"] = _timers(key_state.timers)
        return tree

    def exported(row: Row) -> tuple[Any, ...]:
        key_state = _key_row(row)
        timers = as_json(_timers(key_state.timers)) if key_state.timers else None
        return (*keys.values(row[0]), as_json(plain(key_state.values)), key_state.touched or None, timers)

    columns = pa.schema([*named, *(pa.field(name, kind) for name, kind in more)])
    return RowKind(columns, shown, exported, keys.looked_up)


def _timer_rows(keys: StepKeys) -> RowKind:
    """The timer index of a `process` step: ordered by time, so no key can be looked up."""

    def shown(row: Row) -> dict[str, Any]:
        kind, time, key = parse_index_key(row[0])
        return {"key": keys.shown(key), "kind": kind.name.lower(), "time": moment(time)}

    def exported(row: Row) -> tuple[Any, ...]:
        kind, time, key = parse_index_key(row[0])
        return as_json(keys.shown(key)), kind.name.lower(), time

    columns = pa.schema([("key", pa.string()), ("kind", pa.string()), ("time", pa.timestamp("ms", tz="UTC"))])
    return RowKind(columns, shown, exported, lambda _: None)


def plain(value: Any) -> Any:  # noqa: PLR0911 - one per family of types
    """Return a value that JSON can express."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, dict):
        return {key if isinstance(key, str) else as_json(plain(key)): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(inner) for inner in value), key=as_json)
    if isinstance(value, bytes):
        return _BASE64 + base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, datetime | date | time) else str(value)


def text_of(content: bytes) -> str:
    """Return printable UTF-8 as text, anything else in base64."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return plain(content)  # type: ignore[no-any-return]
    return text if text.isprintable() and not text.startswith(_BASE64) else plain(content)


def as_json(value: Any) -> str:
    """Return JSON on one line."""
    return json.dumps(value, ensure_ascii=False)


def moment(milliseconds: int) -> str | int:
    """Return the time in UTC; a time outside the calendar stays a number."""
    try:
        instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return milliseconds
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def row_time(micros: Micros) -> str | int:
    """Return the event time of a row in UTC; a time outside the calendar stays a number, of microseconds."""
    try:
        instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    except OverflowError:
        return micros
    exact = "microseconds" if instant.microsecond % 1000 else "milliseconds"
    return instant.isoformat(timespec=exact).replace("+00:00", "Z")


def shown_values(column: pa.Array) -> list[Any]:
    """Return values of a column that JSON can express; timestamps as `row_time` shows them."""
    if not pa.types.is_timestamp(column.type):
        return [plain(value) for value in column.to_pylist()]
    # As numbers first: some are outside of Python's calendar.
    instants = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    texts = [None if instant is None else row_time(Micros(instant)) for instant in instants]
    if column.type.tz is not None:
        return texts
    return [text.removesuffix("Z") if isinstance(text, str) else text for text in texts]


def _timers(timers: Timers) -> list[dict[str, Any]]:
    kinds = (TimerKind.EVENT, TimerKind.PROCESSING)
    return [
        {"kind": kind.name.lower(), "name": name, "time": moment(time)}
        for kind in kinds
        for name, time in sorted(timers[kind].items())
    ]


def _key_row(row: Row) -> KeyRow:
    return read_rows([row[1]])[0] or KeyRow({}, 0, None)


def _schema(local_app: LocalApp, step: str, by: Sequence[str]) -> pa.Schema:
    """Return the schema of the key columns of the step's input."""
    source = next(step_spec.inputs[0] for step_spec in local_app.app.spec.steps if step_spec.name == step)
    flowing = {producer.name: producer.rows for producer in local_app.plan.streams} | {
        producer.name: producer.rows for producer in local_app.plan.steps
    }
    rows = flowing[source]
    columns = [rows.find(name) for name in by]
    try:
        return arrow_schema(RowType(tuple(column for column in columns if column is not None)))
    except SchemaUnsupportedError:
        return pa.schema([(name, pa.string()) for name in by])


def _plain_key(text: str) -> bytes:
    """Return the key of a text as it is shown."""
    return base64.b64decode(text[len(_BASE64) :]) if text.startswith(_BASE64) else text.encode()


_PLAIN = RowKind(
    columns=pa.schema([("key", pa.binary()), ("value", pa.binary())]),
    shown=lambda row: {"key": text_of(row[0]), "value": text_of(row[1])},
    exported=lambda row: row,
    looked_up=_plain_key,
)
"""Rows of plain bytes: shown as text where possible, else in base64; exported unchanged."""
