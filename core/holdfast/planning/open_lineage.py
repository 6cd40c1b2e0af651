"""Events of OpenLineage about the attempts of an app: its datasets with their columns, and where each comes from.

The app is a job and an attempt one of its runs. Streams and files are its datasets, under the names that OpenLineage
gives topics and objects, so that other jobs' events meet them; tables, and streams that steps make, are the app's own.
Pure: dictionaries as they are sent; time and cause come in as arguments.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal
from urllib.parse import unquote, urlsplit

from holdfast.one_line import one_line
from holdfast.planning.derived_columns import flow_rows
from holdfast.planning.graph import build_graph
from holdfast.planning.lineage import ColumnUse, InputColumn, RowLineage, Uses, lineage_in
from holdfast.planning.stream_columns import DEAD_LETTERS
from holdfast.planning.types.spark_types import RowType
from holdfast.spec.app import AppSpec, StreamApp
from holdfast.spec.streams import Stream, System

RunState = Literal["START", "RUNNING", "COMPLETE", "ABORT", "FAIL"]
PRODUCER: Final = "https://holdfast.dev"
_SPEC: Final = "https://openlineage.io/spec"
_FACETS: Final = {
    "columnLineage": "1-2-0/ColumnLineageDatasetFacet",
    "errorMessage": "1-0-1/ErrorMessageRunFacet",
    "jobType": "2-0-4/JobTypeJobFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
    "schema": "1-2-0/SchemaDatasetFacet",
}
_KAFKA_PORT: Final = 9092
_MOST_USES: Final = 20_000
"""Of an output with more of them no lineage is sent: a function over a thousand columns would make a million."""
_LONGEST_ERROR: Final = 2000
Json = dict[str, Any]
_Names = Mapping[tuple[str, str], tuple[str, str]]
"""Kind and name in the app -> namespace and name in OpenLineage."""


@dataclass(frozen=True, slots=True)
class LineageRun:
    """An attempt, as nothing else is called anywhere."""

    uid: str
    """Of the StreamApp."""
    run: str
    number: int

    @property
    def run_id(self) -> str:
        """The id of its run in OpenLineage, always the same, so that nothing has to keep it."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{PRODUCER}/{self.uid}/{self.run}/{self.number}"))


@dataclass(frozen=True, slots=True)
class LineageJob:
    """An app as a job of OpenLineage."""

    namespace: str
    name: str
    bounded: bool
    """Whether all that it reads ends."""
    inputs: tuple[Json, ...]
    outputs: tuple[Json, ...]

    def event(self, state: RunState, attempt: LineageRun, at: int, *, version: str, error: str | None = None) -> Json:
        """Return the event that an attempt is in this state now; `at`: milliseconds since 1970.

        Datasets have their columns when an attempt starts; events of a run add up.
        """
        starts = state == "START"
        run_facets: Json = {"processing_engine": _facet("processing_engine", name="Holdfast", version=version)}
        if error is not None:
            text = one_line(error, _LONGEST_ERROR)
            run_facets["errorMessage"] = _facet("errorMessage", message=text, programmingLanguage="PYTHON")
        return {
            "eventType": state,
            "eventTime": datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds"),
            "producer": PRODUCER,
            "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
            "run": {"runId": attempt.run_id, "facets": run_facets},
            "job": {
                "namespace": self.namespace,
                "name": self.name,
                "facets": {
                    "jobType": _facet(
                        "jobType",
                        processingType="BATCH" if self.bounded else "STREAMING",
                        integration="HOLDFAST",
                        jobType="JOB",
                    )
                },
            },
            "inputs": [dataset if starts else _bare(dataset) for dataset in self.inputs],
            "outputs": [dataset if starts else _bare(dataset) for dataset in self.outputs],
        }


