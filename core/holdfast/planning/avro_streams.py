"""What the schema of a stream with `format: avro` says of its columns, and what in it does not fit them.

What only the registry knows is not known here: the driver compares it with the columns when it starts. Must not ask a
registry.
"""

from collections.abc import Iterable

from holdfast.planning.problems import ExpressionError, SqlFinding
from holdfast.planning.types.avro.columns import avro_of, columns_of
from holdfast.planning.types.avro.reading import reading
from holdfast.planning.types.avro.schema import parse_avro
from holdfast.planning.types.avro.writing import writing
from holdfast.planning.types.ddl import typed_columns
from holdfast.planning.types.spark_types import OPEN, RowType
from holdfast.reasons import Reason
from holdfast.spec.streams import Stream


def written_schema(stream: Stream) -> str | None:
    """Return the text of the schema that the stream declares, if it does."""
    return stream.avro.schema_ if stream.format == "avro" and stream.avro is not None else None


def avro_rows(text: str, *, needed: bool) -> tuple[RowType, tuple[SqlFinding, ...]]:
    """Return the columns that a schema says, and what is wrong with it; columns that none can be are if `needed`."""
    try:
        schema = parse_avro(text)
    except ExpressionError as error:
        return OPEN, error.findings
    try:
        return columns_of(schema), ()
    except ExpressionError as error:
        return OPEN, error.findings if needed else ()


def reading_findings(text: str, rows: RowType, *, needed: bool) -> Iterable[SqlFinding]:
    """What is wrong with the declared schema, and, if `needed`, which of the declared columns it can't fill."""
    try:
        schema = parse_avro(text)
        if not needed or typed_columns(rows) is None:
            return
        read = reading(schema, rows)
    except ExpressionError as error:
        yield from error.findings
        return
    for misfit in read.misfits:
        yield SqlFinding(Reason.SCHEMA_MISMATCH, f"schema and avro.schema differ: {misfit}")
    for absent in read.absent:
        yield SqlFinding(Reason.SCHEMA_MISMATCH, f"schema has a column that avro.schema lacks: {absent}")


def writing_findings(stream: Stream, rows: RowType) -> Iterable[SqlFinding]:
    """A finding for each column of rows that can't be written to a stream of Avro."""
    if stream.format != "avro" or typed_columns(rows) is None:
        return
    text = written_schema(stream)
    try:
        schema = parse_avro(avro_of(rows, stream.name) if text is None else text)
    except ExpressionError as error:
        yield from error.findings if text is None else ()  # which are said at the stream
        return
    try:
        misfits = writing(schema, rows).misfits
    except ExpressionError as error:
        yield from error.findings
        return
    for misfit in misfits:
        message = f"the rows do not fit avro.schema of stream {stream.name}: {misfit}"
        yield SqlFinding(Reason.SCHEMA_MISMATCH, message)
