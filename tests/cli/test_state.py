"""`holdfast state`: what tasks remember is shown from local stores and durable copies, and nothing is disturbed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from holdfast.spec.steps import Process
from holdfast_runtime.checkpoint.directories import DataDir, directory_name
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.storage import DirectoryStorage
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity
from holdfast_runtime.state.store.environment import claim
from holdfast_runtime.state.store.task_store import OFFSETS, TaskStore
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.keyed.process import ProcessStep
from holdfast_runtime.steps.timed_rows import TimedRows
from tests.cli.conftest import Holdfast
from tests.state.places import commit_alone
from tests.waiting import patience

APP = """
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: visits}
spec:
  runId: "1"
  systems: [{name: here, log: {}}]
  streams:
  - {name: views, system: here, partitions: 2, key: [user], schema: "user STRING, page BIGINT, n BIGINT"}
  - {name: out, system: here, partitions: 2, key: [user]}
  steps:
  - {name: seen, from: [views], process: {function: "v:seen", by: [user], schema: "user STRING", ttl: 1h}}
  - {name: pages, from: [views], process: {function: "v:page", by: [user, page], schema: "user STRING"}}
  - {name: all, from: [seen, pages], merge: {}}
  - {name: written, from: [all], to: out}
"""
GIVEN = pa.schema([("user", pa.string()), ("page", pa.int64()), ("n", pa.int64())])
OUT = pa.schema([("user", pa.string())])
NOON = 1_700_000_000_000
VIEWS = [{"user": user, "page": page, "n": n} for n, (user, page) in enumerate([("ann", 1), ("bob", 2), ("ann", 3)])]


def seen(_: Any, rows: list[dict[str, Any]], state: Any) -> None:
    state["pages"] = {row["page"] for row in rows}
    state["raw"] = b"\xff"
    state.at_event_time(NOON, "leave")


def page(_: Any, rows: list[dict[str, Any]], state: Any) -> None:
    state["n"] = state.get("n", 0) + len(rows)


@pytest.fixture
def app(holdfast: Holdfast) -> Holdfast:
    Path("visits.yaml").write_text(APP, encoding="utf-8")
    return holdfast


class Made:
    """The state of one task, as a run leaves it."""

    def __init__(self, task: str, run: str = "1", directory: str = ".holdfast/visits") -> None:
        paths, self.identity = (
            DataDir(Path(directory).absolute()).app("visits").run(run),
            TaskIdentity("visits", run, task),
        )
        self.store_directory = StoreDirectory(paths.state / directory_name(task), self.identity, 1 << 26)
        self.durable = DurableCopy(DirectoryStorage(paths.durable, sync=False), self.identity)
        TaskStore.create(self.store_directory, -1).close()

    def batch(self, rows: list[dict[str, Any]] = VIEWS) -> None:
        timed = TimedRows(pa.RecordBatch.from_pylist(rows, GIVEN), pa.nulls(len(rows), pa.int64()))
        with TaskStore.open(self.store_directory) as store:
            store.begin(store.head.batch + 1, 3)
            ProcessStep("seen", Process(function="v:seen", by=("user",), ttl="1h"), seen, GIVEN, OUT).run(
                timed, store, StepClock(NOON, None)
            )
            ProcessStep("pages", Process(function="v:page", by=("user", "page")), page, GIVEN, OUT).run(
                timed, store, StepClock(NOON, None)
            )
            store.offsets.put(b"views/0", b"%d" % (store.head.batch + 10))
            store.table("odd").put(b"\xff\x00", b"\x01")
            commit_alone(store, self.durable)


def files(directory: str) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in Path(directory).rglob("*") if path.is_file()
    }


def listed(app: Holdfast, *arguments: str) -> list[dict[str, Any]]:
    ran = app("state", "ls", "visits.yaml", "-o", "json", *arguments)
    assert (ran.code, ran.err) == (0, "")
    return list(json.loads(ran.out)["tasks"])


def got(app: Holdfast, *arguments: str) -> list[dict[str, Any]]:
    ran = app("state", "get", "visits.yaml", "-o", "json", *arguments)
    assert (ran.code, ran.err) == (0, "")
    return [json.loads(line) for line in ran.out.splitlines()]


def test_tables_are_listed_by_task_in_natural_order(app: Holdfast) -> None:
    for task in ("partition-10", "partition-2"):
        made = Made(task)
        made.batch()
        made.batch()
    ran = app("state", "ls", "visits.yaml")
    lines = [line.split() for line in ran.out.splitlines()]
    assert lines[0] == ["TASK", "TABLE", "KEYS", "BYTES", "BATCH", "EPOCH", "FROM"]
    assert [line[:3] for line in lines[1:6]] == [
        ["partition-2", OFFSETS, "1"],
        ["partition-2", "odd", "1"],
        ["partition-2", "pages", "3"],
        ["partition-2", "seen", "2"],
        ["partition-2", "seen.timers", "4"],
    ]
    assert {tuple(line[4:]) for line in lines[1:]} == {("1", "3", "local")}
    assert [line[0] for line in lines[6:]] == ["partition-10"] * 5
    assert [task["task"] for task in listed(app, "--task", "partition-10")] == ["partition-10"]


def test_rows_of_a_process_step_are_decoded(app: Holdfast) -> None:
    Made("partition-0").batch()
    assert got(app, "--table", "seen") == [
        {
            "task": "partition-0",
            "key": key,
            "state": {"pages": pages, "raw": "base64:/w=="},
            "touched": "2023-11-14T22:15:00.000Z",
            "timers": [{"kind": "event", "name": "leave", "time": "2023-11-14T22:13:20.000Z"}],
        }
        for key, pages in (("ann", [1, 3]), ("bob", [2]))
    ]
    assert [(row["key"], row["state"]) for row in got(app, "--table", "pages")] == [
        (["ann", 1], {"n": 1}),
        (["ann", 3], {"n": 1}),
        (["bob", 2], {"n": 1}),
    ]
    timers = got(app, "--table", "seen.timers")
    assert [(row["kind"], row["key"]) for row in timers] == [("event", k) for k in ("ann", "bob")] + [
        ("touched", k) for k in ("ann", "bob")
    ]
    assert got(app, "--table", OFFSETS) == [{"task": "partition-0", "key": "views/0", "value": "9"}]
    assert got(app, "--table", "odd") == [{"task": "partition-0", "key": "base64:/wA=", "value": "base64:AQ=="}]


@pytest.mark.parametrize(
    ("table", "key", "expected"),
    [
        ("seen", "bob", "bob"),
        ("pages", '["ann", 3]', ["ann", 3]),
        ("odd", "base64:/wA=", "base64:/wA="),
        (OFFSETS, "views/0", "views/0"),
    ],
)
def test_one_key_is_looked_up_in_all_tasks(app: Holdfast, table: str, key: str, expected: Any) -> None:
    Made("partition-0").batch([])
    Made("partition-1").batch()
    rows = got(app, "--table", table, "--key", key)
    assert {json.dumps(row["key"]) for row in rows} == {json.dumps(expected)}
    assert rows[-1]["task"] == "partition-1"


def test_a_null_key_is_looked_up_where_expressible(app: Holdfast) -> None:
    Made("partition-0").batch([{"user": None, "page": None, "n": 1}])
    assert got(app, "--table", "pages", "--key", "[null,null]")[0]["state"] == {"n": 1}
    assert got(app, "--table", "seen")[0]["key"] is None


def test_text_output_has_a_row_per_key_up_to_max(app: Holdfast) -> None:
    Made("partition-0").batch()
    Made("partition-1").batch()
    ran = app("state", "get", "visits.yaml", "--table", "pages", "--max", "4")
    assert [line.split() for line in ran.out.splitlines()] == [
        ["TASK", "KEY", "STATE"],
        ["partition-0", '["ann",', "1]", '{"n":', "1}"],
        ["partition-0", '["ann",', "3]", '{"n":', "1}"],
        ["partition-0", '["bob",', "2]", '{"n":', "1}"],
        ["partition-1", '["ann",', "1]", '{"n":', "1}"],
    ]


def test_the_durable_copy_replaces_a_lost_or_untrusted_local_store(app: Holdfast) -> None:
    intact, rebooted, emptied, cut = (Made(f"partition-{number}") for number in range(4))
    for made in (intact, rebooted, emptied, cut):
        made.batch()
    os.truncate(cut.store_directory.data_path, cut.store_directory.data_path.stat().st_size // 2)
    sidecar = rebooted.store_directory.path / "store.json"
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {"bootId": "another"}))
    for path in emptied.store_directory.path.iterdir():
        path.unlink()
    before = files(".holdfast")
    assert [(task["from"], task["why"]) for task in listed(app)] == [
        ("local", None),
        ("durable", "MachineRestarted"),
        ("durable", "NoStore"),
        ("durable", "Changed"),
    ]
    assert [(task["from"], task["why"]) for task in listed(app, "--durable")] == [("durable", None)] * 4
    rows = [{k: v for k, v in row.items() if k != "task"} for row in got(app, "--table", "seen", "--max", "8")]
    assert rows[:2] == rows[2:4] == rows[4:6] == rows[6:]
    assert files(".holdfast") == before


def test_other_runs_other_directories_and_other_apps(app: Holdfast) -> None:
    Made("partition-0", run="old/1").batch()
    Made("partition-5", directory="there").batch()
    ran = app("state", "ls", "visits.yaml")
    assert (ran.code, ran.out) == (2, "")
    for part in ("visits has no state of run 1", "looked in", "--data", "--run old/1"):
        assert part in ran.err
    assert [task["task"] for task in listed(app, "--run", "old/1")] == ["partition-0"]
    assert [task["task"] for task in listed(app, "--data", "there")] == ["partition-5"]
    Path("other.yaml").write_text(APP.replace("name: visits", "name: others"), encoding="utf-8")
    assert app("state", "ls", "other.yaml", "--data", "there").code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("get", "--table", "sen"), "no task has a table sen; did you mean seen?"),
        (("get", "--table", "seen", "--task", "partition-9"), "task partition-9 has no state in"),
        (("get", "--table", "seen", "--key", "zoe"), "table seen has no key zoe"),
        (("get", "--table", "seen.timers", "--key", "ann"), "leave --key out"),
        (("export", "--table", "sen", "--to", "x.parquet"), "no task has a table sen"),
        (("export", "--table", "seen", "--to", "x.csv"), "must end in .parquet or .arrow"),
        (("export", "--table", "seen", "--to", "visits.arrow"), "exists already"),
        (("export", "--table", "seen", "--to", "no/such/x.arrow"), "can't be written"),
        (("ls", "--durable", "--run", "2"), "has no state of run 2"),
    ],
)
def test_mistakes_are_told_with_a_way_out(app: Holdfast, arguments: tuple[str, ...], message: str) -> None:
    Made("partition-0").batch()
    Path("visits.arrow").write_bytes(b"mine")
    action, *rest = arguments
    ran = app("state", action, "visits.yaml", *rest)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert sorted(path.name for path in Path().iterdir() if "x." in path.name) == []


def test_an_export_has_all_rows_with_their_types(app: Holdfast) -> None:
    for task in ("partition-0", "partition-1"):
        Made(task).batch()
    ran = app("state", "export", "visits.yaml", "--table", "pages", "--to", "pages.parquet")
    assert (ran.code, ran.out) == (0, "6 rows of pages written to pages.parquet\n")
    table = pq.read_table("pages.parquet")
    assert table.schema.names == ["task", "user", "page", "state", "touched", "timers"]
    assert table.column("page").to_pylist() == [1, 3, 2] * 2
    assert table.schema.field("page").type == pa.int64()
    assert [json.loads(state) for state in table.column("state").to_pylist()] == [{"n": 1}] * 6
    assert app("state", "export", "visits.yaml", "--table", "seen", "--to", "seen.arrow").code == 0
    with pa.ipc.open_file("seen.arrow") as file:
        seen_rows = file.read_all().to_pylist()
    assert {row["touched"].isoformat() for row in seen_rows} == {"2023-11-14T22:15:00+00:00"}
    assert json.loads(seen_rows[0]["timers"])[0]["name"] == "leave"
    for name, count in (("seen.timers", 8), ("odd", 2), (OFFSETS, 2)):
        ran = app("state", "export", "visits.yaml", "--table", name, "--to", f"{name}.parquet")
        assert ran.out.startswith(f"{count} rows")
    assert pq.read_table("odd.parquet").to_pylist()[0] == {"task": "partition-0", "key": b"\xff\x00", "value": b"\x01"}


@contextmanager
def at_work(directory: StoreDirectory) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the claim and commits a batch whenever it is told."""
    code = (
        "import sys; from pathlib import Path\n"
        "from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity\n"
        "from holdfast_runtime.state.store.task_store import TaskStore\n"
        f"directory = StoreDirectory(Path({str(directory.path)!r}), "
        "TaskIdentity('visits', '1', 'partition-0'), 1 << 26)\n"
        "store = TaskStore.open(directory)\n"
        "print('ready', flush=True)\n"
        "for line in sys.stdin:\n"
        "    store.begin(store.head.batch + 1, 3); store.offsets.put(b'views/0', line.strip().encode())\n"
        "    store.commit(); print('done', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.stdin.close()
        process.wait(patience(30))
        process.stdout.close()


@pytest.mark.parametrize("announced", [True, False])
def test_a_running_app_is_read_and_goes_on(app: Holdfast, announced: bool) -> None:
    made = Made("partition-0")
    made.batch()
    with at_work(made.store_directory) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if announced:
            lock = Path(".holdfast/visits/apps/visits/run.lock")
            lock.write_text(json.dumps({"pid": os.getpid(), "command": "holdfast run"}), encoding="utf-8")
        for number in range(20):
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"
            assert got(app, "--table", OFFSETS)[0]["value"] == str(number)
    claim(made.store_directory).release()


def test_reading_leaves_no_lock_and_no_file(app: Holdfast) -> None:
    made = Made("partition-0")
    made.batch()
    before = files(".holdfast")
    listed(app)
    got(app, "--table", "seen")
    assert files(".holdfast") == before
