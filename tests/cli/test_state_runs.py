"""`holdfast state` on tables in runs: rows with columns, one key, sizes by time, local and durable."""

import json
import os
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from holdfast.spec.steps import Deduplicate
from holdfast_runtime.state.store.task_store import TaskStore
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.keyed.deduplicate import DeduplicateStep
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.steps.windows.closing import ClosingMark
from tests.cli.conftest import Holdfast
from tests.cli.test_state import Made, files
from tests.state.places import commit_alone

APP = """
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: visits}
spec:
  systems: [{name: here, log: {}}]
  streams:
  - name: views
    system: here
    partitions: 2
    key: [user]
    schema: "user STRING, page BIGINT, ts TIMESTAMP"
    eventTime: {column: ts, lateness: 1m}
  - {name: out, system: here, partitions: 2, key: [user]}
  steps:
  - {name: once, from: [views], deduplicate: {by: [user], within: 1h}}
  - {name: pages, from: [views], deduplicate: {by: [user, page]}}
  - {name: sums, from: [views], aggregate: {by: [user], window: 1h, compute: [count(*) AS n]}}
  - {name: all, from: [once, pages], merge: {}}
  - {name: written, from: [all], to: out}
"""
GIVEN = pa.schema([("user", pa.string()), ("page", pa.int64())])
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
View = tuple[str | None, int | None, float]
"""User, page, minutes after noon."""
VIEWS: list[View] = [("ann", 1, 0), ("bob", 2, 30), ("ann", 1, 90), ("ann", 3, 91)]


@pytest.fixture
def app(holdfast: Holdfast) -> Holdfast:
    Path("visits.yaml").write_text(APP, encoding="utf-8")
    return holdfast


def batch(made: Made, views: list[View]) -> None:
    users, pages, minutes = zip(*views, strict=True)
    rows = pa.RecordBatch.from_arrays([pa.array(users, pa.string()), pa.array(pages, pa.int64())], schema=GIVEN)
    times = pa.array([NOON + timedelta(minutes=one) for one in minutes], pa.timestamp("us", "UTC")).cast(pa.int64())
    with TaskStore.open(made.store_directory) as store:
        store.begin(store.head.batch + 1, 3)
        for name, verb in (
            ("once", Deduplicate(by=("user",), within="1h")),
            ("pages", Deduplicate(by=("user", "page"))),
        ):
            DeduplicateStep(name, verb, GIVEN, name).run(TimedRows(rows, times), store, StepClock(0, None))
        commit_alone(store, made.durable)


RAW = "--raw"


def state(app: Holdfast, action: str, *arguments: str) -> Any:
    ran = app("state", action, "visits.yaml", "-o", "json", *arguments)
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out) if action == "ls" else [json.loads(line) for line in ran.out.splitlines()]


def test_rows_as_they_are_kept_have_key_bucket_and_time(app: Holdfast) -> None:
    batch(Made("partition-0"), VIEWS)
    rows = state(app, "get", "--table", "once", RAW)
    assert {tuple(row) for row in rows} == {("task", "key", "bucket", "time")}
    assert sorted((row["key"], row["bucket"], row["time"]) for row in rows) == [
        ("ann", "2026-01-01T12:00:00.000Z", "2026-01-01T12:00:00.000Z"),
        ("ann", "2026-01-01T13:00:00.000Z", "2026-01-01T13:30:00.000Z"),
        ("bob", "2026-01-01T12:00:00.000Z", "2026-01-01T12:30:00.000Z"),
    ]
    pages = sorted(state(app, "get", "--table", "pages", RAW), key=str)
    assert pages[0] == {"task": "partition-0", "key": ["ann", 1], "time": "2026-01-01T12:00:00.000Z"}
    assert [row["key"] for row in pages] == [["ann", 1], ["ann", 3], ["bob", 2]]


def test_times_have_microseconds_where_there_are_any(app: Holdfast) -> None:
    batch(Made("partition-0"), [("ann", 1, 0.00001)])
    assert [row["time"] for row in state(app, "get", "--table", "once")] == ["2026-01-01T12:00:00.000600Z"]


def test_rows_have_the_columns_of_the_key_and_their_end(app: Holdfast) -> None:
    batch(Made("partition-0"), VIEWS)
    rows = state(app, "get", "--table", "once")
    assert {tuple(row) for row in rows} == {("task", "user", "time", "remembered_until")}
    assert sorted((row["user"], row["time"][11:16], row["remembered_until"][11:16]) for row in rows) == [
        ("ann", "12:00", "13:00"),
        ("ann", "13:30", "14:30"),
        ("bob", "12:30", "13:30"),
    ]
    rows = sorted(state(app, "get", "--table", "pages"), key=str)
    assert rows[0] == {"task": "partition-0", "user": "ann", "page": 1, "time": "2026-01-01T12:00:00.000Z"}


