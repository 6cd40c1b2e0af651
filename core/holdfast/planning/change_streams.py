"""Streams of a database's changes: where they may be read, and which tables they can keep up to date.

An update says what the row is now, and not which other rows it was before; so only a table by the same key has each row
once. Debezium writes keys in a form of its own, so records lie where no look-up would search for them: a step may copy
them to a stream where they lie by the key. Must not know how records are read.
"""

from collections.abc import Iterable, Iterator

from holdfast.planning.graph import Graph
from holdfast.planning.known_columns import Flow
from holdfast.planning.problems import Problem
from holdfast.reasons import Reason
from holdfast.spec.app import AppSpec
from holdfast.spec.streams import Stream, System, Table

_AFTER = "leave changes out, give it the columns of the envelope, and select after.x"


def change_problems(spec: AppSpec, graph: Graph, flow: Flow) -> Iterator[Problem]:
    """A problem for each use of a stream with `changes` that would give wrong rows."""
    systems = {system.name: system for system in spec.systems}
    for name, stream in sorted(graph.streams.items()):
        if stream.changes is None:
            continue
        messages = [*_of_stream(graph, stream, systems[stream.system])]
        messages += [message for table in graph.tables.values() for message in _of_table(stream, table, flow)]
        messages += _of_key(stream, flow)
        yield from (Problem(Reason.CHANGES_INVALID, message, stream=name) for message in messages)


def _of_stream(graph: Graph, stream: Stream, system: System) -> Iterator[str]:
    name = stream.name
    for step in graph.readers.get(name, ()):
        yield from _of_reader(graph, stream, step)
    if name in graph.stream_writers or name in graph.dead_letters:
        yield f"stream {name} has changes of a database, which Debezium writes, and this app would write it, too"
    if system.generator is not None:
        yield f"stream {name} has changes of a database, and system {system.name} makes its records up"
    if stream.format == "avro" and (system.kafka is None or system.kafka.registry is None):
        yield (
            f"keys and values of {name} have schemas of their own, which only a registry tells apart: name the "
            f"registry of system {system.name}, or let the connector write JSON"
        )


def _of_reader(graph: Graph, stream: Stream, name: str) -> Iterator[str]:
    """A message if a step that reads changes does more than to copy them to where their key puts them."""
    step = graph.steps[name]
    if step.to is None or len(step.inputs) > 1:
        yield (
            f"stream {stream.name} has changes of a database, which are no rows of their own, and step {name} reads "
            f"it: let a table have {stream.name} among its sources, and look rows up there; let a step with to copy it "
            f"to a stream with the same key; or, if each change counts, {_AFTER}"
        )
        return
    target, key = graph.streams[step.to], ", ".join(stream.key or ())
    copies = f"step {name} copies {stream.name} to {target.name}"
    if _folded(target.partition_key or ()) != _folded(stream.key or ()):
        yield (
            f"{copies}, whose key is ({', '.join(target.partition_key or ())}) and not the primary key ({key}), by "
            f"which records without a value say which row is gone: set key: [{key}]"
        )
    if target.partitioner == "none":
        yield f"{copies}, where partitioner is none, and changes of a row have an order: set murmur2 or crc32"
    if target.control or target.name in graph.readers:
        yield (
            f"{copies}, whose records carry control messages, as steps read them as they come, and records of deleted "
            "rows have no value: let another app read the copy, without control: true"
        )
    if target.format in ("string", "binary"):
        yield f"{copies}, whose format is {target.format}, and rows have columns: set another one"


def _folded(names: Iterable[str]) -> set[str]:
    return {name.casefold() for name in names}


def _of_table(stream: Stream, table: Table, flow: Flow) -> Iterator[str]:
    if stream.name not in (table.sources or ()):
        return
    if table.distribution != "Broadcast":
        yield (
            f"table {table.name} is Partitioned, and Debezium writes keys as objects, by which records lie in other "
            f"partitions than rows with these keys: make table {table.name} Broadcast, or let another app copy "
            f"{stream.name}, and have the copy among its sources"
        )
    if table.versioned:
        yield (f"table {table.name} is versioned, for data sets that end, and changes have no end: leave versioned out")
    key, stored = stream.key or (), [_stored(table, name, flow) for name in table.key]
    if {name and name.casefold() for name in stored} != _folded(key):
        yield (
            f"table {table.name} has the key ({', '.join(table.key)}) and its source {stream.name} ({', '.join(key)}): "
            f"rows that a change replaces are known by the primary key alone, so that both must be that"
        )


def _stored(table: Table, column: str, flow: Flow) -> str | None:
    """Return the column of the source that a table has under this name; None if it computes it."""
    if table.select is None:
        return column
    sources = next(
        (sources for name, sources in flow.stored.get(table.name, {}).items() if name.casefold() == column.casefold()),
        frozenset(),
    )
    return min((source for _, source in sources), default=None)


def _of_key(stream: Stream, flow: Flow) -> Iterator[str]:
    rows = flow.rows[stream.name]
    inside = [name for name in stream.key or () if "." in name and rows.closed and rows.find(name) is None]
    if inside:
        yield f"key of {stream.name} has {inside[0]}, and a primary key consists of whole columns: name these"
