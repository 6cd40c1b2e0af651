"""The careful reader of one JSON record: it returns the values, or a reason that names the field.

Used for the few records that the compiled reader leaves to it, or near one that the fast reader refused. The judge
accepts everything they do, with equal values, and some more ("NaN" as text, a key twice); otherwise neighbours would
decide what is good. If it can't tell (nested too deeply for Python, `Inf`), it says so, and the fast reader is asked
about that record alone. Must not be used for a batch of plainly good records: it is slow.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from math import isinf
from typing import Any, NoReturn

import pyarrow as pa

from holdfast_runtime.streams.codecs.arrow_types import outside_years
from holdfast_runtime.streams.codecs.json_values import dates, from_base64, from_millis, instants, largest
from holdfast_runtime.streams.codecs.plain_codec import not_utf8

EXCERPT = 40
WHOLE = re.compile(r"-?[0-9]{1,20}\Z")
DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,9})?\Z")
NOT_FINITE = {
    "NaN": "nan", "Infinity": "inf", "+Infinity": "inf", "INF": "inf", "+INF": "inf",
    "-Infinity": "-inf", "-INF": "-inf",
}  # fmt: skip
USUAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3}|\.[0-9]{6})?Z\Z")
"""Times that Python reads twenty times faster than pyarrow reads a single one."""
EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
DIGITS = Context(prec=80)
DEEPEST = 400
"""A nesting depth that Python's reader always accepts; its own limit counts the caller's frames too."""
MARKS = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[{\]}]', re.DOTALL)
ValueReader = Callable[[Any, str], Any]


class JsonNumber(str):
    """The text of a JSON number, so that no digit is lost before its type is known."""

    __slots__ = ()


class UnfitError(Exception):
    """The record can't be decoded; the message is the reason. If not `sure`, the fast reader may accept it."""

    def __init__(self, reason: str, *, sure: bool = True) -> None:
        super().__init__(reason)
        self.sure = sure


def judge_of(schema: pa.Schema) -> Callable[[bytes], dict[str, Any]]:
    """Return a function from a record to the values of its columns; it raises `UnfitError`."""
    readers = {field.name: reader_of(field.type) for field in schema}

    def judge(raw: bytes) -> dict[str, Any]:
        tree = parsed(raw)
        if type(tree) is not dict:
            raise UnfitError(f"the value is {shown(tree)}; a record is one JSON object")  # noqa: EM102
        return {name: _value(readers[name], tree.get(name), name) for name in readers}

    return judge


def parsed(raw: bytes) -> Any:
    """Parse the record, keeping numbers as text."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        _unfit(not_utf8(raw))
    if not text.strip():
        _unfit("the value is empty; a record is one JSON object")
    if text.startswith("\ufeff"):
        _unfit("the value starts with a byte order mark; JSON has none")
    if text.count("[") + text.count("{") > DEEPEST and _depth(text) > DEEPEST:
        _unfit("the value is nested too deeply", sure=False)
    try:
        return json.loads(text, parse_float=JsonNumber, parse_int=JsonNumber, parse_constant=JsonNumber)
    except json.JSONDecodeError as error:
        near = f"{error.msg} at character {error.pos + 1}, near {text[error.pos :][:20]!r}"
        _unfit(f"the value is not JSON: {near}", sure="Inf" not in text)  # only the fast reader takes Inf for Infinity


def _depth(text: str) -> int:
    """Return how many arrays and objects are open at once, at most."""
    depth = deepest = 0
    for mark in MARKS.findall(text):
        depth += (mark in "[{") - (mark in "]}")
        deepest = max(deepest, depth)
    return deepest


def reader_of(kind: pa.DataType) -> ValueReader:  # noqa: PLR0911 - one per family of types
    """Return the function that converts JSON values to this type."""
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_map(kind):
        return _map(kind)
    if pa.types.is_list(kind):
        return _list(kind)
    if pa.types.is_integer(kind):
        return _whole(kind)
    if pa.types.is_floating(kind):
        return _floating(kind)
    if pa.types.is_decimal(kind):
        return _decimal(kind)
    return PLAIN[kind.id](kind)


def shown(value: Any) -> str:
    """Return the value as shortened JSON."""
    if isinstance(value, JsonNumber):
        text = str(value)
    elif isinstance(value, dict | list):
        text = "an object" if isinstance(value, dict) else "an array"
    else:
        text = json.dumps(value)
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}..."


def _unfit(reason: str, *, sure: bool = True) -> NoReturn:
    raise UnfitError(reason, sure=sure) from None


def _wrong(path: str, expected: str, value: Any) -> NoReturn:
    _unfit(f"field {path} should be {expected}, found {shown(value)}")


def _value(read: ValueReader, value: Any, path: str) -> Any:
    return None if value is None else read(value, path)


def _struct(kind: pa.StructType) -> ValueReader:
    inner = {field.name: reader_of(field.type) for field in kind}

    def read(value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            _wrong(path, "an object", value)
        return {name: _value(inner[name], value.get(name), f"{path}.{name}") for name in inner}

    return read


def _map(kind: pa.MapType) -> ValueReader:
    inner, key_type = reader_of(kind.item_type), reader_of(kind.key_type)

    def read(value: Any, path: str) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            _wrong(path, "an object", value)
        return [(key_type(key, path), _value(inner, item, f"{path}.{key}"[:200])) for key, item in value.items()]

    return read


def _list(kind: pa.ListType) -> ValueReader:
    inner = reader_of(kind.value_type)

    def read(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list):
            _wrong(path, "an array", value)
        return [_value(inner, item, f"{path}[{index}]") for index, item in enumerate(value)]

    return read


def _whole(kind: pa.DataType) -> ValueReader:
    limit = 1 << (kind.bit_width - 1)

    def read(value: Any, path: str) -> int:
        if not isinstance(value, JsonNumber) or not WHOLE.match(value) or not -limit <= int(value) < limit:
            _wrong(path, f"a whole number of {kind.bit_width} bits", value)
        return int(value)

    return read


def _floating(kind: pa.DataType) -> ValueReader:
    expected = f"a number that a {'DOUBLE' if pa.types.is_float64(kind) else 'FLOAT'} can hold"

    def read(value: Any, path: str) -> float:
        if isinstance(value, str) and value in NOT_FINITE:
            return float(NOT_FINITE[value])
        if not isinstance(value, JsonNumber):
            _wrong(path, "a number", value)
        if isinf(float(value)):
            _wrong(path, expected, value)
        # Converted by pyarrow: a FLOAT that goes through a Python float would be rounded twice.
        number = float(pa.scalar(str(value)).cast(kind).as_py())
        if isinf(number):
            _wrong(path, expected, value)
        return number

    return read


def _decimal(kind: pa.Decimal128Type) -> ValueReader:
    expected = f"a number of DECIMAL({kind.precision},{kind.scale})"
    unit = Decimal((0, (1,), -kind.scale))

    def read(value: Any, path: str) -> Decimal:
        if not isinstance(value, str) or not DECIMAL.match(value):
            _wrong(path, expected, value)
        number = Decimal(value)
        try:
            scaled = number.quantize(unit, context=DIGITS)
        except InvalidOperation:
            _wrong(path, expected, value)
        # Not abs(): it rounds to the 28 digits of the thread's context, so the result may be larger.
        if scaled != number or scaled.copy_abs() > largest(kind):
            _wrong(path, expected, value)
        return scaled

    return read


def _string(_: pa.DataType) -> ValueReader:
    def read(value: Any, path: str) -> str:
        if not isinstance(value, str) or isinstance(value, JsonNumber):
            _wrong(path, "a string", value)
        try:
            value.encode()
        except UnicodeEncodeError:
            _unfit(f"field {path} holds half a surrogate pair, which is no character")
        return value

    return read


def _boolean(_: pa.DataType) -> ValueReader:
    def read(value: Any, path: str) -> bool:
        if not isinstance(value, bool):
            _wrong(path, "true or false", value)
        return value

    return read


def _null(_: pa.DataType) -> ValueReader:
    def read(value: Any, path: str) -> None:
        _wrong(path, "null", value)

    return read


def _by_text(
    expected: str, convert: Callable[[pa.StringArray, pa.DataType], pa.Array]
) -> Callable[[pa.DataType], ValueReader]:
    def of(kind: pa.DataType) -> ValueReader:
        def read(value: Any, path: str) -> Any:
            number = isinstance(value, JsonNumber)
            if not isinstance(value, str) or (number and not (pa.types.is_timestamp(kind) and WHOLE.match(value))):
                _wrong(path, expected, value)
            try:
                if pa.types.is_timestamp(kind) and USUAL.match(value):
                    return (datetime.fromisoformat(value) - EPOCH) // MICROSECOND
                if number:
                    converted = from_millis(pa.array([int(value)], pa.int64()), kind)
                else:
                    converted = convert(pa.array([value], pa.string()), kind)
            except (pa.ArrowInvalid, ValueError, OverflowError, UnicodeEncodeError):
                _wrong(path, expected, value)
            if outside_years(converted, path) is not None:
                _wrong(path, f"{expected}, in the years 1 to 9999", value)
            return converted[0].as_py() if pa.types.is_binary(kind) else converted[0].value

        return read

    return of


PLAIN: dict[int, Callable[[pa.DataType], ValueReader]] = {
    pa.string().id: _string,
    pa.bool_().id: _boolean,
    pa.null().id: _null,
    pa.timestamp("us").id: _by_text("an ISO 8601 time or milliseconds since 1970", instants),
    pa.date32().id: _by_text("a date like 2024-01-31", lambda texts, _: dates(texts)),
    pa.binary().id: _by_text("base64", lambda texts, _: from_base64(texts)),
}
