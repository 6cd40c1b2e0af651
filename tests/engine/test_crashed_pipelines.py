"""Bounded pipelines of two repartitions over 16 partitions complete, wherever batches of them die and disks are lost.

A watermark that overtook its rows would close a window too early, an end would lose rows, and an end that is lost would
be waited for forever. `HOLDFAST_SEED` draws other lives, `make soak` more of them.
"""

import os
import random
import secrets
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.control.messages import EndOfStreamMessage
from holdfast_runtime.testing import Crashed, TestDriver
from tests.deaths import drawn_step

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
SEED = int(os.environ.get("HOLDFAST_SEED", str(secrets.randbits(32)) if SOAK else "20261123"))
LIVES = 500 if SOAK else 3
PARTS, ROWS, USERS, SHOPS = 16, 400, 40, 12
START = datetime(2026, 1, 1, tzinfo=UTC)
MOST_BATCHES = 200
COUNTED = ["count(*) AS n", "sum(cents) AS cents"]


def app() -> dict[str, Any]:
    """Sums by user and minute, and of these by shop and five minutes; all rows by user in between."""
    orders = {
        "name": "orders",
        "system": "here",
        "partitions": PARTS,
        "key": ["n"],
        "schema": "n BIGINT, user STRING, shop STRING, cents BIGINT, ts TIMESTAMP",
        "eventTime": {"column": "ts"},
        "bounded": True,
    }
    outputs = [{"name": name, "system": "here", "partitions": 4} for name in ("users", "shops")]
    by_user = {"by": ["user", "shop"], "window": "1m", "compute": COUNTED}
    by_shop = {"by": ["shop"], "window": "5m", "compute": ["sum(n) AS n", "sum(cents) AS cents"]}
    steps: list[dict[str, Any]] = [
        {"name": "by-user", "from": ["orders"], "repartition": {"by": ["user"]}},
        {"name": "minutes", "from": ["by-user"], "aggregate": by_user},
        {"name": "users-out", "from": ["minutes"], "to": "users"},
        {"name": "by-shop", "from": ["minutes"], "repartition": {"by": ["shop"]}},
        {"name": "fives", "from": ["by-shop"], "aggregate": by_shop},
        {"name": "shops-out", "from": ["fives"], "to": "shops"},
    ]
    spec = {"systems": [{"name": "here", "log": {}}], "streams": [orders, *outputs], "steps": steps}
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "shops"},
        "spec": spec | {"planning": {"intermediatePartitions": PARTS}},
    }


def orders(draw: random.Random) -> list[dict[str, Any]]:
    """In the order of their times, as one source would write them."""
    seconds = sorted(draw.random() * 1200 for _ in range(ROWS))
    return [
        {
            "n": number,
            "user": f"u{draw.randrange(USERS)}",
            "shop": f"s{draw.randrange(SHOPS)}",
            "cents": draw.randrange(1000),
            "ts": START + timedelta(seconds=second),
        }
        for number, second in enumerate(seconds)
    ]


def expected(rows: list[dict[str, Any]], minutes: int, *keys: str) -> Counter[tuple[Any, ...]]:
    counts, sums = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    for row in rows:
        window = (row["ts"] - START) // timedelta(minutes=minutes)
        group = (*(row[key] for key in keys), START + window * timedelta(minutes=minutes))
        counts[group] += 1
        sums[group] += row["cents"]
    return Counter((*group, counts[group], sums[group]) for group in counts)


def found(driver: TestDriver, stream: str, *keys: str) -> Counter[tuple[Any, ...]]:
    return Counter(
        (*(row[key] for key in keys), row["window_start"].astimezone(UTC), row["n"], row["cents"])
        for row in driver.rows(stream)
    )


def lived(driver: TestDriver, rows: list[dict[str, Any]], draw: random.Random) -> Counter[str]:
    """Feed rows between batches, end the stream at last, and die on the way; return where."""
    fed, ended, deaths = 0, False, Counter[str]()
    for _ in range(MOST_BATCHES):
        if driver.completed:
            return deaths
        if fed < len(rows):
            more = draw.randint(1, len(rows))
            driver.feed("orders", rows[fed : fed + more])
            fed += more
        elif not ended:
            driver.end("orders")
            ended = True
        if draw.random() < 0.8:
            driver.crash_at(drawn_step(draw), draw.choice((1, 1, 2, 3, 5, PARTS)))
        try:
            driver.run()
        except Crashed as death:
            deaths[str(death)] += 1
            driver.restart()
            if draw.random() < 0.3:
                driver.lose_local_state(draw.choice([None, *driver.tasks]))
        driver.advance(0.1)
    pytest.fail(f"not complete after {MOST_BATCHES} batches; deaths: {dict(deaths)}")


def check(driver: TestDriver, rows: list[dict[str, Any]]) -> None:
    """Every window once and whole, and of each producer one end in each partition."""
    assert found(driver, "users", "user", "shop") == expected(rows, 1, "user", "shop")
    assert found(driver, "shops", "shop") == expected(rows, 5, "shop")
    for stream in ("by-user", "by-shop"):
        records = driver.control(stream)
        assert len({(one.partition, one.message.task, one.message.at) for one in records}) == len(records)
        ends = Counter(
            (record.partition, record.message.task)
            for record in records
            if isinstance(record.message, EndOfStreamMessage)
        )
        assert (len(ends), set(ends.values())) == (PARTS * PARTS, {1})


def test_pipelines_complete_wherever_they_die(tmp_path: Path) -> None:
    deaths = Counter[str]()
    for life in range(LIVES):
        seed = SEED + life
        draw = random.Random(seed)  # noqa: S311
        rows = orders(draw)
        try:
            with TestDriver(app(), tmp_path / str(life), slots=draw.choice((1, 2, 4, 5))) as driver:
                deaths += lived(driver, rows, draw)
                check(driver, rows)
        except BaseException as error:
            error.add_note(f"HOLDFAST_SEED={seed}")
            raise
    print(f"seed {SEED}, {LIVES} lives: {dict(deaths)}")  # noqa: T201 - shown when it fails
    assert deaths.total() >= 2 * LIVES
