"""Events of OpenLineage: built again from OpenLineage's own classes, for every example, they are the same."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    error_message_run,
    job_type_job,
    processing_engine_run,
    schema_dataset,
)
from openlineage.client.serde import Serde
from ruamel.yaml import YAML

from holdfast.planning.open_lineage import PRODUCER, LineageJob, LineageRun, lineage_job
from holdfast.spec.parse import parse_app
from tests.pipelines.drawn import drawn_app
from tests.planning.apps import app_of, step, stream

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.yaml"))
ATTEMPT = LineageRun("1f0c", "1", 3)
AT = 1_764_400_000_123


def column_lineage(fields: dict[str, Any], dataset: list[Any]) -> column_lineage_dataset.ColumnLineageDatasetFacet:
    def taken(columns: list[Any]) -> list[column_lineage_dataset.InputField]:
        return [
            column_lineage_dataset.InputField(
                **{
                    **column,
                    "transformations": [
                        column_lineage_dataset.Transformation(**how) for how in column["transformations"]
                    ],
                }
            )
            for column in columns
        ]

    return column_lineage_dataset.ColumnLineageDatasetFacet(
        fields={name: column_lineage_dataset.Fields(taken(made["inputFields"])) for name, made in fields.items()},
        dataset=taken(dataset),
    )


def schema(fields: list[Any]) -> schema_dataset.SchemaDatasetFacet:
    return schema_dataset.SchemaDatasetFacet([schema_dataset.SchemaDatasetFacetFields(**field) for field in fields])


FACETS: dict[str, Any] = {
    "columnLineage": column_lineage,
    "errorMessage": error_message_run.ErrorMessageRunFacet,
    "jobType": job_type_job.JobTypeJobFacet,
    "processing_engine": processing_engine_run.ProcessingEngineRunFacet,
    "schema": schema,
}


def facets(tree: dict[str, Any]) -> dict[str, Any]:
    made = {}
    for name, facet in tree["facets"].items():
        made[name] = FACETS[name](**{field: value for field, value in facet.items() if not field.startswith("_")})
        made[name]._producer = facet["_producer"]  # noqa: SLF001 - as their classes call it
    return made


def rebuilt(event: dict[str, Any]) -> RunEvent:
    """The same event, made by OpenLineage's classes, which judge ids and times."""
    run, job = event["run"], event["job"]
    return RunEvent(
        eventTime=event["eventTime"],
        producer=event["producer"],
        run=Run(run["runId"], facets(run)),
        job=Job(job["namespace"], job["name"], facets(job)),
        eventType=RunState(event["eventType"]),
        inputs=[InputDataset(one["namespace"], one["name"], facets=facets(one)) for one in event["inputs"]],
        outputs=[OutputDataset(one["namespace"], one["name"], facets=facets(one)) for one in event["outputs"]],
    )


def without_nothing(tree: Any) -> Any:
    """A tree without empty parts, which mean the same as none."""
    if isinstance(tree, dict):
        parts = {name: without_nothing(part) for name, part in tree.items()}
        return {name: part for name, part in parts.items() if part not in ({}, [], None)}
    return [without_nothing(part) for part in tree] if isinstance(tree, list) else tree


def check(job: LineageJob) -> None:
    events = [
        job.event("START", ATTEMPT, AT, version="1.0"),
        job.event("RUNNING", ATTEMPT, AT, version="1.0"),
        job.event("FAIL", ATTEMPT, AT, version="1.0", error="it\nfailed"),
    ]
    for event in events:
        serialized = json.loads(Serde.to_json(rebuilt(event)))
        assert without_nothing(serialized) == without_nothing(json.loads(json.dumps(event)))
    columns = {(one["namespace"], one["name"]): names_of(one) for one in events[0]["inputs"]}
    for output in events[0]["outputs"]:
        lineage = output["facets"]["columnLineage"]
        assert list(lineage["fields"]) == names_of(output)
        for use in [*lineage["dataset"], *(use for made in lineage["fields"].values() for use in made["inputFields"])]:
            assert use["field"] in columns[use["namespace"], use["name"]]


def names_of(dataset: dict[str, Any]) -> list[str]:
    return [field["name"] for field in dataset["facets"]["schema"]["fields"]]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_events_of_an_example_are_openlineages_own(path: Path) -> None:
    app = parse_app(YAML(typ="safe").load(path))
    job = lineage_job(app, "team")
    assert job.outputs
    check(job)


@pytest.mark.parametrize("seed", range(10))
def test_events_of_a_drawn_pipeline_are_openlineages_own(seed: int) -> None:
    check(lineage_job(parse_app(drawn_app(random.Random(seed), timers=True)), "team"))  # noqa: S311 - it draws tests


