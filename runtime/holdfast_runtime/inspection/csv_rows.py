"""Rows of a CSV file as JSON objects, for people who feed a stream: names in the first line, values in the others.

A file with names can have its columns in any order and leave some out; one without would be rows that look right in
wrong columns, so it is refused. Must not make records.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.spec.streams import CsvRecords
from holdfast.suggest import did_you_mean
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.schema_values import known_columns
from holdfast_runtime.streams.codecs import JsonCodec
from holdfast_runtime.streams.codecs.arrow_types import SchemaUnsupportedError
from holdfast_runtime.streams.codecs.csv import CsvCodec
from holdfast_runtime.streams.codecs.csv.csv_format import BYTE_ORDER_MARK, CsvFormat
from holdfast_runtime.streams.record_columns import MetadataColumns

_MOST_SHOWN = 80


class CsvNamesError(ValueError):
    """The first line of a file does not name columns of the stream."""


@dataclass(frozen=True, slots=True)
class CsvColumns:
    """What a row of a stream may have, and how it is written."""

    columns: pa.Schema
    written: CsvFormat

    @classmethod
    def of(cls, local_app: LocalApp, name: str) -> "CsvColumns":
        """Return those of a stream; raise `UsageError` if its rows can't be lines."""
        stream, known = local_app.fed(name), known_columns(local_app.stream(name).rows)
        if known is None or stream.changes is not None:
            why = "has columns that are not known: give it a schema" if known is None else "has changes of a database"
            message = f"stream {name} {why}, so rows of CSV are none of its; feed it JSON lines"
            raise UserActionError(message, code="UsageError")
        written = (stream.format == "csv" and stream.csv) or CsvRecords()
        return cls(MetadataColumns.of(stream, known).fed, CsvFormat(written.delimiter, written.null_as))

    def rows(self, line: bytes) -> "CsvRows":
        """Return what reads rows below a line of names; raise `CsvNamesError` if these are none of the columns."""
        names, known = self._names(line), self.columns.names
        for name in names:
            if name in known and names.count(name) == 1:
                continue
            fault = "twice" if name in known else f"which the stream has not{did_you_mean(name, known)}"
            message = f"the first line names the columns, and has {name[:_MOST_SHOWN]!r}, {fault}"
            raise CsvNamesError(message)
        try:
            return CsvRows(CsvCodec(pa.schema([self.columns.field(name) for name in names]), self.written))
        except SchemaUnsupportedError as error:
            raise CsvNamesError(str(error)) from error

    def _names(self, line: bytes) -> list[str]:
        text = line.decode(errors="replace").removeprefix(BYTE_ORDER_MARK)
        count = text.count(self.written.delimiter) + 1
        texts = CsvCodec(pa.schema([(str(at), pa.string()) for at in range(count)]), CsvFormat(self.written.delimiter))
        decoded = texts.decode(pa.array([text.encode()], pa.binary()))
        if decoded.bad:
            message = f"the first line names the columns, and is no line of names: {decoded.bad[0].reason}"
            raise CsvNamesError(message)
        return [name or "" for name in decoded.rows.to_pylist()[0].values()]


@dataclass(frozen=True, slots=True)
class CsvRows:
    """The rows below a line of names."""

    codec: CsvCodec

    def objects(self, lines: Sequence[bytes]) -> tuple[list[bytes], str | None]:
        """Return an object per line, empty for a blank one, up to the first that is no row; and why it is none."""
        decoded = self.codec.decode(pa.array([line if line.strip() else None for line in lines], pa.binary()))
        objects = [b""] * len(lines)
        for at, text in zip(decoded.good.tolist(), JsonCodec(self.codec.schema).encode(decoded.rows), strict=True):
            objects[at] = text.as_py()
        if not decoded.bad:
            return objects, None
        return objects[: decoded.bad[0].index], decoded.bad[0].reason
