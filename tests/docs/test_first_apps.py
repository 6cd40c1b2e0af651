"""The first app of the README and of getting-started runs, and gives what the page shows."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast_runtime.testing import TestDriver
from tests.docs.pages import ROOT, Block, blocks_of
from tests.segments.conftest import small_session

PAGES = [ROOT / "README.md", ROOT / "docs" / "getting-started.md"]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with small_session() as session:
        yield session


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES])
def test_the_first_app_of_a_page_gives_what_the_page_shows(page: Path, spark: SparkSession) -> None:
    blocks = blocks_of(page)
    app = next(block for block in blocks if block.is_app)
    given = next(block for block in blocks if (block.title or "").endswith(".jsonl"))
    (read,) = words_of(blocks, "feed", 1)
    (written,) = words_of(blocks, "tail", 1)
    shown = next(block for block in blocks if block.text.startswith('{"partition"'))
    with TestDriver(app.text, spark=spark) as driver:
        driver.feed(read, [json.loads(line, object_hook=with_times) for line in given.text.splitlines()])
        driver.run_until_idle()
        rows = driver.rows(written)
    assert rows == [json.loads(line)["value"] for line in shown.text.splitlines()]


def with_times(row: dict[str, Any]) -> dict[str, Any]:
    return row | ({"ts": datetime.fromisoformat(row["ts"])} if "ts" in row else {})


def words_of(blocks: tuple[Block, ...], command: str, at: int) -> Iterator[str]:
    """The stream that the first such command of a page names, behind the app's file."""
    for block in blocks:
        for line in block.text.splitlines():
            words = line.removeprefix("$ ").split()
            if words[:2] == ["holdfast", command]:
                yield words[2 + at]
                return
