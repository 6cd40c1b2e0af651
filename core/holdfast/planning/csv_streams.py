"""Which columns no field of a line of CSV can hold.

A field holds one value. Must not know how lines are read.
"""

from collections.abc import Iterator

from holdfast.planning.problems import SqlFinding
from holdfast.planning.types.ddl import parse_type
from holdfast.planning.types.spark_types import RowType
from holdfast.reasons import Reason
from holdfast.spec.streams import Stream

_FIELDS = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"),
    *("STRING", "CHAR", "VARCHAR", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "VOID"),
)


def unwritable_fields(stream: Stream, rows: RowType) -> Iterator[SqlFinding]:
    """A finding for each column of a stream of CSV that is no single value of text."""
    for column in rows.columns if stream.format == "csv" else ():
        kind = parse_type(column.type)
        if kind is None or kind.word.split(" ")[0] in _FIELDS:
            continue
        message = (
            f"column {column.name} of stream {stream.name} is {column.type}, which no field of CSV holds: take its "
            f"parts as columns of their own, make it a text (to_json), or set another format"
        )
        yield SqlFinding(Reason.SCHEMA_INVALID, message)
