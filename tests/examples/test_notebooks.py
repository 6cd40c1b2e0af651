"""Notebooks show what their cells give."""

import json
from pathlib import Path

import pytest

from tests.examples.notebooks import NOTEBOOKS, cells, outputs


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_shows_what_its_cells_give(path: Path) -> None:
    # Not true any more? `python -m tests.examples.notebooks` writes what is.
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell, shown in zip(cells(notebook), outputs(notebook), strict=True):
        assert cell["outputs"] == shown


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS
