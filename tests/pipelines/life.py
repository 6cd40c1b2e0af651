"""The life of an app: turns of rows, deaths, lost disks, growth and edits; and what it wrote, beside what it must have.

An era is a stretch of event time. At its end rows far ahead come, in keys of their own, so that whatever waits for
event time comes out. Inside an era only edits are made whose effect does not depend on how far event time has moved.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from holdfast.errors import UserActionError
from holdfast.spec.diff import diff
from holdfast.spec.fields import ChangeCost
from holdfast.spec.parse import parse_app
from holdfast_runtime.testing import Crashed, TestDriver
from tests.deaths import drawn_step
from tests.pipelines.drawn import Tree
from tests.pipelines.edits import Edit
from tests.pipelines.flow import goes_by_time_since, is_behind_event_time, looks_up_what_changes, tables_written_from
from tests.pipelines.oracle import Oracle, Row

START = datetime(2026, 1, 1, tzinfo=UTC)
ERA = timedelta(hours=2)
MICROSECOND, SECOND = timedelta(microseconds=1), 1_000_000
STRETCH = 300
"""Seconds of an era in which there are rows."""
KEYS, VALUES, ROWS = 6, 4, 40
LATE, LATE_ROWS = 0.5, 10
"""How often rows of an era that has ended come, and how many of a stream."""
MARKS = 60
"""Rows in so many keys reach every partition."""


class Life:
    """A driver and an oracle that are told the same."""

    def __init__(self, app: Tree, draw: random.Random, folder: Path) -> None:
        self.app, self.draw, self.oracle = app, draw, Oracle()
        self.eras, self.at, self.late = 0, 0, 0
        self.told = [f"{part}" for kind in ("tables", "streams", "steps") for part in app["spec"].get(kind, ())]
        """The app, and what happened to it, for who has to find out."""
        self.driver = TestDriver(app, folder, slots=draw.choice((1, 2, 3)), now=START + timedelta(days=300))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.close()

    @property
    def inputs(self) -> list[Tree]:
        """The streams that steps read."""
        return [stream for stream in self.app["spec"]["streams"] if "eventTime" in stream]

    @property
    def sides(self) -> set[str]:
        """The streams that tables read."""
        return {source for table in self.app["spec"].get("tables", ()) for source in table.get("sources", ())}

    @property
    def writers(self) -> list[Tree]:
        """The inputs whose rows are written to tables."""
        return [stream for stream in self.inputs if tables_written_from(stream["name"], self.app["spec"])]

    def edit(self, edit: Edit) -> str:
        """Go on with another tree, if the run takes it; return what it says otherwise."""
        tree = self.app | {"spec": edit.tree}
        try:
            self.driver.restart(tree)
        except UserActionError as error:
            self.driver.restart(self.app)
            self.told.append(f"{edit.description}: {error}")
            return str(error)
        self.told.append(edit.description)
        changes = diff(parse_app(self.app), parse_app(tree)).changes
        assert edit.cost < ChangeCost.NEW_RUN or not changes, f"{edit.description} was taken"
        self.app = tree
        return ""

    def grow(self) -> None:
        """Give every input and side input twice as many partitions."""
        for stream in self.app["spec"]["streams"]:
            if "key" in stream:
                self.driver.grow(stream["name"], 2 * stream["partitions"])
                stream["partitions"] *= 2
        self.told.append("grown")
        self.driver.restart(self.app)

    def allows(self, edit: Edit) -> bool:
        """Whether it has one answer now: nothing that reaches the step comes when event time says so."""
        if looks_up_what_changes(edit.tree) or goes_by_time_since(self.app["spec"], edit.tree):
            return False
        if not self.at:
            return True
        return not edit.timed and not any(
            is_behind_event_time(tree, edit.step) for tree in (self.app["spec"], edit.tree)
        )

    def turn(self) -> None:
        """Feed rows that go on where those of before ended, and read all of them."""
        writers, since = self.writers, self.at
        self.at = min(since + self.draw.randint(10, 120), STRETCH)
        # What waits for event time is over where an era begins: nothing may look up what changes while it waits.
        if not since:
            fed = {source: [self._row(0) for _ in range(self.draw.randint(0, 5))] for source in sorted(self.sides)}
            for source, rows in fed.items():
                self.driver.feed(source, [{"k": row.k, "v": row.v, "n": row.n} for row in rows])
            self._read(fed)
            self._feed(writers, since)
        self._feed([stream for stream in self.inputs if stream not in writers], since)

    def _feed(self, streams: Sequence[Tree], since: int) -> None:
        """Feed rows of the time from then on, in pieces, and read them."""
        fed = {}
        for stream in streams:
            times = sorted(self._drawn_time(since, self.at) for _ in range(self.draw.randint(0, ROWS)))
            fed[stream["name"]] = [self._row(self._era_start + at) for at in times]
        waiting = {name: list(rows) for name, rows in fed.items()}
        while any(waiting.values()):
            name = self.draw.choice([name for name, rows in waiting.items() if rows])
            piece = self.draw.randint(1, ROWS)
            self.driver.feed(name, [_record(row) for row in waiting[name][:piece]])
            del waiting[name][:piece]
            if self.draw.random() < 0.3:
                self.driver.run(self.draw.randint(1, 2))
        self._read(fed, deaths=self.draw.choice((0, 0, 1, 3)))

    def _read(self, fed: Mapping[str, Sequence[Row]], *, deaths: int = 0, late: bool = False) -> None:
        """Run and interpret what was fed; both have read all of it then."""
        if fed:
            self.settle(deaths)
            self.oracle.turn(self.app["spec"], fed, late=late)

    def settle(self, deaths: int = 0) -> None:
        """Run until there is nothing left to do, with so many deaths on the way."""
        for _ in range(deaths):
            self.driver.crash_at(drawn_step(self.draw), self.draw.choice((1, 1, 2, 3, 5)))
            with suppress(Crashed):
                self.driver.run_until_idle()
            self.driver.restart()
            if self.draw.random() < 0.3:
                self.driver.lose_local_state(self.draw.choice([None, *self.driver.tasks]))
        self.driver.run_until_idle()

    def end_era(self) -> None:
        """Let event time pass all of it; what waited for that has come out."""
        self.eras, self.at = self.eras + 1, 0
        self.told.append("an era ends")
        for minutes in range(3):
            at = self._era_start - timedelta(minutes=10 - minutes) // MICROSECOND
            for stream in self.inputs:
                marks = [Row(f"x{key}", f"x{key}", -1, at) for key in range(MARKS)]
                self.driver.feed(stream["name"], [_record(row) for row in marks])
            self.settle()
        self.oracle.turn(self.app["spec"], {}, over=True)
        self.compare()
        if self.draw.random() < LATE and not any(_has_timers(step) for step in self.app["spec"]["steps"]):
            self._come_late()

    def _come_late(self) -> None:
        """Feed rows of the era that has ended."""
        writers = self.writers
        for streams in (writers, [stream for stream in self.inputs if stream not in writers]):
            fed = {}
            for stream in streams:
                times = sorted(self._drawn_time(0, STRETCH) for _ in range(self.draw.randint(0, LATE_ROWS)))
                fed[stream["name"]] = [self._row(self._era_start - ERA // MICROSECOND + at) for at in times]
                self.driver.feed(stream["name"], [_record(row) for row in fed[stream["name"]]])
            self._read_late(fed)
        self.told.append("rows came late")
        self.compare()

    def _read_late(self, fed: Mapping[str, Sequence[Row]]) -> None:
        """Read what is too late for all that forgets, and count it."""
        deaths, counted, due = self.draw.choice((0, 0, 1)), self.driver.late, self.oracle.late
        self._read(fed, deaths=deaths, late=True)
        counted, due = self.driver.late - counted, self.oracle.late - due
        self.late += counted
        # A repeated batch counts nothing; what is broadcast is late in each task; what nobody reads is not made.
        steps = self.app["spec"]["steps"]
        read = {name for step in steps for name in step["from"]}
        exact = not deaths and all("broadcast" not in step and ("to" in step or step["name"] in read) for step in steps)
        assert not exact or counted == due, f"{counted} rows were late, not {due}"

    def end(self) -> None:
        """End all inputs, and compare all."""
        for stream in self.inputs:
            stream["bounded"] = True
        self.driver.restart(self.app)
        for stream in self.inputs:
            self.driver.end(stream["name"])
        self.settle()
        assert self.driver.completed
        self.oracle.turn(self.app["spec"], {}, over=True, ended=True)
        self.compare()
        assert self.driver.late == self.late

    def compare(self) -> None:
        """Whether the topics hold what the oracle wrote."""
        spec = self.app["spec"]
        updating = {step["name"] for step in spec["steps"] if step.get("aggregate", {}).get("emit") == "Update"}
        for step in spec["steps"]:
            if "to" in step:
                (stream,) = (stream for stream in spec["streams"] if stream["name"] == step["to"])
                if step["from"][0] in updating:
                    self._compare_updates(step["to"])
                    continue
                written = Counter((row["k"], row["v"], row["n"]) for row in self.driver.rows(step["to"]))
                written = Counter({row: count for row, count in written.items() if "x" not in f"{row[0]}{row[1]}"})
                due = Counter(row[:3] for row in self.oracle.written[stream.get("topic", stream["name"])])
                assert written == due, f"{step['to']}: {due - written} missing, {written - due} too many"

    def _compare_updates(self, stream: str) -> None:
        """Whether the last result of each key and window holds; how many come before it is not promised."""
        latest = {
            (row["k"], row["v"], (row["window_end"] - START) // MICROSECOND if "window_end" in row else 0): row["n"]
            for row in self.driver.rows(stream)
            if "x" not in f"{row['k']}{row['v']}"
        }
        due = {(row.k, row.v, row.at): row.n for row in self.oracle.written[stream]}
        assert latest == due, (
            f"{stream}: {due.items() - latest.items()} missing, {latest.items() - due.items()} too many"
        )

    @property
    def _era_start(self) -> int:
        return self.eras * (ERA // MICROSECOND)

    def _drawn_time(self, since: int, until: int) -> int:
        """A time between these seconds: any, or beside a whole one, so that many are apart by a length in the app."""
        first, last = since * SECOND, until * SECOND
        if self.draw.random() < 0.5:
            return self.draw.randint(first, last)
        beside = self.draw.choice((-1, 0, 0, 1, 400))
        return min(max(self.draw.randint(since, until) * SECOND + beside, first), last)

    def _row(self, at: int) -> Row:
        draw = self.draw
        return Row(f"k{draw.randrange(KEYS)}", f"v{draw.randrange(VALUES)}", draw.randrange(60), at)


def _has_timers(step: Tree) -> bool:
    """Whether what it does with a row that is late depends on when its timers fire."""
    return str(step.get("process", {}).get("function")).endswith(":quiet")


def _record(row: Row) -> Mapping[str, Any]:
    return {"k": row.k, "v": row.v, "n": row.n, "ts": START + row.at * MICROSECOND}
