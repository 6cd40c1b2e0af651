"""Why: the rows that streams bring and side inputs store, from what the spec declares of them.

Must not look at steps.
"""

from holdfast.planning.flow_part import Flow, copies, differing, findings_of, missing_columns, selected
from holdfast.planning.graph import Graph
from holdfast.planning.sql.expressions import Scope, check_select
from holdfast.planning.types.columns import OPEN, Column, RowType
from holdfast.planning.types.findings import SqlFinding
from holdfast.reasons import Reason
from holdfast.spec.streams import Stream
from holdfast.spec.tables import Table
from holdfast.suggest import did_you_mean

_TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_ONE_VALUE = {"string": RowType((Column("value", "STRING"),)), "binary": RowType((Column("value", "BINARY"),))}


def stream_rows(graph: Graph, name: str, flow: Flow) -> RowType:
    """The rows of a stream; open ones where nothing is declared."""
    stream = graph.streams[name]
    rows, one_value = OPEN, _ONE_VALUE.get(stream.format)
    if stream.schema_ is not None:
        rows = flow.parsed(stream.schema_, stream=name)
        if one_value is not None and rows.closed and rows != one_value:
            value = one_value.columns[0]
            message = f"a {stream.format} stream has one column, {value.name} {value.type}; its schema says otherwise"
            flow.at_stream(name, SqlFinding(Reason.SCHEMA_INVALID, message))
    elif one_value is not None:
        rows = one_value
    elif name in graph.readers or name in graph.side_inputs:
        example = '"id STRING, ts TIMESTAMP"'
        message = f"stream {name} is read, so its columns must be known: give it a schema, e.g. {example}"
        flow.at_stream(name, SqlFinding(Reason.SCHEMA_MISSING, message))
    flow.at_stream(name, *missing_columns(stream.key or (), rows, "key"), *_event_time(stream, rows))
    return rows


def _event_time(stream: Stream, rows: RowType) -> list[SqlFinding]:
    if stream.event_time is None or not rows.closed:
        return []
    column = rows.find(stream.event_time.column)
    if column is None:
        advice = did_you_mean(stream.event_time.column, rows.names)
        message = f"eventTime names {stream.event_time.column}, which is no column{advice}"
        return [SqlFinding(Reason.EVENT_TIME_INVALID, message)]
    if column.type not in _TIMESTAMPS:
        message = f"eventTime names {column.name}, which is {column.type}; it must be a TIMESTAMP"
        return [SqlFinding(Reason.EVENT_TIME_INVALID, message)]
    return []


def declared_table_rows(graph: Graph, name: str, flow: Flow) -> RowType | None:
    """The rows of a table with sources or a schema; None where its writers decide."""
    table = graph.tables[name]
    if table.sources is not None:
        rows = _stored_rows(table, table.sources, flow)
    elif table.schema_ is not None:
        rows = flow.parsed(table.schema_, stream=name)
    else:
        return None
    flow.at_stream(name, *missing_columns(table.key, rows, "key"))
    return rows


def _stored_rows(table: Table, sources: tuple[str, ...], flow: Flow) -> RowType:
    found: list[RowType] = []
    for source in sources:
        rows = flow.rows[source]
        if table.select is not None:
            checked = check_select(table.select, Scope.of(rows))
            flow.at_stream(table.name, *findings_of(checked))
            rows = selected(checked)
            flow.stored[table.name] = copies(checked, {"": (0,)})
        found.append(rows)
    for source, rows in zip(sources[1:], found[1:], strict=True):
        if difference := differing(found[0], rows):
            message = f"the rows of {sources[0]} and {source} differ: {difference}"
            flow.at_stream(table.name, SqlFinding(Reason.SCHEMA_MISMATCH, message))
    return found[0]
