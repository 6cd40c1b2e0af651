"""What the declared schema of a stream's records says of its columns, and what in it does not fit them.

What only the registry knows is not known here: the driver compares it with the columns when it starts. Must not ask a
registry.
"""

from collections.abc import Iterable
from typing import Any

from holdfast.planning.problems import ExpressionError, SqlFinding
from holdfast.planning.types.ddl import typed_columns
from holdfast.planning.types.record_formats import RECORD_FORMATS, RecordFormat
from holdfast.planning.types.spark_types import OPEN, RowType
from holdfast.reasons import Reason
from holdfast.spec.streams import Stream


def written_schema(stream: Stream) -> str | None:
    """Return the text of the schema that the stream declares, if it does."""
    return None if stream.record_schema is None else stream.record_schema.schema_


def says_columns(stream: Stream) -> bool:
    """Whether the stream declares a schema that says its columns."""
    known = RECORD_FORMATS.get(stream.format)
    return known is not None and known.columns is not None and written_schema(stream) is not None


def schema_rows(stream: Stream, *, needed: bool) -> tuple[RowType, tuple[SqlFinding, ...]]:
    """Return the columns that the declared schema says, and what is wrong with it.

    Columns that none can be are wrong if they are `needed`.
    """
    known = RECORD_FORMATS[stream.format]
    try:
        schema = _declared(known, stream)
    except ExpressionError as error:
        return OPEN, error.findings
    try:
        return OPEN if known.columns is None else known.columns(schema), ()
    except ExpressionError as error:
        return OPEN, error.findings if needed else ()


def reading_findings(stream: Stream, rows: RowType, *, needed: bool) -> Iterable[SqlFinding]:
    """What is wrong with the declared schema, and, if `needed`, which of the declared columns it can't fill."""
    known = RECORD_FORMATS.get(stream.format)
    if known is None or written_schema(stream) is None:
        return
    try:
        schema = _declared(known, stream)
        if not needed or typed_columns(rows) is None:
            return
        unread = known.unread(schema, rows)
    except ExpressionError as error:
        yield from error.findings
        return
    for misfit in unread.misfits:
        yield SqlFinding(Reason.SCHEMA_MISMATCH, f"schema and {known.field}.schema differ: {misfit}")
    for absent in unread.absent:
        yield SqlFinding(Reason.SCHEMA_MISMATCH, f"schema has a column that {known.field}.schema lacks: {absent}")


def writing_findings(stream: Stream, rows: RowType) -> Iterable[SqlFinding]:
    """A finding for each column of rows that can't be written to a stream whose records have a schema."""
    known, text = RECORD_FORMATS.get(stream.format), written_schema(stream)
    if known is None or typed_columns(rows) is None or (text is None and known.made is None):
        return
    try:
        made = known.made(rows, stream.name) if text is None and known.made is not None else None
        schema = _declared(known, stream) if made is None else known.parse(made, (), None)
    except ExpressionError as error:
        yield from error.findings if text is None else ()  # which are said at the stream
        return
    try:
        misfits = known.unwritten(schema, rows)
    except ExpressionError as error:
        yield from error.findings
        return
    for misfit in misfits:
        message = f"the rows do not fit {known.field}.schema of stream {stream.name}: {misfit}"
        yield SqlFinding(Reason.SCHEMA_MISMATCH, message)


def _declared(known: RecordFormat, stream: Stream) -> Any:
    return known.parse(str(written_schema(stream)), (), stream.message)
