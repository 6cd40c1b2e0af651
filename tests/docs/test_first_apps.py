"""The first app of the README and of getting-started runs, and gives what the page shows."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from ruamel.yaml import YAML

from holdfast_runtime.testing import TestDriver
from tests.docs.pages import ROOT, Block, blocks_of
from tests.segments.conftest import small_session

PAGES = [ROOT / "README.md", ROOT / "docs" / "getting-started.md"]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with small_session() as session:
        yield session


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES])
def test_a_pages_first_app_gives_what_the_page_shows(page: Path, spark: SparkSession) -> None:
    blocks = blocks_of(page)
    app = next(block for block in blocks if block.is_app)
    files = {str(block.title): block.text for block in blocks if (block.title or "").endswith(".jsonl")}
    fed = [words[1:3] for words in words_of(blocks, "feed")]
    assert {file for _, file in fed} == set(files)
    ((_, written, *_),) = words_of(blocks, "tail")
    shown = next(block for block in blocks if block.text.startswith('{"partition"'))
    with TestDriver(app.text, spark=spark) as driver:
        for stream, file in fed:
            driver.feed(stream, [json.loads(line, object_hook=with_times) for line in files[file].splitlines()])
        for stream in YAML(typ="safe").load(app.text)["spec"]["streams"]:
            if stream.get("bounded"):
                driver.end(stream["name"])
        driver.run_until_idle()
        rows = [{name: value for name, value in row.items() if value is not None} for row in driver.rows(written)]
    assert rows == [json.loads(line)["value"] for line in shown.text.splitlines()]


def with_times(row: dict[str, Any]) -> dict[str, Any]:
    return row | ({"ts": datetime.fromisoformat(row["ts"])} if "ts" in row else {})


def words_of(blocks: tuple[Block, ...], command: str) -> list[list[str]]:
    """The words behind this command of `holdfast`, each time it is given on a page; the first is the app's file."""
    lines = [line.removeprefix("$ ").split() for block in blocks for line in block.text.splitlines()]
    return [words[2:] for words in lines if words[:2] == ["holdfast", command]]
