"""The parser of Spark DDL: schemas and types as `StructType.fromDDL` accepts and refuses them.

A wrong schema must be a problem of the plan, not a driver's stack trace. The grammar is only a page long and is
implemented here: general SQL parsers accept far more than Spark does. Must not parse expressions.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NoReturn

from holdfast.planning.problems import ExpressionError, SqlFinding, excerpt
from holdfast.planning.types.spark_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL_FIELDS,
    MAX_PRECISION,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    VOID,
    Column,
    RowType,
    SparkType,
    array,
    interval,
    mapping,
    struct,
)
from holdfast.reasons import Reason
from holdfast.suggest import near_miss

PIECE = re.compile(
    r"""\s+ | --[^\n]* | /\*.*?\*/
      | (?P<piece> `(?:[^`]|``)+` | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | [A-Za-z0-9_]+ | [<>(),:] )""",
    re.VERBOSE | re.DOTALL,
)
NUMBER = re.compile(r"\d+(e\d+)?(l|s|y|d|f|bd)?\Z", re.IGNORECASE)
WHOLE = re.compile(r"[0-9]{1,9}\Z")
NAME = re.compile(r"[A-Za-z0-9_]+\Z")
MAX_DEPTH = 50
MAX_LENGTH = 200_000
SHORT = 1000

PLAIN = {
    "BOOLEAN": BOOLEAN, "TINYINT": TINYINT, "BYTE": TINYINT, "SMALLINT": SMALLINT, "SHORT": SMALLINT, "INT": INT,
    "INTEGER": INT, "BIGINT": BIGINT, "LONG": BIGINT, "FLOAT": FLOAT, "REAL": FLOAT, "DOUBLE": DOUBLE, "DATE": DATE,
    "TIMESTAMP": TIMESTAMP, "TIMESTAMP_LTZ": TIMESTAMP, "TIMESTAMP_NTZ": TIMESTAMP_NTZ, "STRING": STRING,
    "BINARY": BINARY, "VOID": VOID, "VARIANT": SparkType("VARIANT"),
}  # fmt: skip
DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
SIZED = {"CHAR": "CHAR", "CHARACTER": "CHAR", "VARCHAR": "VARCHAR", "GEOMETRY": "GEOMETRY", "GEOGRAPHY": "GEOGRAPHY"}
WORDS = (*PLAIN, *DECIMALS, *SIZED, "ARRAY", "MAP", "STRUCT", "INTERVAL", "TIME")
ELSEWHERE = {"TEXT": "STRING", "BOOL": "BOOLEAN", "DATETIME": "TIMESTAMP", "NUMBER": "DECIMAL", "JSON": "STRING"}


def parse_schema(ddl: str) -> RowType:
    """Return the columns of a schema like `ad_id STRING, ts TIMESTAMP`; raise `ExpressionError` if Spark refuses it."""
    fields = _short_schema(ddl) if len(ddl) <= SHORT else _long_schema(ddl)
    return RowType(tuple(Column(name, str(kind)) for name, kind in fields))


def parse_type(text: str) -> SparkType | None:
    """Return the type in this text; None if it is no type (e.g. `UNKNOWN`)."""
    return _short_type(text) if len(text) <= SHORT else _long_type(text)


def typed_columns(rows: RowType) -> tuple[tuple[str, SparkType], ...] | None:
    """Return the columns of rows with their types; None if not all of them are known."""
    columns = tuple((column.name, kind) for column in rows.columns if (kind := parse_type(column.type)) is not None)
    return columns if rows.closed and len(columns) == len(rows.columns) else None


def column_at(rows: RowType, name: str) -> Column | None:
    """Return a column of these rows, or the field inside one to which a name with dots leads; None if it is unknown."""
    column = rows.find(name)
    if column is not None or "." not in name:
        return column
    first, *path = name.split(".")
    outer = rows.find(first)
    kind = None if outer is None else parse_type(outer.type)
    for part in path:
        kind = None if kind is None else kind.field(part)
    return None if kind is None else Column(name, str(kind))


def _type(text: str) -> SparkType | None:
    try:
        reader = _Reader(text)
        kind = reader.type(0)
        reader.end()
    except ExpressionError:
        return None
    return kind


# The caches live as long as the process, so they hold many short types but few long ones.
_short_type, _long_type = lru_cache(maxsize=4096)(_type), lru_cache(maxsize=64)(_type)


def _parsed(ddl: str) -> tuple[tuple[str, SparkType], ...]:
    reader = _Reader(ddl)
    if not reader.pieces:
        _refuse("the schema is empty; write columns like user STRING, ts TIMESTAMP")
    fields = reader.fields(0, reader.separator_free_name)
    reader.end()
    return fields


_short_schema, _long_schema = lru_cache(maxsize=1024)(_parsed), lru_cache(maxsize=64)(_parsed)


def _refuse(message: str) -> NoReturn:
    raise ExpressionError(SqlFinding(Reason.SCHEMA_INVALID, message)) from None


def _cut(ddl: str) -> list[str]:
    if len(ddl) > MAX_LENGTH:
        _refuse(f"the schema is {len(ddl)} characters long; at most {MAX_LENGTH} are read")
    pieces, index = [], 0
    while index < len(ddl):
        match = PIECE.match(ddl, index)
        if match is None:
            _refuse(
                f"the schema can't be read at character {index + 1}, {excerpt(ddl[index : index + 20])!r}; "
                "names with anything but letters, digits and _ stand in backquotes"
            )
        if match["piece"]:
            pieces.append(match["piece"])
        index = match.end()
    return pieces


class _Reader:
    """Parses the tokens of one schema. Each method parses what it is named after and stops after it."""

    def __init__(self, ddl: str) -> None:
        self.pieces = _cut(ddl)
        self.at = 0

    @property
    def here(self) -> str:
        return self.pieces[self.at] if self.at < len(self.pieces) else ""

    def take(self) -> str:
        piece = self.here
        self.at += 1
        return piece

    def accept(self, *words: str) -> bool:
        """Skip these tokens if all of them come next; return whether they did."""
        ahead = self.pieces[self.at : self.at + len(words)]
        if [piece.upper() for piece in ahead] != list(words):
            return False
        self.at += len(words)
        return True

    def expect(self, word: str, after: str) -> None:
        if not self.accept(word):
            _refuse(f"the schema should go on with {word} after {after}, but {self.found()}")

    def found(self) -> str:
        return f"there stands {excerpt(self.here)}" if self.here else "it ends there"

    def end(self) -> None:
        if self.here:
            before = excerpt(self.pieces[self.at - 1])
            _refuse(f"the schema should end or go on with a comma after {before}, but {self.found()}")

    def fields(self, depth: int, name: Callable[[], str]) -> tuple[tuple[str, SparkType], ...]:
        fields: list[tuple[str, SparkType]] = []
        spellings: dict[str, str] = {}
        while not fields or self.accept(","):
            column = name()
            folded = column.casefold()
            if folded in spellings:
                _refuse(f"the schema names {column} twice (as {spellings[folded]} before); names ignore case")
            spellings[folded] = column
            fields.append((column, self.type(depth, column)))
            self.accept("NOT", "NULL")
            if self.accept("COMMENT"):
                self.comment(column)
        return tuple(fields)

    def separator_free_name(self) -> str:
        """A top-level name of a schema, after which Spark allows no colon."""
        name = self.name()
        if self.here == ":":
            _refuse(f"the column {name} is followed by a colon; write {name} and its type with a space between")
        return name

    def field_name(self) -> str:
        name = self.name()
        self.accept(":")
        return name

    def name(self) -> str:
        piece = self.take()
        if piece.startswith("`"):
            return piece[1:-1].replace("``", "`")
        if not NAME.match(piece) or NUMBER.match(piece):
            self.at -= 1
            _refuse(f"the schema should name a column, but {self.found()}")
        return piece

    def comment(self, column: str) -> None:
        if not self.here.startswith(("'", '"')):
            _refuse(f"the COMMENT of {column} is a text in quotes, but {self.found()}")
        while self.here.startswith(("'", '"')):
            self.take()

    def type(self, depth: int, column: str = "") -> SparkType:
        if depth > MAX_DEPTH:
            _refuse(f"the schema nests types deeper than {MAX_DEPTH} levels")
        of = f" of {column}" if column else ""
        written = self.take()
        word = written.upper()
        if word in PLAIN:
            return self.dressed(PLAIN[word])
        if word in DECIMALS:
            return self.decimal(of)
        if word in SIZED:
            return SparkType(SIZED[word], digits=(self.size(written, of),))
        if word == "TIME":
            return SparkType("TIME", digits=(self.size(written, of) if self.here == "(" else 6,))
        if word == "INTERVAL":
            return self.interval()
        if word in ("ARRAY", "MAP", "STRUCT"):
            return self.nested(word, depth + 1)
        if not word or not (NAME.match(word) or word.startswith("`")):
            self.at -= 1
            _refuse(f"the type{of} is missing, {self.found()}; write it as in {column or 'user'} STRING")
        near = f"; did you mean {ELSEWHERE[word]}?" if word in ELSEWHERE else near_miss(word, WORDS)
        _refuse(f"the type{of} is {excerpt(written)}, which Spark SQL does not know{near}")

    def dressed(self, kind: SparkType) -> SparkType:
        """A plain type with the words that may follow it."""
        if kind == TIMESTAMP and self.accept("WITHOUT", "TIME", "ZONE"):
            return TIMESTAMP_NTZ
        if kind == STRING and self.accept("COLLATE"):
            return SparkType(f"STRING COLLATE {self.name().upper()}")
        return kind

    def whole_number(self, of: str) -> int:
        piece = self.take()
        if not WHOLE.match(piece):
            self.at -= 1
            _refuse(f"the type{of} should have a whole number in its brackets, but {self.found()}")
        return int(piece)

    def size(self, word: str, of: str) -> int:
        if not self.accept("("):
            _refuse(f"the type{of} needs a length, as in {word}(10)")
        number = self.whole_number(of)
        self.expect(")", str(number))
        return number

    def decimal(self, of: str) -> SparkType:
        precision, scale = 10, 0
        if self.accept("("):
            precision = self.whole_number(of)
            scale = self.whole_number(of) if self.accept(",") else 0
            self.expect(")", str(scale))
        if precision > MAX_PRECISION or scale > precision:
            _refuse(
                f"the type{of} is DECIMAL({precision},{scale}); a decimal has at most {MAX_PRECISION} digits in all, "
                "and the digits behind the point are among them"
            )
        return SparkType("DECIMAL", digits=(precision, scale))

    def interval(self) -> SparkType:
        first = self.here.upper()
        if first not in INTERVAL_FIELDS:
            return SparkType("INTERVAL")
        self.take()
        if not self.accept("TO"):
            return interval(first, first)
        last = self.take().upper()
        months = first in INTERVAL_FIELDS[:2]
        family = INTERVAL_FIELDS[:2] if months else INTERVAL_FIELDS[2:]
        if last not in family or family.index(last) <= family.index(first):
            _refuse(f"there is no INTERVAL {first} TO {last or '...'}; write YEAR TO MONTH or DAY TO SECOND")
        return interval(first, last)

    def nested(self, word: str, depth: int) -> SparkType:
        if not self.accept("<"):
            _refuse(f"{word} does not say what is in it; write ARRAY<INT>, MAP<STRING, INT> or STRUCT<a: INT>")
        kind: SparkType
        if word == "STRUCT":
            kind = struct(() if self.here == ">" else self.fields(depth, self.field_name))
        elif word == "ARRAY":
            kind = array(self.type(depth))
        else:
            key = self.type(depth)
            self.expect(",", f"the key type {key}")
            kind = mapping(key, self.type(depth))
        self.expect(">", f"what is in {word}")
        return kind
