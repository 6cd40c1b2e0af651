"""Event time through pipelines of any shape: repartitions in a row, merges, broadcasts and outer joins on the way.

Nothing may be late, since each stream is in the order of its times, however far one is ahead of another; nothing may be
stuck: what is over comes out while the streams go on; and all completes with the answer of the whole input. Shapes are
drawn, with restarts between batches; `HOLDFAST_SEED` draws others.
"""

import os
import random
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from holdfast_runtime.testing import TestDriver

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
SEED = int(os.environ.get("HOLDFAST_SEED", str(secrets.randbits(32)) if SOAK else "20261124"))
SHAPES = 300 if SOAK else 2
START = datetime(2026, 1, 1, tzinfo=UTC)
USERS, SHOPS, ROWS, SECONDS, NOTES = 24, 5, 120, 600, 7
WITHIN, NEAR = 30, 3600
"""Seconds of the join with marks, and of the one with limits."""
IDLE = 10
RESTARTS = 0.15
SCHEMA = "k STRING, v STRING, n BIGINT, ts TIMESTAMP"
Rows = list[dict[str, Any]]
Counts = Counter[tuple[str | None, datetime, int, int]]


@dataclass
class Shape:
    """A pipeline: two streams of rows that are merged, joined with marks and with limits, and counted by shop."""

    draw: random.Random
    kind: str = field(init=False)
    silent: bool = field(init=False)
    """Whether the second stream has no row, and is left out when it has been idle."""
    limits: bool = field(init=False)
    untimed: bool = field(init=False)
    """Whether rows of a stream without event time are merged with those that are counted, and written."""

    def __post_init__(self) -> None:
        self.kind = self.draw.choice(("Inner", "Left", "Full"))
        self.silent, self.limits, self.untimed = (self.draw.random() < share for share in (0.3, 0.6, 0.5))

    def app(self) -> dict[str, Any]:
        """The app."""
        idle = {"idleAfter": f"{IDLE}s"} if self.silent else {}
        timed = {"schema": SCHEMA, "eventTime": {"column": "ts", **idle}}
        names = ["first", "second", "marks", *(["limits"] if self.limits else [])]
        streams = [self._stream(name, **timed) for name in names]
        steps = [*self._spread("first"), *self._spread("second"), *self._spread("marks")]
        steps.append({"name": "rows", "from": ["first-spread", "second-spread"], "merge": {}})
        picked = ["k", "left.v", "left.n", "right.n AS mark"]
        join = {"by": ["k"], "within": f"{WITHIN}s", "type": self.kind, "select": picked}
        steps.append({"name": "marked", "from": ["rows", "marks-spread"], "join": join})
        steps.append({"name": "by-shop", "from": ["marked"], "repartition": {"by": ["v"]}})
        last = "by-shop"
        if self.limits:
            steps.append({"name": "everywhere", "from": ["limits"], "broadcast": {}})
            near = {"by": ["v"], "within": f"{NEAR}s", "select": ["v", "left.k", "left.n", "left.mark"]}
            steps.append({"name": "limited", "from": ["by-shop", "everywhere"], "join": near})
            last = "limited"
        for number in range(self.draw.randint(0, 2)):
            steps.append({"name": f"again-{number}", "from": [last], "repartition": {"by": ["k" if number else "v"]}})
            last = f"again-{number}"
        if last.startswith("again"):
            steps.append({"name": "home", "from": [last], "repartition": {"by": ["v"]}})
            last = "home"
        compute = ["count(*) AS rows", "count(mark) AS marks"]
        steps.append({"name": "counts", "from": [last], "aggregate": {"by": ["v"], "window": "1m", "compute": compute}})
        steps.append({"name": "out", "from": ["counts"], "to": "counted"})
        outputs = ["counted"]
        if self.untimed:
            streams.append(self._stream("notes", schema="k STRING, v STRING, n BIGINT, mark BIGINT"))
            steps.append({"name": "notes-by-shop", "from": ["notes"], "repartition": {"by": ["v"]}})
            steps.append({"name": "both", "from": ["by-shop", "notes-by-shop"], "merge": {}})
            steps.append({"name": "both-by-user", "from": ["both"], "repartition": {"by": ["k"]}})
            steps.append({"name": "noted", "from": ["both-by-user"], "to": "said"})
            outputs.append("said")
        streams += [{"name": name, "system": "here", "partitions": 2} for name in outputs]
        spec: dict[str, Any] = {"systems": [{"name": "here", "log": {}}], "streams": streams, "steps": steps}
        spec["planning"] = {"intermediatePartitions": self.draw.randint(1, 5)}
        return {
            "apiVersion": "holdfast.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "shape"},
            "spec": spec,
        }

    def _stream(self, name: str, **more: Any) -> dict[str, Any]:
        partitions = self.draw.randint(1, 4)
        key = {} if name == "notes" else {"key": ["v" if name == "limits" else "k"]}
        return {"name": name, "system": "here", "partitions": partitions, "bounded": True, **key, **more}

    def _spread(self, name: str) -> Iterator[dict[str, Any]]:
        """One or more repartitions, the last of which is by user."""
        last = name
        for number in range(self.draw.randint(0, 2)):
            yield {"name": f"{name}-{number}", "from": [last], "repartition": {"by": [self.draw.choice("vn")]}}
            last = f"{name}-{number}"
        yield {"name": f"{name}-spread", "from": [last], "repartition": {"by": ["k"]}}


