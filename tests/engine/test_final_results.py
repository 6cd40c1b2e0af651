"""Results without a window come out when their inputs end, with event times of long before; none of them is late."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast_runtime.testing import TestDriver

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ADS = [f"ad{number}" for number in range(20)]
TOTALS = {"by": ["ad"], "emit": "Final", "compute": ["count(*) AS n"]}
BEHIND: dict[str, dict[str, Any]] = {
    "a window": {"aggregate": {"by": ["ad"], "window": "10s", "compute": ["sum(n) AS n"]}},
    "a session": {"aggregate": {"by": ["ad"], "session": "10s", "compute": ["sum(n) AS n"]}},
    "a deduplicate": {"deduplicate": {"by": ["ad"], "within": "10s"}},
    "a join": {"join": {"by": ["ad"], "within": "10s", "select": ["ad", "n"]}},
}


def at(number: int) -> datetime:
    return BEGIN + timedelta(minutes=number)


def app(behind: str, *, repartitioned: bool, merged: bool) -> dict[str, Any]:
    stream = {"system": "here", "partitions": 2, "key": ["ad"], "bounded": True}
    stream["eventTime"] = {"column": "ts", "idleAfter": "1m"}
    source = "moved" if repartitioned else "totals"
    steps: list[dict[str, Any]] = [{"name": "totals", "from": ["clicks"], "aggregate": TOTALS}]
    if repartitioned:
        steps.append({"name": "moved", "from": ["totals"], "repartition": {"by": ["ad"]}})
    if merged:
        steps += [
            {"name": "plain", "from": ["others"], "select": ["ad", "n"]},
            {"name": "both", "from": [source, "plain"], "merge": {}},
        ]
        source = "both"
    inputs = [source, "shows"] if behind == "a join" else [source]
    steps += [
        {"name": "behind", "from": inputs, **BEHIND[behind]},
        {"name": "out", "from": ["behind"], "to": "found"},
    ]
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "totals"},
        "spec": {
            "systems": [{"name": "here", "log": {}}],
            "streams": [
                {"name": "clicks", **stream, "schema": "ad STRING, ts TIMESTAMP"},
                {"name": "shows", **stream, "schema": "ad STRING, ts TIMESTAMP"},
                {"name": "others", **stream, "schema": "ad STRING, n BIGINT, ts TIMESTAMP"},
                {"name": "found", "system": "here", "partitions": 2, "key": ["ad"]},
            ],
            "steps": steps,
        },
    }


@pytest.mark.parametrize("repartitioned", [False, True])
@pytest.mark.parametrize("behind", BEHIND)
def test_all_of_them_reach_a_timed_step(behind: str, *, repartitioned: bool) -> None:
    with TestDriver(app(behind, repartitioned=repartitioned, merged=False), slots=2) as driver:
        for number, ad in enumerate(ADS):
            driver.feed("clicks", [{"ad": ad, "ts": at(number)}] * 3)
            driver.feed("shows", [{"ad": ad, "ts": at(number)}])
            driver.run()
        driver.run_until_idle()
        driver.restart()
        for name in ("clicks", "shows", "others"):
            driver.end(name)
        driver.run_until_idle()
        assert driver.completed
        assert driver.late == 0
        assert sorted((row["ad"], row["n"]) for row in driver.rows("found")) == sorted((ad, 3) for ad in ADS)


@pytest.mark.parametrize("repartitioned", [False, True])
def test_merged_rows_wait_for_them_behind_a_silent_input(*, repartitioned: bool) -> None:
    with TestDriver(app("a window", repartitioned=repartitioned, merged=True), slots=2) as driver:
        driver.feed("clicks", [{"ad": ad, "ts": at(number)} for number, ad in enumerate(ADS)] * 3)
        driver.run_until_idle()
        for number, ad in enumerate(ADS):
            driver.advance(timedelta(minutes=2))
            driver.feed("others", [{"ad": ad, "n": 100, "ts": at(number)}])
            driver.run_until_idle()
        assert driver.rows("found") == []
        for name in ("clicks", "shows", "others"):
            driver.end(name)
        driver.run_until_idle()
        assert driver.late == 0
        assert sorted((row["ad"], row["n"]) for row in driver.rows("found")) == sorted((ad, 103) for ad in ADS)
