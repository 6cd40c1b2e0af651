"""Runs the JSON cases that pin the semantics: the project's own, or those of `--cases FILE ...`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.assignment import run_assignment_case
from tests.conformance.end_of_stream import run_end_of_stream_case
from tests.conformance.planner import run_planner_case
from tests.conformance.tables import run_tables_case
from tests.conformance.tasks import run_tasks_case
from tests.conformance.watermark import run_watermark_case

OWN = Path(__file__).parent / "cases"
NOTATIONS: dict[str, Callable[[dict[str, Any]], None]] = {
    "assignment": run_assignment_case,
    "end_of_stream": run_end_of_stream_case,
    "planner": run_planner_case,
    "tables": run_tables_case,
    "tasks": run_tasks_case,
    "watermark": run_watermark_case,
}


def notation_of(file: Path) -> str:
    known = [name for name in NOTATIONS if file.stem.startswith(name)]
    if not known:
        message = f"{file}: no notation of this name; there are {', '.join(NOTATIONS)}"
        raise pytest.UsageError(message)
    return max(known, key=len)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    files = metafunc.config.getoption("cases") or sorted(OWN.glob("*.json"))
    cases = [(notation_of(file), case) for file in files for case in json.loads(file.read_text(encoding="utf-8"))]
    metafunc.parametrize(("notation", "case"), cases, ids=[f"{notation}-{case['name']}" for notation, case in cases])


def test_case(notation: str, case: dict[str, Any]) -> None:
    NOTATIONS[notation](case)
