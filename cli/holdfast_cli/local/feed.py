"""JSON lines as records of a stream, or as deletes of keys: checked, keyed and written in batches.

Each line must be an object whose key columns have the declared types. The key made here must equal the key that the
app makes of the same row. A bad line stops the feed, and the error says how many records were written before it.
Needs the extra `runtime`; imported only by `holdfast feed`.
"""

import base64
import json
import os
import select
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, NoReturn, Protocol

import pyarrow as pa

from holdfast.errors import HoldfastError, UserActionError
from holdfast.planning.types.ddl import column_at
from holdfast.spec.streams import SHOWN_AS_JSON, ValueFormat
from holdfast_runtime.driver.stream_feeds import RecordFeed
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.schema_values import SchemaValues

_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


class BadLineError(ValueError):
    """A line that can't become a record."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


@dataclass(frozen=True, slots=True)
class ParsedLines:
    """The records of some lines, up to the first bad one."""

    values: Sequence[bytes | None]
    """None: the record has no value."""
    keys: pa.RecordBatch
    bad: BadLineError | None


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How lines are turned into records of a stream."""

    key: Mapping[str, str | None]
    """Key columns and their Spark types; None: not declared, so values must be strings."""
    value: ValueFormat
    prefix: bytes = b""
    """Start of every value: the type byte, if the stream carries control messages."""
    schema_values: SchemaValues | None = None
    """What makes records of rows, if those of the stream have a schema."""
    deletes: bool = False
    """Whether lines are keys, and records have no value."""
    changes: bool = False
    """Whether lines are envelopes of Debezium, with the row and its key inside."""
    checks: list[tuple[str, "KeyColumnKind"]] = field(init=False)

    def __post_init__(self) -> None:
        """Look up the kind of each key column."""
        object.__setattr__(self, "checks", [(name, key_column_kind(text)) for name, text in self.key.items()])

    @classmethod
    def of(cls, local_app: LocalApp, name: str, *, deletes: bool) -> "LineFormat":
        """Return how lines are turned into records of a stream; raise `UsageError` if they can't be."""
        stream, typed = local_app.fed(name), local_app.has_type_bytes(name)
        if deletes and (typed or not stream.partition_key):
            why = "its records carry control messages" if typed else "its records have no key"
            message = f"--delete: stream {name} has no deletes, as {why}"
            raise UserActionError(message, code="UsageError")
        if stream.changes is not None and (stream.format != "json" or len(stream.key or ()) > 1):
            message = (
                f"stream {name} has changes of a database, which feed writes as JSON with a key of one column; let a "
                f"producer of your own write its records"
            )
            raise UserActionError(message, code="UsageError")
        rows = local_app.stream(name).rows
        columns = {column: column_at(rows, column) for column in stream.partition_key or ()}
        types = {column: declared.type if declared else None for column, declared in columns.items()}
        values = None if deletes else SchemaValues.fed(local_app, name)
        if stream.format in SHOWN_AS_JSON and values is None and not deletes:
            message = f"the columns of stream {name} are not known, so no records can be made; give it a schema"
            raise UserActionError(message, code="UsageError")
        changes = stream.changes is not None and not deletes
        return cls(types, stream.format, b"\0" if typed else b"", values, deletes, changes)

    def parse(self, lines: Sequence[bytes], first: int) -> ParsedLines:
        """Return the records of these lines, numbered from `first`; blank lines are skipped."""
        values: list[bytes] = []
        numbers: list[int] = []
        keys: dict[str, list[Any]] = {name: [] for name in self.key}
        bad = None
        for number, line in enumerate(lines, start=first):
            text = line.strip()
            if not text:
                continue
            try:
                tree = _object(text)
                named = _changed_row(tree) if self.changes else tree
                row = [kind.check(name, _at(named, name)) for name, kind in self.checks]
                if self.deletes:
                    self._check_delete(tree, row)
                value = b"" if self.deletes else self._value(text, tree)
            except (ValueError, RecursionError) as error:
                bad = BadLineError(number, str(error))
                break
            values.append(value)
            numbers.append(number)
            for name, cell in zip(keys, row, strict=True):
                keys[name].append(cell)
        if self.schema_values is not None:
            values, reason = self.schema_values.values(values)
            if reason is not None:
                bad = BadLineError(numbers[len(values)], reason)
                keys = {name: cells[: len(values)] for name, cells in keys.items()}
        columns = [pa.array(keys[name], kind.arrow) for name, kind in self.checks]
        batch = pa.RecordBatch.from_arrays(columns, names=list(keys)) if columns else _no_columns(len(values))
        made = [None] * len(values) if self.deletes else [self.prefix + value for value in values]
        return ParsedLines(made, batch, bad)

    def _check_delete(self, tree: Mapping[str, Any], key: Sequence[Any]) -> None:
        """Refuse a line that is more or less than a key: a row that was meant to be written would be deleted."""
        if None in key:
            message = f"a delete needs a value for each key column ({', '.join(self.key)})"
            raise ValueError(message)
        if beside := tree.keys() - self.key - {name.partition(".")[0] for name in self.key}:
            message = f"a delete has the key columns alone ({', '.join(self.key)}), and the line has {min(beside)}"
            raise ValueError(message)

    def _value(self, text: bytes, tree: Mapping[str, Any]) -> bytes:
        if self.value not in ("string", "binary"):
            return text
        value = tree.get("value")
        if not isinstance(value, str):
            message = f'a stream of format {self.value} takes objects with a text "value"'
            raise ValueError(message)
        return value.encode() if self.value == "string" else base64.b64decode(value, validate=True)


