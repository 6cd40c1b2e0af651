"""The pipelines that people build first do on a real broker and registry what their page shows."""

import contextlib
import json
import shutil
import uuid
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from holdfast_cli.main import main
from tests.engine.runs import Run
from tests.examples.pipelines import Pipeline, pipelines
from tests.kafka.broker import Broker
from tests.registry.server import Apicurio

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("pipeline", [pytest.param(pipeline, id=pipeline.name) for pipeline in pipelines()])
def test_a_pipeline_gives_on_kafka_what_the_page_shows(
    pipeline: Pipeline, broker: Broker, apicurio: Apicurio, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(pipeline.folder, tmp_path / pipeline.name)
    app = YAML(typ="safe").load(
        pipeline.on(f'kafka: {{bootstrapServers: "{broker.bootstrap}", registry: {{url: "{apicurio.url}"}}}}')
    )
    # The broker has topics of other tests.
    name = app["metadata"]["name"] = f"{pipeline.name}-{uuid.uuid4().hex[:6]}"
    for stream in app["spec"]["streams"]:
        stream["topic"] = f"{name}-{stream['name']}"
    (folder / "app.yaml").write_text(json.dumps(app))
    with contextlib.chdir(folder):
        for command, *words in pipeline.commands:
            capsys.readouterr()
            if command == "run":
                with Run(folder / "app.yaml", tmp_path / "data", *words[1:]) as run:
                    run.ended()
            else:
                assert main([command, *words, "--data", str(tmp_path / "data")]) == 0
    assert capsys.readouterr().out.rstrip() == pipeline.printed
