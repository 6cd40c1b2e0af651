"""What `holdfast init --kafka` writes runs on a real broker: topics are made, rows come out."""

import contextlib
import uuid
from pathlib import Path

import pytest

from holdfast_cli.main import main
from tests.engine.runs import Run
from tests.kafka.broker import Broker

pytestmark = pytest.mark.kafka


def test_a_first_app_runs_on_kafka(broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"first-{uuid.uuid4().hex[:6]}"
    with contextlib.chdir(tmp_path):
        assert main(["init", name, "--kafka", "--brokers", broker.bootstrap]) == 0
    folder = tmp_path / name
    app = (folder / "app.yaml").read_text()
    # The broker has topics of other tests.
    for stream in ("orders", "totals"):
        app = app.replace(f"  - name: {stream}\n", f"  - name: {stream}\n    topic: {name}-{stream}\n")
    (folder / "app.yaml").write_text(app)
    with contextlib.chdir(folder):
        assert main(["feed", "app.yaml", "orders", "orders.jsonl"]) == 0
        with Run(folder / "app.yaml", folder / ".holdfast" / name, "--until-idle") as run:
            run.ended()
        capsys.readouterr()
        assert main(["tail", "app.yaml", "totals", "--from-beginning", "--until-end"]) == 0
    values = sorted(line.split("\t")[-1] for line in capsys.readouterr().out.splitlines())
    assert values == [
        '{"customer":"ann","orders":2,"cents":750}',
        '{"customer":"cat","orders":1,"cents":1200}',
    ]
