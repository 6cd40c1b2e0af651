"""Apps that are edited in the middle of their data: what state can't follow is refused by name, and nothing runs."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.testing import TestDriver
from tests.engine.stateful_app import APP, AT, CLICK
from tests.error_codes import has_code
from tests.spec.base_app import drop, put

_, COUNT = APP["spec"]["steps"][0]["aggregate"]["compute"]
COMPUTE = "spec.steps.windows.aggregate.compute"
EDITS: dict[str, tuple[str, object]] = {
    "a longer window": ("spec.steps.windows.aggregate.window", "5m"),
    "windows that overlap": ("spec.steps.windows.aggregate.slide", "30s"),
    "results at each change": ("spec.steps.windows.aggregate.emit", "Update"),
    "a longer session": ("spec.steps.visits.aggregate.session", "10m"),
    "a shorter session": ("spec.steps.visits.aggregate.session", "1s"),
    "the greatest in place of the least": (COMPUTE, ["max(n) AS least", COUNT]),
    "an aggregate of fewer rows": (COMPUTE, ["min(n) FILTER (WHERE n > 1) AS least", COUNT]),
    "two aggregates that swap names": (COMPUTE, ["min(n) AS clicks", "count(*) AS least"]),
    "another event time": ("spec.streams.clicks.eventTime.column", "sent"),
    "another partitioner": ("spec.streams.clicks.partitioner", "crc32"),
    "other intermediate partitions": ("spec.planning.intermediatePartitions", 8),
    "another topic": ("spec.streams.shows.topic", "clicks"),
    "a table on each host": ("spec.tables.owner.distribution", "Broadcast"),
    "other columns of a table": ("spec.tables.owner.select", ["ad", "owner AS name"]),
    "rows without partner too": ("spec.steps.matched.join.type", "Left"),
    "other columns of a join": ("spec.steps.matched.join.select", ["ad", "n"]),
}  # fmt: skip
"""What is done -> the field, and what it becomes."""


def field_of(path: str) -> str:
    """The field as messages call it: `spec.steps[windows].aggregate.window`."""
    return re.sub(r"^spec\.(steps|streams|tables)\.([^.]+)", r"spec.\1[\2]", path)


@pytest.fixture(scope="module")
def driver() -> Iterator[TestDriver]:
    """A run in the middle of its data."""
    with TestDriver(APP) as driver:
        driver.feed("owners", [{"ad": "a", "owner": "o"}])
        driver.feed("clicks", [CLICK] * 3)
        driver.feed("shows", [{"ad": "a", "ts": AT}])
        driver.run_until_idle()
        yield driver


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_that_state_cannot_follow_is_refused_by_field(driver: TestDriver, edit: str) -> None:
    path, value = EDITS[edit]
    refusal = rf"StateMisfit: {re.escape(field_of(path))} was .* and is .*: the state of this run .* can't follow"
    with pytest.raises(UserActionError, match=refusal, check=has_code("PlanRejectedError")):
        driver.restart(put(path, value, APP))


@pytest.mark.parametrize(
    ("stream", "column", "kind", "held"),
    [
        ("clicks", "user STRING", "user BIGINT", "state of users: user was STRING and is BIGINT"),
        ("clicks", "user STRING", "user BIGINT", "state of matched: left.user was STRING and is BIGINT"),
        ("clicks", "n BIGINT", "n DOUBLE", "state of windows: least was BIGINT and is DOUBLE"),
        ("clicks", "n BIGINT", "n DOUBLE", "state of by-user: n was BIGINT and is DOUBLE"),
        ("owners", "owner STRING", "owner INT", "table owner: owner was STRING and is INT"),
    ],
)
def test_a_column_of_another_type_is_refused_by_its_holder(
    driver: TestDriver, stream: str, column: str, kind: str, held: str
) -> None:
    (schema,) = (one["schema"] for one in APP["spec"]["streams"] if one["name"] == stream)
    with pytest.raises(UserActionError, match=f"StateMisfit: {held}: the state of this run"):
        driver.restart(put(f"spec.streams.{stream}.schema", schema.replace(column, kind), APP))


def test_columns_may_change_order_alone_where_all_are_kept() -> None:
    all_kept = drop("spec.tables.owner.select", drop("spec.steps.matched.join.select", APP))
    all_kept = put("spec.streams.clicks.schema", "ad STRING, user STRING, n BIGINT, ts TIMESTAMP", all_kept)
    all_kept = put("spec.streams.shows.schema", "ad STRING, more INT, at TIMESTAMP", all_kept)
    all_kept = put("spec.streams.shows.eventTime.column", "at", all_kept)
    with TestDriver(all_kept) as driver:
        driver.feed("owners", [{"ad": "a", "owner": "o"}])
        driver.feed("shows", [{"ad": "a", "more": 1, "at": AT}])
        driver.run_until_idle()
        for stream, schema, held in (
            (
                "shows",
                "ad STRING, at TIMESTAMP",
                "state of matched: the list of its columns was ad, at, more, n, ts, user",
            ),
            (
                "owners",
                "ad STRING, owner STRING, age INT",
                "table owner: the list of its columns was ad, owner and is ad,",
            ),
        ):
            with pytest.raises(UserActionError, match=f"StateMisfit: {held}"):
                driver.restart(put(f"spec.streams.{stream}.schema", schema, all_kept))
        turned = put("spec.streams.shows.schema", "at TIMESTAMP, more INT, ad STRING", all_kept)
        driver.restart(put("spec.streams.owners.schema", "owner STRING, ad STRING", turned))
        driver.feed("owners", [{"ad": "b", "owner": "p"}])
        driver.feed("clicks", [{"ad": ad, "user": "u", "n": 5, "ts": AT} for ad in "ab"])
        driver.run_until_idle()
        assert sorted(row["owner"] for row in driver.rows("looked-up")) == ["o", "p"]


def test_intermediate_numbers_may_get_longer_and_columns_come_and_go() -> None:
    way = put("spec.steps", [APP["spec"]["steps"][-3], {"name": "on", "from": ["by-user"], "to": "counted"}], APP)
    with TestDriver(put("spec.streams.clicks.schema", "ad STRING, user STRING, n INT, ts TIMESTAMP", way)) as driver:
        driver.feed("clicks", [{"ad": "a", "user": "u", "n": 5, "ts": AT}])
        driver.run()
        driver.restart(put("spec.streams.clicks.schema", "user STRING, n BIGINT, ts TIMESTAMP, ad STRING, m INT", way))
        driver.run_until_idle()
        assert [row["n"] for row in driver.rows("counted")] == [5]


def test_the_same_edit_under_the_former_name_is_refused_too() -> None:
    with TestDriver(APP) as driver:
        edited = put(COMPUTE, ["max(n) AS least", COUNT], APP)
        renamed = put("spec.steps.windows-out.from", ["greatest"], edited)
        with pytest.raises(UserActionError, match=r"spec.steps\[greatest\].aggregate.compute was .*"):
            driver.restart(
                put("spec.steps.windows", renamed["spec"]["steps"][0] | {"name": "greatest", "was": "windows"}, renamed)
            )


def test_a_returning_step_with_another_window_takes_up_no_state() -> None:
    with TestDriver(APP) as driver:
        driver.feed("clicks", [CLICK] * 3)
        driver.run_until_idle()
        steps = APP["spec"]["steps"]
        driver.restart(put("spec.steps", steps[2:], APP))
        back = steps[0] | {"was": "windows", "aggregate": steps[0]["aggregate"] | {"window": "5m"}}
        with pytest.raises(UserActionError, match=r"spec.steps\[windows\].aggregate.window was"):
            driver.restart(put("spec.steps", [back, *steps[1:]], APP))
        driver.restart(put("spec.steps", [steps[0] | {"was": "windows"}, *steps[1:]], APP))


def test_sides_of_a_join_keep_their_places_behind_more_steps(driver: TestDriver) -> None:
    with pytest.raises(
        UserActionError, match=r"StateMisfit: spec.steps\[matched\].from was clicks on the left, shows on the right"
    ):
        driver.restart(put("spec.steps.matched.from", ["shows", "clicks"], APP))
    steps = APP["spec"]["steps"]
    with TestDriver(APP) as other:
        before = {"name": "all-clicks", "from": ["clicks"], "merge": {}}
        other.restart(put("spec.steps.matched.from", ["all-clicks", "shows"], put("spec.steps", [*steps, before], APP)))
        with pytest.raises(UserActionError, match=r"StateMisfit: spec.steps\[matched\].from was"):
            other.restart(
                put("spec.steps.matched.from", ["shows", "all-clicks"], put("spec.steps", [*steps, before], APP))
            )


@pytest.mark.parametrize(
    ("by", "partitions", "misfit"),
    [
        ("ad", 4, "the number of its rows' partitions was 2 and is 4"),
        ("user", 2, "the key of its rows was ad and is user"),
    ],
)
def test_rows_by_other_keys_or_partitions_meet_no_foreign_state(by: str, partitions: int, misfit: str) -> None:
    before = put("spec.planning.intermediatePartitions", partitions, APP)
    before = put("spec.steps.first.deduplicate.by", ["ad", "user"], before)
    moved = {"name": "moved", "from": ["clicks"], "repartition": {"by": [by]}}
    after = put("spec.steps.first.from", ["moved"], put("spec.steps", [*before["spec"]["steps"], moved], before))
    for app_before, app_after, refusal in (
        (before, after, misfit),
        (after, before, r"spec.steps\[first\]: the .* of its rows"),
    ):
        with (
            TestDriver(app_before) as driver,
            pytest.raises(UserActionError, match=f"StateMisfit.*{refusal}.*give first another"),
        ):
            driver.restart(app_after)


def test_windows_are_kept_alike_whether_counted_before_travel_or_not() -> None:
    two = put("spec.planning.intermediatePartitions", 2, APP)
    moved = {"name": "moved", "from": ["clicks"], "repartition": {"by": ["ad"]}}
    through = put("spec.steps.windows.from", ["moved"], put("spec.steps", [*two["spec"]["steps"], moved], two))
    for before, after in ((two, through), (through, two)):
        with TestDriver(before) as driver:
            driver.feed("clicks", [CLICK] * 3)
            driver.run_until_idle()
            driver.restart(after)
            driver.feed("clicks", [CLICK] * 2)
            driver.end("clicks")
            driver.end("shows")
            driver.run_until_idle()
            assert [row["clicks"] for row in driver.rows("windowed")] == [5]


def test_an_edited_step_under_another_name_alone_starts_from_nothing() -> None:
    with TestDriver(APP) as driver:
        driver.feed("clicks", [CLICK] * 3)
        driver.run_until_idle()
        edited = put("spec.steps.windows.aggregate.window", "5m", APP)
        renamed = put("spec.steps.windows-out.from", ["long"], edited)
        driver.restart(put("spec.steps.windows.name", "long", renamed))
        driver.feed("clicks", [CLICK])
        driver.end("clicks")
        driver.end("shows")
        driver.run_until_idle()
        assert [row["clicks"] for row in driver.rows("windowed")] == [1]
        assert [row["n"] for row in driver.rows("counted")] == [3, 4]


def test_a_renamed_table_of_other_columns_is_loaded_anew() -> None:
    with TestDriver(APP) as driver:
        driver.feed("owners", [{"ad": "a", "owner": "o"}])
        driver.run_until_idle()
        driver.feed("clicks", [CLICK])
        driver.run_until_idle()
        edited = put("spec.tables.owner.select", ["ad", "owner AS name"], APP)
        renamed = put("spec.steps.named.lookup.table", "owner-2", edited)
        driver.restart(put("spec.tables.owner.name", "owner-2", renamed))
        driver.feed("clicks", [CLICK])
        driver.run_until_idle()
        assert sorted(row["name"] or "" for row in driver.rows("looked-up")) == ["", "o"], "of before, and of now"


def test_no_edit_brings_streams_together_that_have_grown_apart(tmp_path: Path) -> None:
    """The repartition becomes as wide as the table, and its new partitions stay with their parent."""
    log = {"system": "here", "partitions": 3}
    streams = [
        {"name": "in", "key": ["v"], "schema": "k STRING, v STRING", **log},
        {"name": "side", "key": ["k"], "schema": "k STRING, n BIGINT", **log},
        {"name": "out", **log},
    ]

    def app(distribution: str) -> dict[str, Any]:
        looked_up = {"table": distribution.lower(), "by": ["k"], "select": ["k", "n"]}
        spec = {
            "systems": [{"name": "here", "log": {}}],
            "streams": streams,
            "tables": [{"name": distribution.lower(), "sources": ["side"], "key": ["k"], "distribution": distribution}],
            "steps": [
                {"name": "by-k", "from": ["in"], "repartition": {"by": ["k"]}},
                {"name": "found", "from": ["by-k"], "lookup": looked_up},
                {"name": "written", "from": ["found"], "to": "out"},
            ],
            "planning": {"intermediatePartitions": 1},
        }
        metadata = {"name": "apart"}
        return {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": metadata, "spec": spec}

    with TestDriver(app("Broadcast"), tmp_path) as driver:
        driver.feed("side", [{"k": f"k{n}", "n": n} for n in range(9)])
        driver.feed("in", [{"k": f"k{n}", "v": f"v{n}"} for n in range(9)])
        driver.run_until_idle()
        assert sorted(row["n"] for row in driver.rows("out")) == list(range(9))
        with pytest.raises(UserActionError, match=r"lookup found needs .* their streams have grown apart in this run"):
            driver.restart(app("Partitioned"))


@pytest.mark.parametrize("wide", [1, 4])
def test_a_repartition_that_lost_its_reader_starts_again_and_again(wide: int) -> None:
    app = put("spec.planning.intermediatePartitions", wide, APP)
    steps = [step for step in APP["spec"]["steps"] if step["name"] not in ("by-user", "users", "users-out")]
    moved = {"name": "moved", "from": ["clicks"], "repartition": {"by": ["ad"]}}
    met = {"name": "met", "from": ["moved"], "lookup": {"table": "owner", "by": ["ad"]}}
    unread, read = put("spec.steps", [*steps, moved], app), put("spec.steps", [*steps, moved, met], app)
    with TestDriver(read) as driver:
        for edited in (unread, unread, read, unread, read):
            driver.feed("clicks", [CLICK])
            driver.run_until_idle()
            driver.restart(edited)
