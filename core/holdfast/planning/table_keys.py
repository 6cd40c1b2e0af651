"""What of Broadcast tables hosts compute without Spark: keys, as rows come, and columns that functions look up.

Both have to be plain. What is plain of columns with these types is said before there is a Spark session; the compiled
app asks again with the types that Spark gives. Pure.
"""

from collections.abc import Iterator

from holdfast.planning.join_columns import split_table
from holdfast.planning.problems import SqlFinding
from holdfast.planning.sql.plain.kinds import Kind, PlainDecimal, PlainKind, PlainStruct, PlainWhole
from holdfast.planning.sql.plain.reading import sure_select
from holdfast.planning.types.ddl import parse_type
from holdfast.planning.types.spark_types import RowType, SparkType
from holdfast.reasons import Reason
from holdfast.spec.streams import Table

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_SIMPLE = {
    "STRING": PlainKind.TEXT,
    "VARCHAR": PlainKind.TEXT,
    "CHAR": PlainKind.TEXT,
    "BOOLEAN": PlainKind.BOOLEAN,
    "TIMESTAMP": PlainKind.MOMENT,
    "DATE": PlainKind.DATE,
    "DOUBLE": PlainKind.DOUBLE,
}


def spark_computed_keys(table: Table, rows: RowType) -> Iterator[SqlFinding]:
    """A finding for each column of the key that only Spark SQL computes; `rows`: rows that the `select` can take."""
    if table.select is None or table.distribution != "Broadcast":
        return
    kinds = {column.name: _kind(parse_type(column.type)) for column in rows.columns}
    columns = split_table(table.select, rows.names).computed
    computed = {name.casefold(): column.written for name, column in columns.items()}
    for name in table.key:
        written = computed.get(name.casefold())
        if written is not None and sure_select((written,), kinds) is None:
            yield SqlFinding(Reason.TABLE_KEY_COMPUTED, spark_computed(table.name, name, written))


def spark_computed(table: str, column: str, written: str) -> str:
    """Return why a column of a table's key can't be this expression, and what to do."""
    return (
        f"the key {column} of table {table} is {written}, which only Spark SQL computes, and a table on each host is "
        f"filled without it: give the rows such a column in their source, or distribution: Partitioned"
    )


def out_of_reach(table: Table, rows: RowType | None) -> str | None:
    """Return why a function can't look rows up in a table, and what to do; None if it can.

    `rows`: rows that its `select` can take; None: they are not known.
    """
    if table.distribution != "Broadcast":
        fed = table.sources is not None
        message = f"tasks have only their own rows of table {table.name}, and a function may ask for any: "
        return f"{message}{'set distribution: Broadcast, or ' if fed else ''}put a lookup step before this one"
    if table.select is None or rows is None:
        return None
    kinds = {column.name: _kind(parse_type(column.type)) for column in rows.columns}
    for name, column in split_table(table.select, rows.names).computed.items():
        if sure_select((column.written,), kinds) is None:
            return spark_computed_for_function(table.name, name, column.written)
    return None


def spark_computed_for_function(table: str, column: str, written: str) -> str:
    """Return why a function can't look up a table with such a column, and what to do."""
    return (
        f"column {column} of table {table} is {written}, which only Spark SQL computes, and functions look rows up "
        f"without it: give the rows such a column in their source, or put a lookup step before this one"
    )


def _kind(kind: SparkType | None) -> Kind:
    if kind is None:
        return PlainKind.OTHER
    if kind.word in _BITS:
        return PlainWhole.of(_BITS[kind.word])
    if kind.word == "DECIMAL":
        precision, scale = kind.digits
        return PlainDecimal.of(precision, scale)
    if kind.word == "STRUCT":
        return PlainStruct(tuple(zip(kind.names, map(_kind, kind.inner), strict=True)))
    return _SIMPLE.get(kind.word, PlainKind.OTHER)