def lineage_job(app: StreamApp, namespace: str) -> LineageJob:
    """Return an app whose plan is valid as a job; `namespace` is that of the app, where the spec names no other."""
    spec = app.spec
    graph = build_graph(spec)
    flow = flow_rows(graph)
    lineage = lineage_in(graph, flow)
    names = _dataset_names(spec, f"holdfast://{namespace}/{app.name}")
    read = [name for name in sorted(graph.streams) if graph.is_input(name)]
    inputs = [_dataset(names["stream", name], flow.rows[name]) for name in read]
    inputs += [
        _dataset(names["files", table.name], flow.parsed(table.schema_ or ""))
        for table in spec.tables
        if table.files is not None
    ]
    outputs = []
    for name, rows in sorted(lineage.streams.items()):
        columns = flow.rows_in(name) if flow.rows_in(name).columns else DEAD_LETTERS
        outputs.append(_dataset(names["stream", name], columns, _column_lineage(rows, names)))
    declared = spec.runtime.lineage
    return LineageJob(
        (declared and declared.namespace) or namespace,
        app.name,
        all(graph.streams[name].bounded for name in read),
        tuple(inputs),
        tuple(outputs),
    )


def _dataset_names(spec: AppSpec, private: str) -> _Names:
    """`private`: the namespace of what is in no system that others can name."""
    systems = {system.name: system for system in spec.systems}
    names: dict[tuple[str, str], tuple[str, str]] = {
        ("stream", stream.name): _topic(stream, systems[stream.system], private) for stream in spec.streams
    }
    files = ((table.name, table.files.location) for table in spec.tables if table.files is not None)
    return names | {("files", table): _object(location) for table, location in files}


def _topic(stream: Stream, system: System, private: str) -> tuple[str, str]:
    topic = stream.topic or stream.name
    if system.kafka is None:
        return private, f"{system.name}/{topic}"
    first = system.kafka.bootstrap_servers.split(",")[0].strip().rpartition("://")[2]
    has_port = ":" in first.rpartition("]")[2]
    return f"kafka://{first}" + ("" if has_port else f":{_KAFKA_PORT}"), topic


def _object(location: str) -> tuple[str, str]:
    """The dataset that files at a location are: an object's key has no slash before it, a path has."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return "file", unquote(parts.path)
    return f"s3://{parts.netloc}", unquote(parts.path).lstrip("/")


def _facet(facet: str, **fields: Any) -> Json:
    schema = _FACETS[facet]
    pointer = schema.rpartition("/")[2]
    return {"_producer": PRODUCER, "_schemaURL": f"{_SPEC}/facets/{schema}.json#/$defs/{pointer}", **fields}


def _dataset(name: tuple[str, str], rows: RowType, facets: Mapping[str, Json] | None = None) -> Json:
    fields = [{"name": column.name, "type": column.type} for column in rows.columns]
    schema = {"schema": _facet("schema", fields=fields)} if fields else {}
    return {"namespace": name[0], "name": name[1], "facets": {**schema, **(facets or {})}}


def _bare(dataset: Json) -> Json:
    return {"namespace": dataset["namespace"], "name": dataset["name"], "facets": {}}


def _column_lineage(lineage: RowLineage, names: _Names) -> Json:
    """The facet under its name, unless it would be too large."""
    if len(lineage.rows) + sum(map(len, lineage.columns.values())) > _MOST_USES:
        return {}
    fields = {column: {"inputFields": _input_fields(uses, names)} for column, uses in lineage.columns.items()}
    return {"columnLineage": _facet("columnLineage", fields=fields, dataset=_input_fields(lineage.rows, names))}


def _input_fields(uses: Uses, names: _Names) -> list[Json]:
    """One entry for each column, with all that it is used for."""
    by_input: dict[InputColumn, list[ColumnUse]] = {}
    for use in sorted(uses):
        by_input.setdefault(use.input, []).append(use)
    return [_input_field(column, column_uses, names) for column, column_uses in by_input.items()]


def _input_field(column: InputColumn, uses: Iterable[ColumnUse], names: _Names) -> Json:
    namespace, name = names[column.kind, column.name]
    return {
        "namespace": namespace,
        "name": name,
        "field": column.column,
        "transformations": [{"type": use.type, "subtype": use.subtype} for use in uses],
    }
