"""What the page of `process` says of late rows is so."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ruamel.yaml import YAML

from holdfast_runtime.testing import TestDriver, TestMisuseError
from tests.docs.pages import ROOT, blocks_of

YAML_READER = YAML(typ="safe")
PAGE = ROOT / "docs" / "verbs" / "process.md"
START = datetime(2026, 1, 1, tzinfo=UTC)


def app_with(text: str | None = None) -> dict[str, Any]:
    """Return the first app of the page and its module, with what the part of an app replaces that holds this text."""
    modules = {block.title[:-3]: block.text for block in blocks_of(PAGE) if block.title and block.title.endswith(".py")}
    (app,) = (YAML_READER.load(block.text) for block in blocks_of(PAGE) if block.title == "app.yaml")
    parts = [YAML_READER.load(block.text) for block in blocks_of(PAGE) if text is not None and text in block.text]
    (part,) = parts or [{}]
    return {**app, "spec": {**app["spec"], "runtime": {"code": modules}, **part}}


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_rows_within_the_lateness_are_not_late_in_any_batches(cut: int) -> None:
    """An hour of readings in order, but for each tenth, which comes eight seconds late."""
    app = app_with("sensors:judge")
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
def test_both_forms_of_the_smallest_app_give_the_same(cut: int) -> None:
    prices = [{"sku": f"s{number % 3}", "cents": number // 4 % 2} for number in range(40)]
    results = []
    for text in (None, "form: Batch"):
        with TestDriver(app_with(text)) as driver:
            for place in range(0, len(prices), cut):
                driver.feed("prices", prices[place : place + cut])
                driver.run()
            results.append(sorted(driver.rows("changes"), key=lambda row: row["sku"]))
            last = {price["sku"]: price["cents"] for price in prices}
            if text is None:
                assert {sku: dict(driver.state("changed", sku) or {}) for sku in last} == {
                    sku: {"cents": cents} for sku, cents in last.items()
                }
            else:
                assert {row["sku"]: row["cents"] for row in driver.kept_rows("changed")} == last
                assert driver.kept_rows("changed", "s1") == [{"sku": "s1", "cents": last["s1"]}]
                with pytest.raises(TestMisuseError, match="keeps rows, not a value for each key"):
                    driver.state("changed", "s1")
    of_rows, of_batches = results
    assert of_batches == of_rows
    assert len(of_rows) > 3
