"""Lines of a CSV file as the JSON lines that `holdfast feed` takes: names in the first, values in the others.

A file with names can have its columns in any order and leave some out; one without would be rows that look right in
wrong columns, so it is refused. Needs the extra `runtime`. Must not make records.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.spec.streams import CsvRecords
from holdfast.suggest import did_you_mean
from holdfast_cli.local.feed import BadLineError, LineFormat, ParsedLines
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.schema_values import known_columns
from holdfast_runtime.streams.codecs import JsonCodec
from holdfast_runtime.streams.codecs.arrow_types import SchemaUnsupportedError
from holdfast_runtime.streams.codecs.csv import CsvCodec
from holdfast_runtime.streams.codecs.csv.csv_format import BYTE_ORDER_MARK, CsvFormat
from holdfast_runtime.streams.record_columns import MetadataColumns

ENDING = ".csv"
_MOST_SHOWN = 80


@dataclass(slots=True)
class CsvLines:
    """The lines of one file, read from its first on."""

    lines: LineFormat
    columns: pa.Schema
    """Those that a row of the stream may have."""
    written: CsvFormat
    codec: CsvCodec | None = field(default=None, init=False)
    """What reads rows, when the names are known."""

    @classmethod
    def of(cls, local_app: LocalApp, name: str, lines: LineFormat) -> "CsvLines":
        """Return how lines become records of a stream; raise `UsageError` if they can't."""
        stream, known = local_app.fed(name), known_columns(local_app.stream(name).rows)
        if known is None or stream.changes is not None:
            why = (
                "has changes of a database" if known is not None else "has columns that are not known: give it a schema"
            )
            message = f"stream {name} {why}, so rows of CSV are none of its; feed it JSON lines"
            raise UserActionError(message, code="UsageError")
        written = (stream.format == "csv" and stream.csv) or CsvRecords()
        return cls(lines, MetadataColumns.of(stream, known).fed, CsvFormat(written.delimiter, written.null_as))

    def parse(self, lines: Sequence[bytes], first: int) -> ParsedLines:
        """Return the records of these lines, numbered from `first`; blank lines are skipped."""
        rows = [line.rstrip(b"\r") for line in lines]
        if self.codec is None:
            while rows and not rows[0].strip():
                rows, first = rows[1:], first + 1
            if not rows:
                return self.lines.parse([], first)
            try:
                self.codec = self._of_names(rows[0])
            except ValueError as error:
                return self._stopped([], first, BadLineError(first, str(error)))
            rows, first = rows[1:], first + 1
        values = pa.array([row if row.strip() else None for row in rows], pa.binary())
        decoded = self.codec.decode(values)
        objects = [b""] * len(rows)
        for at, text in zip(decoded.good.tolist(), JsonCodec(self.codec.schema).encode(decoded.rows), strict=True):
            objects[at] = text.as_py()
        if not decoded.bad:
            return self.lines.parse(objects, first)
        bad = decoded.bad[0]
        return self._stopped(objects[: bad.index], first, BadLineError(first + bad.index, bad.reason))

    def _stopped(self, objects: Sequence[bytes], first: int, bad: BadLineError) -> ParsedLines:
        """Return the records before a line that is none, unless one of them is none already."""
        parsed = self.lines.parse(objects, first)
        return parsed if parsed.bad is not None else ParsedLines(parsed.values, parsed.keys, bad)

    def _of_names(self, line: bytes) -> CsvCodec:
        """Return what reads rows below these names; raise `ValueError` if they are none of the stream's columns."""
        names, known = self._names(line), self.columns.names
        for name in names:
            if name in known and names.count(name) == 1:
                continue
            fault = "twice" if name in known else f"which the stream has not{did_you_mean(name, known)}"
            message = (
                f"the first line names the columns, and has {name[:_MOST_SHOWN]!r}, {fault} (columns: "
                f"{', '.join(known)})"
            )
            raise ValueError(message)
        try:
            return CsvCodec(pa.schema([self.columns.field(name) for name in names]), self.written)
        except SchemaUnsupportedError as error:
            raise ValueError(str(error)) from error

    def _names(self, line: bytes) -> list[str]:
        text = line.decode(errors="replace").removeprefix(BYTE_ORDER_MARK)
        count = text.count(self.written.delimiter) + 1
        texts = CsvCodec(pa.schema([(str(at), pa.string()) for at in range(count)]), CsvFormat(self.written.delimiter))
        decoded = texts.decode(pa.array([text.encode()], pa.binary()))
        if decoded.bad:
            message = f"the first line names the columns, and is no line of names: {decoded.bad[0].reason}"
            raise ValueError(message)
        return [name or "" for name in decoded.rows.to_pylist()[0].values()]
