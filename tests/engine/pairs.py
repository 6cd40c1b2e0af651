"""An app that joins orders with payments, what it is fed, and what has to come out."""

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast_runtime.testing import TestDriver

START = datetime(2026, 1, 1, tzinfo=UTC)
Event = tuple[str | None, float]
"""Order, and second after the start."""
WITHIN = 30
"""Seconds, as the app says it."""


def app(
    verb: dict[str, Any] | None = None,
    *,
    partitions: int = 2,
    steps: Iterable[dict[str, Any]] = (),
    repartitioned: bool = False,
    **step: Any,
) -> dict[str, Any]:
    """`steps` come between the join, `matched`, and the last one, which writes them."""
    join = {"by": ["id"], "within": f"{WITHIN}s", "select": ["id", "left.n AS o", "right.n AS p"]} | (verb or {})
    join = {field: value for field, value in join.items() if value is not None}
    made: list[dict[str, Any]] = [{"name": "matched", "from": ["orders", "payments"], "join": join, **step}]
    if repartitioned:
        made[0]["from"] = ["orders", "by-order"]
        made.insert(0, {"name": "by-order", "from": ["payments"], "repartition": {"by": ["id"]}})
    made += steps
    made.append({"name": "out", "from": [made[-1]["name"]], "to": "paired"})
    stream = {
        "system": "here",
        "partitions": partitions,
        "key": ["id"],
        "schema": "id STRING, n BIGINT, ts TIMESTAMP",
        "eventTime": {"column": "ts", "lateness": "10s"},
        "bounded": True,
    }
    streams = [stream | {"name": "orders"}, stream | {"name": "payments"}]
    streams[1]["key"] = ["n"] if repartitioned else ["id"]
    streams += [{"name": name, "system": "here", "partitions": 1} for name in ("paired", "letters")]
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "paid-orders"},
        "spec": {"systems": [{"name": "here", "log": {}}], "streams": streams, "steps": made},
    }


def fed(events: Iterable[Event], since: int = 0) -> list[dict[str, Any]]:
    """Rows with their number, from `since` on."""
    return [
        {"id": order, "n": since + at, "ts": START + timedelta(seconds=second)}
        for at, (order, second) in enumerate(events)
    ]


def drawn(count: int, seed: str, start: float = 0, seconds: float = 300, orders: int = 20) -> list[Event]:
    """Events in disorder of less than the lateness, on a few orders."""
    draw = random.Random(seed)  # noqa: S311 - the same numbers each time
    return [(f"o{draw.randrange(orders)}", start + seconds * at / count + draw.uniform(0, 9)) for at in range(count)]


def came(driver: TestDriver, *columns: str) -> list[tuple[Any, ...]]:
    """What has come out, in an order of its own."""
    return sorted(
        (tuple(row[column] for column in columns or ("id", "o", "p")) for row in driver.rows("paired")), key=str
    )


def paired(
    orders: Iterable[dict[str, Any]],
    payments: Iterable[dict[str, Any]],
    kind: str = "Inner",
    bounds: tuple[float, float] = (WITHIN, WITHIN),
) -> list[tuple[Any, ...]]:
    """What has to come out if nothing is late: a payment lies at most so much before and after its order."""
    orders, payments = list(orders), list(payments)
    before, after = (timedelta(seconds=one) for one in bounds)
    pairs = [
        (order, payment)
        for order in orders
        for payment in payments
        if order["id"] is not None and order["id"] == payment["id"] and -before <= payment["ts"] - order["ts"] <= after
    ]
    rows = [(order["id"], order["n"], payment["n"]) for order, payment in pairs]
    settled, settling = ({one["n"] for one in side} for side in zip(*pairs, strict=True)) if pairs else (set(), set())
    if kind in {"Left", "Full"}:
        rows += [(one["id"], one["n"], None) for one in orders if one["n"] not in settled]
    if kind in {"Right", "Full"}:
        rows += [(one["id"], None, one["n"]) for one in payments if one["n"] not in settling]
    return sorted(rows, key=str)
