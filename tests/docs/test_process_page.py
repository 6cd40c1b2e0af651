"""What the page of `process` says of late rows is so."""

from datetime import UTC, datetime, timedelta

import pytest
from ruamel.yaml import YAML

from holdfast_runtime.testing import TestDriver
from tests.docs.pages import ROOT, blocks_of

YAML_READER = YAML(typ="safe")
PAGE = ROOT / "docs" / "verbs" / "process.md"
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_rows_within_the_lateness_are_not_late_in_any_batches(cut: int) -> None:
    """An hour of readings in order, but for each tenth, which comes eight seconds late."""
    (app,) = (block.text for block in blocks_of(PAGE) if block.title == "late.yaml")
    seconds = [second - 8 * (second % 10 == 0) for second in range(10, 310, 2)]
    with TestDriver(app) as driver:
        for place in range(0, len(seconds), cut):
            rows = [
                {"sensor": f"s{second % 3}", "celsius": 1.0, "ts": START + timedelta(seconds=second)}
                for second in seconds[place : place + cut]
            ]
            driver.feed("readings", rows)
            driver.run()
        assert [row["late"] for row in driver.rows("judged")] == [False] * len(seconds)
        driver.feed("readings", [{"sensor": "s0", "celsius": 1.0, "ts": START}])
        driver.run()
        assert driver.rows("judged")[-1]["late"]
        assert driver.late == 1


@pytest.mark.parametrize("cut", [1, 3, 1000])
def test_the_form_of_batches_gives_what_the_form_of_rows_gives(cut: int) -> None:
    (app,) = (YAML_READER.load(block.text) for block in blocks_of(PAGE) if block.title == "app.yaml")
    (part,) = (YAML_READER.load(block.text) for block in blocks_of(PAGE) if "form: Batch" in block.text)
    prices = [{"sku": f"s{number % 3}", "cents": number // 4 % 2} for number in range(40)]
    results = []
    for changed in ({}, part):
        with TestDriver({**app, "spec": {**app["spec"], **changed}}) as driver:
            for place in range(0, len(prices), cut):
                driver.feed("prices", prices[place : place + cut])
                driver.run()
            results.append(sorted(driver.rows("changes"), key=lambda row: row["sku"]))
    of_rows, of_batches = results
    assert of_batches == of_rows
    assert len(of_rows) > 3
