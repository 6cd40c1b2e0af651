"""An app that counts clicks by campaign and minute, clicks to feed it, and the counts that come out."""

import random
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast_runtime.testing import TestDriver

START = datetime(2026, 1, 1, tzinfo=UTC)
Click = tuple[str | None, float]
"""Campaign, and second after the start."""


def app(
    verb: dict[str, Any] | None = None,
    *,
    repartitioned: bool = False,
    bounded: bool = True,
    more: list[dict[str, Any]] | None = None,
    **step: Any,
) -> dict[str, Any]:
    aggregate = {"by": ["campaign"], "window": "1m", "compute": ["count(*) AS n", "sum(cents) AS cents"]} | (verb or {})
    aggregate = {field: value for field, value in aggregate.items() if value is not None}
    steps: list[dict[str, Any]] = [{"name": "counts", "from": ["clicks"], "aggregate": aggregate, **step}]
    if repartitioned:
        steps[0]["from"] = ["spread"]
        steps.insert(0, {"name": "spread", "from": ["clicks"], "repartition": {"by": ["campaign"]}})
    steps += more or []
    steps.append({"name": "out", "from": [steps[-1]["name"]], "to": "counted"})
    clicks = {
        "name": "clicks",
        "system": "here",
        "partitions": 2,
        "key": ["user"] if repartitioned else ["campaign"],
        "schema": "campaign STRING, user STRING, cents BIGINT, ts TIMESTAMP",
        "eventTime": {"column": "ts", "lateness": "10s"},
        "bounded": bounded,
    }
    streams = [clicks, {"name": "counted", "system": "here", "partitions": 2, "key": ["campaign"]}]
    streams.append({"name": "letters", "system": "here", "partitions": 1})
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "clicks-per-minute"},
        "spec": {"systems": [{"name": "here", "log": {}}], "streams": streams, "steps": steps},
    }


def fed(clicks: Iterable[Click]) -> list[dict[str, Any]]:
    return [
        {"campaign": campaign, "user": f"u{at % 23}", "cents": 1, "ts": START + timedelta(seconds=second)}
        for at, (campaign, second) in enumerate(clicks)
    ]


def came(driver: TestDriver, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(
        (
            tuple(
                (value - START).total_seconds() if isinstance(value := row[column], datetime) else value
                for column in columns or ("window_start", "campaign", "n")
            )
            for row in driver.rows("counted")
        ),
        key=str,
    )


def counted(clicks: Iterable[Click], window: int = 60) -> list[tuple[Any, ...]]:
    counts = Counter((second // window * window, campaign) for campaign, second in clicks)
    return sorted(((start, campaign, n) for (start, campaign), n in counts.items()), key=str)


def drawn(count: int, seed: str, start: float = 0, seconds: float = 300, *, null: bool = False) -> list[Click]:
    """Null keys are spread over partitions, and meet only behind a repartition."""
    random_numbers = random.Random(seed)  # noqa: S311 - the same numbers each time
    return [
        (
            random_numbers.choice(["a", "b", "c", "d", None if null else "e"]),
            start + seconds * at / count + random_numbers.uniform(0, 9),
        )
        for at in range(count)
    ]