def _changed_row(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row of an envelope, or the one that it deletes."""
    payload = tree.get("payload", tree)
    row = (payload.get("after") or payload.get("before")) if isinstance(payload, dict) else None
    if not isinstance(row, dict):
        message = "a line must be an envelope of Debezium, with a row in after, or in before where it is deleted"
        raise ValueError(message)
    return row


def _at(tree: Mapping[str, Any], name: str) -> Any:
    """Return a field of an object, or the one inside it to which a name with dots leads."""
    if name in tree:
        return tree[name]
    first, _, rest = name.partition(".")
    inner = tree.get(first) if rest else None
    return _at(inner, rest) if isinstance(inner, dict) else None


@dataclass(frozen=True, slots=True)
class KeyColumnKind:
    """How values of a key column are checked, and their Arrow type."""

    arrow: pa.DataType
    read: Callable[[Any], Any]
    says: str

    def check(self, name: str, value: Any) -> Any:
        """Return the checked value; raise `ValueError` if it has the wrong type."""
        if value is None:
            return None
        try:
            return self.read(value)
        except (ValueError, TypeError, OverflowError) as error:
            shown = json.dumps(value, ensure_ascii=False)
            message = f"the key column {name} is {self.says}, but the line has {shown}"
            raise ValueError(message) from error


def key_column_kind(spark: str | None) -> KeyColumnKind:
    """Return the kind for a Spark type."""
    spark = None if spark == "UNKNOWN" else spark
    name = (spark or "").upper()
    if name in _INTEGERS:
        bits = _INTEGERS[name]
        return KeyColumnKind(getattr(pa, f"int{bits}")(), lambda value: _integer(value, bits), name)
    simple = {
        "STRING": KeyColumnKind(pa.string(), _string, "STRING"),
        "BOOLEAN": KeyColumnKind(pa.bool_(), _boolean, "BOOLEAN"),
        "DOUBLE": KeyColumnKind(pa.float64(), _double, "DOUBLE"),
        "BINARY": KeyColumnKind(
            pa.binary(), lambda value: base64.b64decode(_text(value), validate=True), "BINARY (base64)"
        ),
        "DATE": KeyColumnKind(pa.date32(), lambda value: date.fromisoformat(_text(value)), "DATE"),
        "TIMESTAMP": KeyColumnKind(pa.timestamp("us", "UTC"), _timestamp, "TIMESTAMP"),
    }
    if name in simple:
        return simple[name]
    says = "not declared and must be a text" if spark is None else f"{spark}, which `feed` can't make keys of"
    return KeyColumnKind(pa.string(), _text if spark is None else _refuse, says)


def _object(text: bytes) -> dict[str, Any]:
    try:
        tree = json.loads(text, parse_constant=_refuse)
    except UnicodeDecodeError as error:
        message = "not UTF-8"
        raise ValueError(message) from error
    except ValueError as error:
        message = f"not JSON: {error}"
        raise ValueError(message) from error
    if not isinstance(tree, dict):
        message = f"a line must be a JSON object, not {type(tree).__name__}"
        raise ValueError(message)
    return tree


def _refuse(value: object) -> NoReturn:
    message = f"{value} is not allowed"
    raise ValueError(message)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        _refuse(value)
    return value


def _string(value: Any) -> str:
    # Spark reads any value into a STRING column: other values become their JSON text.
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _integer(value: Any, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << bits - 1) <= value < 1 << bits - 1:
        _refuse(value)
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        _refuse(value)
    return value


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(value)
    return float(value)


def _timestamp(value: Any) -> datetime:
    read = datetime.fromisoformat(_text(value))
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _no_columns(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


_BATCH = 10_000
_READ = 1 << 18


class ParsesLines(Protocol):
    """Makes records of the lines of a file."""

    def parse(self, lines: Sequence[bytes], first: int, /) -> ParsedLines:
        """Return the records of these lines, numbered from `first`; blank lines are skipped."""


@dataclass(frozen=True, slots=True)
class Feed:
    """Writes lines into one stream."""

    stream: RecordFeed
    lines: ParsesLines

    @property
    def written(self) -> int:
        """How many records were written."""
        return self.stream.written


def feed(
    to: Feed, file: int, name: str, *, clock: Callable[[], int], progress: Callable[[int], None] | None = None
) -> None:
    """Write all lines of a file. The lines before a bad one are written."""
    number = 1
    for lines in _batches(file):
        parsed = to.lines.parse(lines, number)
        try:
            if parsed.values:
                to.stream.write(parsed.keys, parsed.keys.schema.names, parsed.values, clock())
        except HoldfastError as error:
            message = f"{error} ({to.written} records were written before that)"
            raise UserActionError(message, code="FeedStoppedError") from error
        if parsed.bad is not None:
            raise _stopped(name, parsed.bad, to.written)
        number += len(lines)
        if progress is not None:
            progress(to.written)


def _stopped(name: str, bad: BadLineError, written: int) -> UserActionError:
    return UserActionError(
        f"{name}:{bad.line}: {bad}; the {written} records before this line were written, it and all after it were not",
        code="FeedStoppedError",
    )


def _batches(file: int) -> Iterator[list[bytes]]:
    """Yield lines in batches: full ones while input flows, smaller ones as soon as the writer pauses."""
    lines: list[bytes] = []
    rest = b""
    while data := os.read(file, _READ):
        *whole, rest = (rest + data).split(b"\n")
        lines += whole
        while len(lines) >= _BATCH:
            yield lines[:_BATCH]
            lines = lines[_BATCH:]
        if lines and not select.select([file], [], [], 0)[0]:
            yield lines
            lines = []
    if rest:
        lines.append(rest)
    if lines:
        yield lines
