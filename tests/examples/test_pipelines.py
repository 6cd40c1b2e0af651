"""The pipelines that people build first do on the embedded log what their page shows."""

import contextlib
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.planning.plan import PlanningFacts, plan
from holdfast.spec.parse import parse_app
from holdfast_cli.main import main
from holdfast_cli.plan.app_file import app_document
from holdfast_runtime.streams.log.embedded_log import close_under
from holdfast_runtime.testing import TestDriver
from tests.examples.pipelines import NAMES, Pipeline, pipelines

LATER = datetime(2026, 6, 1, tzinfo=UTC)
PIPELINES = [pytest.param(pipeline, id=pipeline.name) for pipeline in pipelines()]


def test_each_pipeline_is_on_the_page() -> None:
    assert sorted(pipeline.name for pipeline in pipelines()) == NAMES


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_pipeline_plans_without_problems_or_warnings(pipeline: Pipeline) -> None:
    document = app_document(pipeline.text, "app.yaml")
    assert not document.errors
    result = plan(parse_app(document.tree), PlanningFacts())
    assert (result.problems, result.warnings) == ((), ())


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_page_shows_a_part_of_the_file(pipeline: Pipeline) -> None:
    assert pipeline.fragment in pipeline.text


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_pipeline_gives_on_the_log_what_the_page_shows(
    pipeline: Pipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(pipeline.folder, tmp_path / pipeline.name)
    app = pipeline.on("log: {}")
    (folder / "app.yaml").write_text(app)
    with contextlib.chdir(folder):
        for command, *words in pipeline.commands:
            capsys.readouterr()
            if command == "run":
                with TestDriver(app, tmp_path / "data", now=LATER) as driver:
                    driver.run_until_idle()
            else:
                assert main([command, *words, "--data", str(tmp_path / "data")]) == 0
            # Commands are processes of their own, which open the log in their own way.
            close_under(tmp_path / "data")
    assert capsys.readouterr().out.rstrip() == pipeline.printed
