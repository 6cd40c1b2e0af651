"""The columns of a stream's rows, of values and of what else its records have, and whether key and event time fit.

Must not know steps: `derived_columns` follows the rows from here.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.planning.csv_streams import unwritable_fields
from holdfast.planning.graph import Graph
from holdfast.planning.known_columns import Flow, missing_columns
from holdfast.planning.problems import SqlFinding
from holdfast.planning.schema_streams import reading_findings, says_columns, schema_rows
from holdfast.planning.sql.expressions import Scope, check_value
from holdfast.planning.sql.plain.reading import sure_select
from holdfast.planning.sql.plain.row_kinds import row_kinds
from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.types.spark_types import OPEN, UNKNOWN, Column, RowType
from holdfast.reasons import Reason
from holdfast.spec.streams import EventTime, MetadataField, Stream
from holdfast.suggest import did_you_mean

_TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_ONE_VALUE = {"string": RowType((Column("value", "STRING"),)), "binary": RowType((Column("value", "BINARY"),))}
_NO_LETTERS = (*_ONE_VALUE, "csv")
"""Formats without a place for each column of a dead letter."""
_METADATA: Final[Mapping[MetadataField, str]] = {
    "key": "STRING",
    "keyBytes": "BINARY",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
}
_ONLY_READ: Final[Mapping[MetadataField, str]] = {
    "partition": "follows from the key",
    "offset": "is given by whoever holds the stream",
    "timestamp": "is the event time of the row",
}

DEAD_LETTERS = parse_schema(
    "reason STRING, stream STRING, partition INT, offset BIGINT, key BINARY, value BINARY, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, step STRING, column STRING"
)
"""The columns of dead letters."""


def stream_rows(graph: Graph, name: str, flow: Flow) -> RowType:
    """Return the rows of a stream; open rows if it declares no schema."""
    stream = graph.streams[name]
    rows, one_value = OPEN, _ONE_VALUE.get(stream.format)
    is_read = name in graph.readers or name in graph.side_inputs
    if stream.schema_ is not None:
        rows = flow.parsed(stream.schema_, stream=name)
        flow.at_stream(name, *reading_findings(stream, rows, needed=is_read))
        if one_value is not None and rows.closed and rows != one_value:
            value = one_value.columns[0]
            message = f"a {stream.format} stream has one column, {value.name} {value.type}; its schema says otherwise"
            flow.at_stream(name, SqlFinding(Reason.SCHEMA_INVALID, message))
        flow.at_stream(name, *unwritable_fields(stream, rows))
    elif one_value is not None:
        rows = one_value
    elif says_columns(stream):
        rows, findings = schema_rows(stream, needed=is_read)
        flow.at_stream(name, *findings)
    else:
        flow.at_stream(name, *reading_findings(stream, rows, needed=False))
    if is_read and stream.schema_ is None and one_value is None and not says_columns(stream):
        example = '"id STRING, ts TIMESTAMP"'
        message = f"stream {name} is read, so its columns must be known: give it a schema, e.g. {example}"
        flow.at_stream(name, SqlFinding(Reason.SCHEMA_MISSING, message))
    if stream.start is not None and (name not in graph.readers or name in graph.stream_writers):
        message = f"stream {name} has start: {stream.start}, and is no input of steps; leave it out"
        flow.at_stream(name, SqlFinding(Reason.START_INVALID, message))
    if name in graph.dead_letters and stream.format in _NO_LETTERS:
        message = f"stream {name} takes dead letters, and format {stream.format} can't hold them: set format: json"
        flow.at_stream(name, SqlFinding(Reason.SCHEMA_INVALID, message))
    flow.at_stream(name, *_metadata_findings(stream, rows, written=name in graph.stream_writers))
    metadata = (Column(column, _METADATA[field]) for column, field in stream.metadata_columns.items())
    rows = RowType((*rows.columns, *metadata), closed=rows.closed)
    flow.at_stream(name, *key_findings(stream.key or (), rows, "key"), *event_time_findings(stream.event_time, rows))
    return rows


def without_metadata(stream: Stream, rows: RowType) -> RowType:
    """Return the columns of rows that are in the values of a stream's records."""
    beside = stream.metadata_columns
    return RowType(tuple(column for column in rows.columns if column.name not in beside), closed=rows.closed)


