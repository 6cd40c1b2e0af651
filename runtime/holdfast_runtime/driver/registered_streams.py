"""What registries say of the streams of a compiled app, asked before its slots begin."""

from pathlib import Path

import pyarrow as pa

from holdfast.spec.app import AppSpec
from holdfast_runtime.segments.graph import CompiledGraph
from holdfast_runtime.steps.tables.kept_table import without_side
from holdfast_runtime.streams.codecs import DEAD_LETTER_SCHEMA
from holdfast_runtime.streams.record_columns import MetadataColumns
from holdfast_runtime.streams.registered import registered_records
from holdfast_runtime.streams.stream_codecs import SchemaRecords


def registered_streams(spec: AppSpec, compiled: CompiledGraph, secrets: Path | None) -> dict[str, SchemaRecords]:
    """Return the schemas of streams with a registry; raise an error if one does not fit the stream's columns."""
    if all(system.kafka is None or system.kafka.registry is None for system in spec.systems):
        return {}
    declared = {stream.name: stream for stream in spec.streams}

    def in_values(name: str, columns: pa.Schema) -> pa.Schema:
        return MetadataColumns.of(declared.get(name), without_side(columns)).in_value

    read = {node.name: in_values(node.name, node.schema) for node in compiled.sources}
    read |= {name: in_values(name, table.shape.given) for table in compiled.tables for name in table.sources}
    sinks = [(node.step.to or node.step.name, node.schema) for node in compiled.sinks if node.step is not None]
    written = dict.fromkeys(spec.dead_letters, DEAD_LETTER_SCHEMA) | {
        name: in_values(name, columns) for name, columns in sinks
    }
    return registered_records(spec, read, written, secrets)
