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
from tests.pipelines.oracle import Oracle, Row

START = datetime(2026, 1, 1, tzinfo=UTC)
ERA = timedelta(hours=2)
MICROSECOND, SECOND = timedelta(microseconds=1), 1_000_000
STRETCH = 300
"""Seconds of an era in which there are rows."""
KEYS, VALUES, ROWS = 6, 4, 40
MARKS = 60
"""Rows in so many keys reach every partition."""


class Life:
    """A driver and an oracle that are told the same."""

    def __init__(self, app: Tree, draw: random.Random, folder: Path) -> None:
        self.app, self.draw, self.oracle = app, draw, Oracle()
        self.eras, self.at = 0, 0
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

    def edit(self, edit: Edit) -> str:
        """Go on with another tree, if the run takes it; return what it says otherwise."""
        tree = self.app | {"spec": edit.tree}
        try:
            self.driver.restart(tree)
        except UserActionError as error:
            self.driver.restart(self.app)
            self.told.append(f"{edit.said}: {error}")
            return str(error)
        self.told.append(edit.said)
        changes = diff(parse_app(self.app), parse_app(tree)).changes
        assert edit.cost < ChangeCost.NEW_RUN or not changes, f"{edit.said} was taken"
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
        if not self.at:
            return True
        return not edit.timed and not any(_behind_event_time(tree, edit.step) for tree in (self.app["spec"], edit.tree))

    def turn(self) -> None:
        """Feed rows that go on where those of before ended, and read all of them."""
        fed: dict[str, Sequence[Row]] = {}
        # What waits for event time is over where an era begins: nothing may look up what changes while it waits.
        for source in self.sides if not self.at else ():
            fed[source] = [self._row(0) for _ in range(self.draw.randint(0, 5))]
            self.driver.feed(source, [{"k": row.k, "v": row.v, "n": row.n} for row in fed[source]])
        self.settle()
        since, until = self.at, min(self.at + self.draw.randint(10, 120), STRETCH)
        for stream in self.inputs:
            times = sorted(self._drawn_time(since, until) for _ in range(self.draw.randint(0, ROWS)))
            fed[stream["name"]] = [self._row(self._era_start + at) for at in times]
        self.at = until
        waiting = {stream["name"]: list(fed[stream["name"]]) for stream in self.inputs}
        while any(waiting.values()):
            name = self.draw.choice([name for name, rows in waiting.items() if rows])
            some = self.draw.randint(1, ROWS)
            self.driver.feed(name, [_record(row) for row in waiting[name][:some]])
            del waiting[name][:some]
            if self.draw.random() < 0.3:
                self.driver.run(self.draw.randint(1, 2))
        self.settle(deaths=self.draw.choice((0, 0, 1, 3)))
        self.oracle.turn(self.app["spec"], fed)

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
        assert self.driver.late == 0

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
                found = Counter((row["k"], row["v"], row["n"]) for row in self.driver.rows(step["to"]))
                found = Counter({row: count for row, count in found.items() if "x" not in f"{row[0]}{row[1]}"})
                due = Counter(row[:3] for row in self.oracle.written[stream.get("topic", stream["name"])])
                assert found == due, f"{step['to']}: {due - found} missing, {found - due} too many"

    def _compare_updates(self, stream: str) -> None:
        """Whether the last result of each key and window holds; how many come before it is not promised."""
        found = {
            (row["k"], row["v"], (row["window_end"] - START) // MICROSECOND if "window_end" in row else 0): row["n"]
            for row in self.driver.rows(stream)
            if "x" not in f"{row['k']}{row['v']}"
        }
        due = {(row.k, row.v, row.at): row.n for row in self.oracle.written[stream]}
        assert found == due, f"{stream}: {due.items() - found.items()} missing, {found.items() - due.items()} too many"

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


def _behind_event_time(tree: Tree, name: str | None) -> bool:
    """Whether rows reach the step that come out when event time has passed."""
    # An edit may leave out what a step needs: no run takes that.
    steps = {step.get("name"): step for step in tree["steps"]}
    reached, waiting = set[str](), [*steps[name].get("from", ())] if name in steps else []
    while waiting:
        source = waiting.pop()
        if source in steps and source not in reached:
            reached.add(source)
            waiting += steps[source].get("from", ())
    return any({"aggregate", "join"} & steps[source].keys() for source in reached)


def _record(row: Row) -> Mapping[str, Any]:
    return {"k": row.k, "v": row.v, "n": row.n, "ts": START + row.at * MICROSECOND}
