"""The example of `make run`, killed in between, still agrees with its own check."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.runs import Run

FOLDER = Path(__file__).parents[2] / "examples" / "page-totals"


@pytest.mark.smoke
def test_page_totals_is_exactly_once_though_it_was_killed(tmp_path: Path) -> None:
    with Run(FOLDER / "app.yaml", tmp_path) as run:
        run.until("progress", 2)
        run.killed()
    with Run(FOLDER / "app.yaml", tmp_path, "--batches", "3") as run:
        run.ended()
    check = subprocess.run(
        [sys.executable, str(FOLDER / "check.py"), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stdout + check.stderr
    assert check.stdout.count("exactly once") == 2
    assert "NOT" not in check.stdout