def test_text_has_a_column_for_each(app: Holdfast) -> None:
    batch(Made("partition-0"), VIEWS[:1])
    ran = app("state", "get", "visits.yaml", "--table", "once")
    assert [line.split() for line in ran.out.splitlines()] == [
        ["TASK", "USER", "TIME", "REMEMBERED_UNTIL"],
        ["partition-0", "ann", "2026-01-01T12:00:00.000Z", "2026-01-01T13:00:00.000Z"],
    ]


@pytest.mark.parametrize(
    ("table", "key", "expected"),
    [
        ("once", "ann", ["12:00", "13:30"]),
        ("once", "bob", ["12:30"]),
        ("pages", '["ann", 3]', ["13:31"]),
        ("pages", "[null,null]", ["12:05"]),
    ],
)
def test_a_key_is_found_by_columns_with_all_its_rows(app: Holdfast, table: str, key: str, expected: list[str]) -> None:
    batch(Made("partition-0"), [("zoe", 1, 0)])
    made = Made("partition-1")
    batch(made, VIEWS[:2])
    batch(made, [*VIEWS[2:], (None, None, 5)])
    rows = state(app, "get", "--table", table, "--key", key)
    assert [row["time"][11:16] for row in rows] == expected
    assert {row["task"] for row in rows} == {"partition-1"}


