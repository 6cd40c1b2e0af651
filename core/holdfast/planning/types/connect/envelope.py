"""What a table needs of Debezium's records: what was done to a row, what the row is after it, and its key."""

from collections.abc import Sequence

from holdfast.planning.types.ddl import typed_columns
from holdfast.planning.types.spark_types import STRING, Column, RowType, struct

OP, AFTER = "op", "after"


def envelope(rows: RowType) -> RowType:
    """Return the columns of envelopes around rows of these columns, whose types must be known."""
    columns = typed_columns(rows)
    assert columns is not None, rows  # noqa: S101 - the caller has looked
    return RowType((Column(OP, str(STRING)), Column(AFTER, str(struct(columns)))))


def other_key(names: Sequence[str], key: Sequence[str]) -> str | None:
    """Return why keys of records with these columns are not those of a stream with this `key`; None if they are."""
    if set(names) == set(key):
        return None
    return (
        f"its key has {', '.join(names[:_MOST_SHOWN]) or 'no columns'}, and key of the stream is ({', '.join(key)}): "
        f"write all columns of the primary key into key of stream and table, and no other"
    )


_MOST_SHOWN = 8