def job_of(*, servers: str = "kafka-0:9092,kafka-1:9092", **spec: Any) -> LineageJob:
    """An app from Kafka, with a table of files, to Kafka."""
    table = {"name": "rates", "key": ["k"], "schema": "k STRING, rate BIGINT", "distribution": "Broadcast"}
    files = {"location": "s3a://reference/a/rates", "format": "csv"}
    rated = {"table": "rates", "by": ["k"], "select": ["k", "v * rate AS worth"]}
    app = app_of(
        [
            stream("in", system="events", topic="shop.orders", partitions=None),
            stream("out", system="events", schema=None, eventTime=None, partitions=None),
        ],
        [step("few", "in", filter="v > 1"), step("rated", "few", lookup=rated), step("last", "rated", to="out")],
        systems=[{"name": "events", "kafka": {"bootstrapServers": servers}}],
        tables=[table | {"files": files, "versioned": True}],
        **spec,
    )
    return lineage_job(app, "team")


def test_datasets_have_the_names_that_others_give_them() -> None:
    job = job_of()
    names = [(one["namespace"], one["name"]) for one in (*job.inputs, *job.outputs)]
    assert names == [
        ("kafka://kafka-0:9092", "shop.orders"),
        ("s3://reference", "a/rates"),
        ("kafka://kafka-0:9092", "out"),
    ]
    (out,) = job.outputs
    lineage = out["facets"]["columnLineage"]
    assert lineage["fields"]["worth"]["inputFields"] == [
        {
            "namespace": "s3://reference",
            "name": "a/rates",
            "field": "rate",
            "transformations": [{"type": "DIRECT", "subtype": "TRANSFORMATION"}],
        },
        {
            "namespace": "kafka://kafka-0:9092",
            "name": "shop.orders",
            "field": "v",
            "transformations": [{"type": "DIRECT", "subtype": "TRANSFORMATION"}],
        },
    ]
    assert {
        (use["field"], how["subtype"], how["type"]) for use in lineage["dataset"] for how in use["transformations"]
    } == {
        ("k", "JOIN", "INDIRECT"),
        ("v", "FILTER", "INDIRECT"),
    }


@pytest.mark.parametrize(
    ("servers", "namespace"),
    [
        ("a:9093", "kafka://a:9093"),
        (" a , b:9092", "kafka://a:9092"),
        ("SSL://a:9094", "kafka://a:9094"),
        ("[::1]:9095", "kafka://[::1]:9095"),
        ("[::1]", "kafka://[::1]:9092"),
    ],
)
def test_a_cluster_is_called_by_its_first_server(servers: str, namespace: str) -> None:
    assert job_of(servers=servers).inputs[0]["namespace"] == namespace


def test_a_job_is_of_the_namespace_that_the_spec_names() -> None:
    named = job_of(runtime={"lineage": {"url": "http://a", "namespace": "prod"}})
    assert [(job.namespace, job.name) for job in (job_of(), named)] == [("team", "app"), ("prod", "app")]


def test_an_attempt_has_the_same_id_in_all_its_events() -> None:
    job, other = job_of(), LineageRun("1f0c", "1", 4)
    ids = [job.event(state, ATTEMPT, AT, version="1")["run"]["runId"] for state in ("START", "RUNNING", "COMPLETE")]
    assert len(set(ids)) == 1
    assert job.event("START", other, AT, version="1")["run"]["runId"] != ids[0]


def test_only_a_start_tells_columns_and_only_a_failure_why() -> None:
    job = job_of()
    start, running = (job.event(state, ATTEMPT, AT, version="1") for state in ("START", "RUNNING"))
    failed = job.event("FAIL", ATTEMPT, AT, version="1", error="one\x1b[31m\ntwo" + "x" * 3000)
    assert start["outputs"][0]["facets"].keys() == {"schema", "columnLineage"}
    assert running["outputs"][0]["facets"] == failed["outputs"][0]["facets"] == {}
    message = failed["run"]["facets"]["errorMessage"]["message"]
    assert message.startswith("one [31m two")
    assert len(message) == 2000
    assert start["eventTime"] == "2025-11-29T07:06:40.123+00:00"
    assert start["producer"] == PRODUCER


@pytest.mark.parametrize(("columns", "is_sent"), [(100, True), (200, False)])
def test_lineage_that_would_fill_megabytes_is_left_out(columns: int, is_sent: bool) -> None:
    wide = stream("in", schema=", ".join(f"c{number} INT" for number in range(columns)), key=None, eventTime=None)
    app = app_of(
        [wide, stream("out", schema=None, key=None, eventTime=None)],
        [step("x", "in", apply={"function": "a:b"}), step("last", "x", to="out")],
    )
    (out,) = lineage_job(app, "team").outputs
    assert ("columnLineage" in out["facets"]) is is_sent
    assert len(names_of(out)) == columns


def test_a_job_whose_inputs_all_end_is_a_batch() -> None:
    bounded = app_of([stream("in", bounded=True), stream("out", schema=None)], [step("x", "in", to="out")])
    event = lineage_job(bounded, "team").event("START", ATTEMPT, AT, version="1")
    assert event["job"]["facets"]["jobType"]["processingType"] == "BATCH"
    endless = job_of().event("START", ATTEMPT, AT, version="1")
    assert endless["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