@pytest.mark.parametrize("options", [(), (RAW,)], ids=["shown", "raw"])
@pytest.mark.parametrize(
    ("kind", "ddl", "value", "key"),
    [
        (pa.int32(), "INT", 7, "7"),
        (pa.bool_(), "BOOLEAN", True, "true"),
        (pa.float64(), "DOUBLE", 0.0, "-0.0"),
        (pa.decimal128(10, 2), "DECIMAL(10, 2)", Decimal("1.50"), "1.5"),
        (pa.date32(), "DATE", date(2026, 1, 1), "2026-01-01"),
        (pa.timestamp("us", "UTC"), "TIMESTAMP", NOON, "2026-01-01T12:00:00Z"),
        (pa.binary(), "BINARY", b"\xff", "base64:/w=="),
        (pa.binary(), "BINARY", b"ann", "ann"),
    ],
)
def test_keys_of_other_types_are_found(
    app: Holdfast, kind: pa.DataType, ddl: str, value: Any, key: str, options: tuple[str, ...]
) -> None:
    Path("visits.yaml").write_text(APP.replace("user STRING", f"user {ddl}"), encoding="utf-8")
    made, schema = Made("partition-0"), pa.schema([("user", kind)])
    rows = pa.RecordBatch.from_arrays([pa.array([value, None], kind)], schema=schema)
    with TaskStore.open(made.store_directory) as store:
        store.begin(0, 3)
        step = DeduplicateStep("once", Deduplicate(by=("user",)), schema, "once")
        step.run(TimedRows(rows, pa.array([0, 0])), store, StepClock(0, None))
        commit_alone(store, made.durable)
    assert len(state(app, "get", "--table", "once", *options)) == 2
    assert len(state(app, "get", "--table", "once", "--key", key, *options)) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--table", "once", "--key", "zoe"), "table once has no key zoe"),
        (("--table", "pages", "--key", "ann"), "ann is no key of table pages, whose keys are (user"),
        (("--table", "pages", "--key", "ann"), "page int64): write a JSON list with a value for each, in this order"),
        (("--table", "pages", "--key", '["ann"]'), "is no key of table pages"),
        (("--table", "pages", "--key", '["ann"]', RAW), "is no key of table pages"),
        (("--table", "pages", "--key", '["ann","x"]'), "is no key of table pages"),
    ],
)
def test_a_key_that_is_none_is_refused(app: Holdfast, arguments: tuple[str, ...], message: str) -> None:
    batch(Made("partition-0"), VIEWS)
    ran = app("state", "get", "visits.yaml", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_only_such_tables_list_rows_runs_and_times(app: Holdfast) -> None:
    made = Made("partition-0")
    batch(made, VIEWS[:2])
    batch(made, VIEWS[2:])
    with TaskStore.open(made.store_directory) as store:
        store.begin(2, 3)
        store.offsets.put(b"views/0", b"4")
        commit_alone(store, made.durable)
    (task,) = state(app, "ls")["tasks"]
    tables = {table.pop("name"): table for table in task["tables"]}
    assert all(table.pop("bytes") > 0 for table in tables.values())
    nothing = {"rows": None, "runs": None, "oldest": None, "newest": None}
    assert tables == {
        ".offsets": {"keys": 1} | nothing,
        "once": {
            "keys": None,
            "rows": 3,
            "runs": 2,
            "oldest": "2026-01-01T12:00:00.000Z",
            "newest": "2026-01-01T13:00:00.000Z",
        },
        "pages": {"keys": None} | nothing | {"rows": 3, "runs": 2},
    }
    lines = [line.split() for line in app("state", "ls", "visits.yaml").out.splitlines()]
    assert lines[0] == ["TASK", "TABLE", "KEYS", "ROWS", "RUNS", "OLDEST", "NEWEST", "BYTES", "BATCH", "EPOCH", "FROM"]
    assert [line[1:7] for line in lines[1:]] == [
        [".offsets", "1", "-", "-", "-", "-"],
        ["once", "-", "3", "2", "2026-01-01T12:00:00.000Z", "2026-01-01T13:00:00.000Z"],
        ["pages", "-", "3", "2", "-", "-"],
    ]


def test_durable_copy_and_running_app_show_the_same_untouched(app: Holdfast) -> None:
    batch(Made("partition-0"), VIEWS)
    stopped = [state(app, "get", "--table", table) for table in ("once", "pages")]
    lock = Path(".holdfast/visits/apps/visits/run.lock")
    lock.write_text(json.dumps({"pid": os.getpid(), "command": "holdfast run"}), encoding="utf-8")
    before = files(".holdfast")
    assert [state(app, "get", "--table", table) for table in ("once", "pages")] == stopped
    assert [state(app, "get", "--table", table, "--durable") for table in ("once", "pages")] == stopped
    assert files(".holdfast") == before


def test_an_export_has_the_keys_own_types(app: Holdfast) -> None:
    for task in ("partition-0", "partition-1"):
        batch(Made(task), VIEWS)
    Made("partition-2")
    ran = app("state", "export", "visits.yaml", "--table", "pages", "--to", "pages.parquet")
    assert (ran.code, ran.out) == (0, "6 rows of pages written to pages.parquet\n")
    table = pq.read_table("pages.parquet")
    assert table.schema.names == ["task", "user", "page", "time"]
    assert app("state", "export", "visits.yaml", "--table", "pages", "--to", "raw.parquet", RAW).code == 0
    assert pq.read_table("raw.parquet").schema == table.schema
    assert table.schema.field("page").type == pa.int64()
    assert min(table.column("time").to_pylist()) == NOON
    assert app("state", "export", "visits.yaml", "--table", "once", "--to", "once.arrow").code == 0
    with pa.ipc.open_file("once.arrow") as file:
        assert file.read_all().schema.names == ["task", "user", "time", "remembered_until"]
    assert app("state", "export", "visits.yaml", "--table", "once", "--to", "raw.arrow", RAW).code == 0
    with pa.ipc.open_file("raw.arrow") as file:
        assert file.read_all().schema.names == ["task", "user", "bucket", "time"]


def test_tasks_with_other_columns_are_exported_one_by_one(app: Holdfast) -> None:
    batch(Made("partition-0"), VIEWS)
    made, schema = Made("partition-1"), pa.schema([("user", pa.int64())])
    with TaskStore.open(made.store_directory) as store:
        store.begin(0, 3)
        rows = TimedRows(pa.RecordBatch.from_pylist([{"user": 1}], schema), pa.array([0]))
        DeduplicateStep("once", Deduplicate(by=("user",)), schema, "once").run(rows, store, StepClock(0, None))
        commit_alone(store, made.durable)
    refused = app("state", "export", "visits.yaml", "--table", "once", "--to", "once.parquet")
    assert (refused.code, refused.out) == (2, "")
    assert "has the columns user (int64)" in refused.err
    assert "`--raw` of `get` and `export` shows what is kept" in refused.err
    arguments = ("state", "export", "visits.yaml", "--table", "once", "--to", "once.parquet", RAW)
    ran = app(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "one by one, with --task" in ran.err
    assert not list(Path().glob("*once*"))
    assert app(*arguments, "--task", "partition-1").code == 0


def test_a_table_for_runs_without_any_has_no_rows(app: Holdfast) -> None:
    made = Made("partition-0")
    with TaskStore.open(made.store_directory) as store:
        store.begin(0, 3)
        store.table("sums").put(b"c", ClosingMark().encoded())
        commit_alone(store, made.durable)
    assert state(app, "get", "--table", "sums") == []
    ran = app("state", "export", "visits.yaml", "--table", "sums", "--to", "sums.parquet")
    assert ran.out == "0 rows of sums written to sums.parquet\n"
