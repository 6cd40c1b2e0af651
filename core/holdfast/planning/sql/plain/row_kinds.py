"""What plain expressions may do with the columns of rows, by their Spark types."""

from collections.abc import Mapping
from typing import Final

from holdfast.planning.sql.plain.kinds import Kind, PlainDecimal, PlainKind, PlainStruct, PlainWhole
from holdfast.planning.types.ddl import parse_type
from holdfast.planning.types.spark_types import RowType, SparkType

_SIMPLE: Final[Mapping[str, Kind]] = {
    "STRING": PlainKind.TEXT,
    "CHAR": PlainKind.TEXT,
    "VARCHAR": PlainKind.TEXT,
    "BOOLEAN": PlainKind.BOOLEAN,
    "TINYINT": PlainWhole.of(8),
    "SMALLINT": PlainWhole.of(16),
    "INT": PlainWhole.of(32),
    "BIGINT": PlainWhole.of(64),
    "DOUBLE": PlainKind.DOUBLE,
    "DATE": PlainKind.DATE,
    "TIMESTAMP": PlainKind.MOMENT,
}


def row_kinds(rows: RowType) -> dict[str, Kind]:
    """Return the kind of each column; empty if names are not unique."""
    kinds = {column.name: _kind(parse_type(column.type)) for column in rows.columns}
    return kinds if len(kinds) == len(rows.columns) else {}


def _kind(kind: SparkType | None) -> Kind:
    if kind is None:
        return PlainKind.OTHER
    if kind.word == "STRUCT":
        return PlainStruct(tuple((name, _kind(inner)) for name, inner in zip(kind.names, kind.inner, strict=True)))
    if kind.word == "DECIMAL":
        return PlainDecimal.of(*kind.digits)
    return _SIMPLE.get(kind.word, PlainKind.OTHER)
