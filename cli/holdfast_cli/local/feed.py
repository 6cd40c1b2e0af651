"""Why: a line of JSON is checked before it is written, that it is an object and its key columns are as declared.

The key made here must be the key the app makes of the same row. Needs the extra `runtime`.
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Literal, NoReturn

import pyarrow as pa

ValueKind = Literal["json", "string", "binary", "arrow"]
_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


class BadLineError(ValueError):
    """A line that can't be a record."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


@dataclass(frozen=True, slots=True)
class ParsedLines:
    """The records of some lines, up to the first bad one."""

    values: list[bytes]
    keys: pa.RecordBatch
    bad: BadLineError | None


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How lines become records of a stream."""

    key: Mapping[str, str | None]
    """Key columns and their Spark types; None: not declared, then texts."""
    value: ValueKind
    prefix: bytes = b""
    """What every value starts with: the type byte where there are control messages."""
    checks: list[tuple[str, "KeyColumnKind"]] = field(init=False)

    def __post_init__(self) -> None:
        """Look up what each key column must be."""
        object.__setattr__(self, "checks", [(name, key_column_kind(text)) for name, text in self.key.items()])

    def parse(self, lines: Sequence[bytes], first: int) -> ParsedLines:
        """The records of lines that are numbered from `first`; blank lines are none."""
        values: list[bytes] = []
        keys: dict[str, list[Any]] = {name: [] for name in self.key}
        bad = None
        for number, line in enumerate(lines, start=first):
            text = line.strip()
            if not text:
                continue
            try:
                tree = _object(text)
                value = self._value(text, tree)
                row = [kind.check(name, tree.get(name)) for name, kind in self.checks]
            except (ValueError, RecursionError) as error:
                bad = BadLineError(number, str(error))
                break
            values.append(self.prefix + value)
            for name, cell in zip(keys, row, strict=True):
                keys[name].append(cell)
        columns = [pa.array(keys[name], kind.arrow) for name, kind in self.checks]
        batch = pa.RecordBatch.from_arrays(columns, names=list(keys)) if columns else _no_columns(len(values))
        return ParsedLines(values, batch, bad)

    def _value(self, text: bytes, tree: Mapping[str, Any]) -> bytes:
        if self.value == "json":
            return text
        value = tree.get("value")
        if not isinstance(value, str):
            message = f'a stream of format {self.value} takes objects with a text "value"'
            raise ValueError(message)
        return value.encode() if self.value == "string" else base64.b64decode(value, validate=True)


@dataclass(frozen=True, slots=True)
class KeyColumnKind:
    """What a key column must be, and what it is in Arrow."""

    arrow: pa.DataType
    read: Callable[[Any], Any]
    says: str

    def check(self, name: str, value: Any) -> Any:
        """The value, or what is wrong with it."""
        if value is None:
            return None
        try:
            return self.read(value)
        except (ValueError, TypeError, OverflowError) as error:
            shown = json.dumps(value, ensure_ascii=False)
            message = f"the key column {name} is {self.says}, but the line has {shown}"
            raise ValueError(message) from error


def key_column_kind(spark: str | None) -> KeyColumnKind:
    """The kind of a Spark type."""
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
    # Spark reads anything into a STRING column: what is no text becomes the text of its JSON.
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
