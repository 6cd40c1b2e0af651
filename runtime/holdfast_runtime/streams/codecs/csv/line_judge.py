"""The careful reader of one line of CSV: the values of its columns, or a reason that names the field.

It is the law for csv_records.c, which reads what is good and plain and leaves the others to it. Texts mean what they do
in JSON: numbers are as in JSON, times and bytes as in its strings. Must not be lenient: a line of another number of
fields was written for other columns.
"""

import re
from typing import Any, NoReturn

import pyarrow as pa

from holdfast_runtime.streams.codecs.csv.csv_format import BYTE_ORDER_MARK, LINE_BREAKS, QUOTE, CsvFormat
from holdfast_runtime.streams.codecs.json_judge import JsonNumber, UnfitError, ValueReader, reader_of, shown
from holdfast_runtime.streams.codecs.plain_codec import not_utf8
from holdfast_runtime.streams.codecs.record_reader import UnreadableError

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")
_BOOLEANS = {"true": True, "false": False}
_QUOTED = re.compile(r'"((?:[^"]|"")*+)"')


class LineJudge:
    """Reads lines of some columns."""

    def __init__(self, schema: pa.Schema, written: CsvFormat) -> None:
        self._names, self._format = schema.names, written
        self._readers: list[ValueReader] = [_by_text(field.type) for field in schema]
        self._bare = re.compile(rf'[^{re.escape(written.delimiter)}"\r\n]*+')

    def read(self, raw: bytes) -> tuple[Any, ...]:
        """Return the values of a line; raise `UnreadableError` if it is none of these columns."""
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            _unreadable(not_utf8(raw))
        if text.startswith(BYTE_ORDER_MARK):
            _unreadable("the value starts with a byte order mark; a line has none")
        fields = self._fields(text)
        if len(fields) != len(self._names):
            self._wrong_count(fields)
        try:
            return tuple(
                None if field is None else read(field, name)
                for name, read, field in zip(self._names, self._readers, fields, strict=True)
            )
        except UnfitError as error:
            _unreadable(str(error))

    def _fields(self, text: str) -> list[str | None]:
        """Return the texts of fields, None of those that are null."""
        fields: list[str | None] = []
        if not self._names and not text:
            return fields
        at = 0
        while True:
            quoted = _QUOTED.match(text, at)
            if quoted:
                fields.append(quoted[1].replace(QUOTE + QUOTE, QUOTE))
                after = quoted.end()
            else:
                bare = self._bare.match(text, at)
                after = at if bare is None else bare.end()
                fields.append(None if text[at:after] == self._format.null else text[at:after])
            if after == len(text):
                return fields
            if text[after] != self._format.delimiter:
                self._broken(len(fields) - 1, text, at, after)
            at = after + 1

    def _broken(self, number: int, text: str, start: int, after: int) -> NoReturn:
        """Say why a field does not end where it should."""
        name, field = self._name(number), shown(text[start:])
        if text[after] in LINE_BREAKS:
            _unreadable(
                f"a line break follows field {name} at character {after + 1}; a record is one line without its end, "
                f"and a field with line breaks stands in quotes"
            )
        if text[start] != QUOTE:
            _unreadable(
                f"field {name} has a quote inside, {field}; put it into quotes, and write each of its own twice"
            )
        if after == start:
            _unreadable(f"field {name} begins with a quote that nothing closes, {field}; write a quote inside twice")
        _unreadable(f"field {name} goes on behind its closing quote, {field}; write a quote inside twice")

    def _wrong_count(self, fields: list[str | None]) -> NoReturn:
        count, columns = len(fields), len(self._names)
        counts = f"the line has {_many(count, 'field')} and the stream {_many(columns, 'column')}"
        if count < columns:
            missing = ", ".join(self._names[count:][:3]) + (", ..." if columns - count > 3 else "")  # noqa: PLR2004
            empty = f"{self._format.null} in it" if self._format.null else "nothing in it"
            _unreadable(
                f"{counts}: {missing} {'is' if columns - count == 1 else 'are'} missing; null is a field with {empty}"
            )
        extra = fields[columns]
        _unreadable(
            f"{counts}: the first that no column takes is {'null' if extra is None else shown(extra)}; a field that "
            f"holds {shown(self._format.delimiter)} stands in quotes"
        )

    def _name(self, number: int) -> str:
        return self._names[number] if number < len(self._names) else str(number + 1)


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _by_text(kind: pa.DataType) -> ValueReader:
    """Return the reader of a field's text."""
    read = reader_of(kind)
    if pa.types.is_boolean(kind):
        return lambda text, path: read(_BOOLEANS.get(text, text), path)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_timestamp(kind):
        return lambda text, path: read(JsonNumber(text) if _NUMBER.match(text) else text, path)
    return read


def _unreadable(reason: str) -> NoReturn:
    raise UnreadableError(reason) from None