def made(draw: random.Random, count: int) -> Rows:
    """In the order of their times."""
    seconds = sorted(draw.randrange(SECONDS) for _ in range(count))
    return [
        {
            "k": f"k{draw.randrange(USERS)}",
            "v": f"v{draw.randrange(SHOPS)}",
            "n": n,
            "ts": START + timedelta(seconds=at),
        }
        for n, at in enumerate(seconds)
    ]


def everywhere(at: datetime) -> Rows:
    """A row in each partition of each stream: so many keys reach all of them."""
    return [{"k": f"k{n}", "v": f"x{n}", "n": -1, "ts": at} for n in range(60)]


def expected(shape: Shape, rows: Rows, marks: Rows, limits: Rows) -> Counts:
    """Of the shops that count: rows of `everywhere` are in shops of their own."""
    within = timedelta(seconds=WITHIN)
    pairs = [
        (row, mark) for row in rows for mark in marks if row["k"] == mark["k"] and abs(row["ts"] - mark["ts"]) <= within
    ]
    joined = [(row["v"], max(row["ts"], mark["ts"]), True) for row, mark in pairs]
    if shape.kind != "Inner":
        met = {id(row) for row, _ in pairs}
        joined += [(one["v"], one["ts"], False) for one in rows if id(one) not in met]
    if shape.kind == "Full":
        met = {id(mark) for _, mark in pairs}
        joined += [(None, mark["ts"], True) for mark in marks if id(mark) not in met]
    if shape.limits:
        near = timedelta(seconds=NEAR)
        joined = [
            (v, max(ts, limit["ts"]), marked)
            for v, ts, marked in joined
            for limit in limits
            if v == limit["v"] and abs(ts - limit["ts"]) <= near
        ]
    sums, marked_sums = Counter[tuple[str | None, datetime]](), Counter[tuple[str | None, datetime]]()
    for v, ts, marked in joined:
        window = START + (ts - START) // timedelta(minutes=1) * timedelta(minutes=1)
        sums[v, window] += 1
        marked_sums[v, window] += marked
    return Counter((*key, sums[key], marked_sums[key]) for key in sums)


def counted(driver: TestDriver) -> Counts:
    """The windows that have come out."""
    rows = driver.rows("counted")
    return Counter((row["v"], row["window_start"].astimezone(UTC), row["rows"], row["marks"]) for row in rows)


def of_shops(counts: Counts, before: datetime) -> Counts:
    """Windows that begin before then."""
    return Counter({key: count for key, count in counts.items() if key[1] < before})


def feed_unevenly(driver: TestDriver, draw: random.Random, fed: Mapping[str, Rows]) -> None:
    """Feed all rows, each stream in its order, with batches and restarts between."""
    waiting = {name: list(rows) for name, rows in fed.items()}
    while any(waiting.values()):
        name = draw.choice([name for name, rows in waiting.items() if rows])
        count = draw.randint(1, ROWS)
        driver.feed(name, waiting[name][:count])
        del waiting[name][:count]
        if draw.random() < 0.5:
            driver.run(draw.randint(1, 4))
        if draw.random() < RESTARTS:
            driver.restart()


def lived(driver: TestDriver, shape: Shape) -> None:
    """Feed streams unevenly; look whether nothing is stuck; end them."""
    draw = shape.draw
    fed = {"first": made(draw, ROWS), "second": [] if shape.silent else made(draw, ROWS), "marks": made(draw, ROWS)}
    if shape.limits:
        fed["limits"] = made(draw, SHOPS * 2)
    feed_unevenly(driver, draw, fed)
    if shape.untimed:
        driver.feed("notes", [{"k": f"k{n}", "v": "note", "n": n, "mark": None} for n in range(NOTES)])
    due = expected(shape, fed["first"] + fed["second"], fed["marks"], fed.get("limits", []))
    # Far enough behind all for what waits in the joins, so every window of before has to come out.
    later = START + timedelta(seconds=SECONDS + 2 * (WITHIN + NEAR) + 60)
    for seconds in (0, 60, 120):
        driver.advance(IDLE + 1)
        for name in fed:
            if name != "second" or not shape.silent:
                driver.feed(name, everywhere(later + timedelta(seconds=seconds)))
        driver.run_until_idle()
        if draw.random() < RESTARTS:
            driver.restart()
    assert of_shops(counted(driver), later - timedelta(seconds=NEAR)) == of_shops(due, later), "nothing is stuck"
    for name in (*fed, *(["notes"] if shape.untimed else [])):
        driver.end(name)
    driver.run_until_idle()
    assert driver.completed
    if shape.untimed:
        assert sorted(row["n"] for row in driver.rows("said") if row["v"] == "note") == list(range(NOTES))
    assert driver.late == 0
    window_counts = counted(driver)
    assert set(window_counts.values()) == {1}, "no window comes out twice"
    assert of_shops(window_counts, later - timedelta(seconds=NEAR)) == of_shops(due, later)


def test_event_time_neither_stalls_nor_overtakes_rows_in_any_pipeline(tmp_path: Path) -> None:
    for number in range(SHAPES):
        seed = SEED + number
        shape = Shape(random.Random(seed))  # noqa: S311
        app = shape.app()
        try:
            with TestDriver(app, tmp_path / str(number), slots=shape.draw.choice((1, 2, 3))) as driver:
                lived(driver, shape)
        except BaseException as error:
            error.add_note(f"HOLDFAST_SEED={seed}: {shape}")
            raise
