"""The part of Debezium's envelope that a table needs: what was done to a row, and what the row is after it."""

from holdfast.planning.types.ddl import typed_columns
from holdfast.planning.types.spark_types import STRING, Column, RowType, struct

OP, AFTER = "op", "after"


def envelope(rows: RowType) -> RowType:
    """Return the columns of envelopes around rows of these columns, whose types must be known."""
    columns = typed_columns(rows)
    assert columns is not None, rows  # noqa: S101 - the caller has looked
    return RowType((Column(OP, str(STRING)), Column(AFTER, str(struct(columns)))))