def _metadata_findings(stream: Stream, rows: RowType, *, written: bool) -> Iterable[SqlFinding]:
    names = {name.casefold() for name in rows.names}
    for field, column in stream.metadata_pairs:
        if column.casefold() in names:
            other_name = f"{field} AS record_{column}"
            message = f"metadata gives a second column {column}; give it another name, e.g. {other_name}"
            yield SqlFinding(Reason.DUPLICATE_COLUMN, message)
        names.add(column.casefold())
    for column, field in stream.metadata_columns.items() if written else ():
        if field in _ONLY_READ:
            message = (
                f"metadata has {field}, but steps write this stream, and there it {_ONLY_READ[field]}; leave it out"
            )
            yield SqlFinding(Reason.METADATA_INVALID, message)
        if field in ("key", "keyBytes") and stream.partition_key != (column,):
            message = (
                f"records are written with {', '.join(stream.partition_key or ())} as their key, so {column} can't be "
                f"their {field} too; leave it out of metadata, or leave key out"
            )
            yield SqlFinding(Reason.METADATA_INVALID, message)


def key_findings(key: Iterable[str], rows: RowType, what: str) -> Iterable[SqlFinding]:
    """A finding for each part of a key that is neither a column nor a field inside one; `what` the key is called."""
    for name in key:
        if "." not in name or rows.find(name) is not None:
            yield from missing_columns([name], rows, what)
        elif isinstance(resolved := Scope.of(rows).find(tuple(name.split("."))), SqlFinding):
            yield SqlFinding(resolved.reason, f"{what}: {resolved.message}")


def event_time_findings(event_time: EventTime | None, rows: RowType) -> list[SqlFinding]:
    """Return what is wrong with the event time of these rows."""
    if event_time is None or not rows.closed:
        return []
    if event_time.column is None:
        return list(_computed_time(str(event_time.from_), event_time, rows))
    column = rows.find(event_time.column)
    if column is None:
        advice = did_you_mean(event_time.column, rows.names)
        message = f"eventTime names {event_time.column}, which is no column{advice}"
        return [SqlFinding(Reason.EVENT_TIME_INVALID, message)]
    if column.type not in _TIMESTAMPS:
        cure = f"; if it counts time, write from: {column.name} and its unit" if column.type in _WHOLE else ""
        message = f"eventTime names {column.name}, which is {column.type}; it must be a TIMESTAMP{cure}"
        return [SqlFinding(Reason.EVENT_TIME_INVALID, message)]
    return []


def _computed_time(text: str, event_time: EventTime, rows: RowType) -> Iterable[SqlFinding]:
    checked = check_value(text, Scope.of(rows), "eventTime.from")
    if checked.findings:
        yield from checked.findings
    elif checked.type in _WHOLE and event_time.unit is None:
        message = f"eventTime.from is {text}, which is {checked.type}; say what it counts, e.g. unit: Milliseconds"
        yield SqlFinding(Reason.EVENT_TIME_INVALID, message)
    elif checked.type in _TIMESTAMPS and event_time.unit is not None:
        message = f"eventTime.from is {text}, which is {checked.type} and has no unit; leave unit out"
        yield SqlFinding(Reason.EVENT_TIME_INVALID, message)
    elif checked.type not in (*_TIMESTAMPS, *_WHOLE, UNKNOWN):
        message = f"eventTime.from is {text}, which is {checked.type}; it must be a TIMESTAMP or a whole number"
        yield SqlFinding(Reason.EVENT_TIME_INVALID, message)
    elif sure_select([f"{text} AS event_time"], row_kinds(rows)) is None:
        message = (
            f"eventTime.from is {text}, which can fail on a row or needs Spark; compute it in a select step, and give "
            f"that step the eventTime, with the new column"
        )
        yield SqlFinding(Reason.EVENT_TIME_INVALID, message)
