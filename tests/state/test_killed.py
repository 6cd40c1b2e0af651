"""Processes are killed by SIGKILL at every named step and at many random moments, and the next one goes on.

Each time, in the end: every batch is in the output log once, in order, and the state is what the log says, also where
a batch computes something else each time.
"""

import os
import random
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast_runtime.state.commit import COMMIT_STEPS
from holdfast_runtime.state.durable.copy import BUNDLE_STEPS, COLLECT_STEPS, SNAPSHOT_STEPS
from holdfast_runtime.state.durable.restore import RESTORE_STEPS, restore
from holdfast_runtime.state.store.task_store import TaskStore
from tests.forked import ForkedProcess, children
from tests.s3.gateway import Gateway
from tests.state import worker
from tests.state.logs import FileLog
from tests.state.test_beside import at_work
from tests.waiting import patience

KILLS = 1000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 64
DEADLINE = patience(60)


def ended(directory: Path, *arguments: object) -> int:
    return worker.start(directory, *arguments).wait(DEADLINE)


def state(directory: Path) -> dict[str, dict[bytes, bytes]]:
    rows_by_task: dict[str, dict[bytes, bytes]] = {}
    for task in worker.TASKS:
        with TaskStore.open(worker.store_directory(directory, task)) as store:
            assert store.head.batch == worker.last_done(directory)
            assert store.offsets.get(b"clicks/0") == b"%d" % store.head.batch
            rows_by_task[task] = dict(store.table("counters").scan())
    return rows_by_task


def restored(directory: Path) -> dict[str, dict[bytes, bytes]]:
    """What the durable copy alone gives."""
    rows_by_task: dict[str, dict[bytes, bytes]] = {}
    for task in worker.TASKS:
        shutil.rmtree(worker.store_directory(directory, task).path)
        got = restore(
            worker.durable(directory, task), worker.store_directory(directory, task), worker.last_done(directory)
        )
        assert got is not None
        with got.store as store:
            rows_by_task[task] = dict(store.table("counters").scan())
    return rows_by_task


def check(directory: Path, last: int) -> None:
    """The log has each batch once, and state and durable copy are what it says."""
    expected: dict[str, dict[bytes, bytes]] = {task: {} for task in worker.TASKS}
    rows = sorted((row for part in worker.log(directory).values() for row in part), key=lambda row: int(str(row[0])))
    assert len(rows) == (last + 1) * 7 * len(worker.TASKS)
    assert {row[0] for row in rows} == set(range(last + 1))
    for partition in worker.log(directory).values():
        assert partition == sorted(partition, key=lambda row: int(str(row[0])))
    written = [row for row in rows if row[3] is not None]
    for batch in range(last + 1):
        for _, task, key, value in (row for row in written if row[0] == batch):
            expected[str(task)][str(key).encode()] = str(value).encode()
        for _, task, key, _ in (row for row in rows if row[0] == batch and row[3] is None):
            expected[str(task)].pop(str(key).encode(), None)
    assert state(directory) == expected
    assert restored(directory) == expected


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("undisturbed") / "app"
    worker.prepare(directory)
    assert ended(directory, 1, 9, "fixed") == 0
    check(directory, 9)
    return directory


@pytest.fixture
def elsewhere(tmp_path: Path, gateway: Gateway) -> Path:
    """An app whose durable copies are in an object store."""
    directory = tmp_path / "app"
    worker.prepare(directory, gateway.bucket())
    return directory


def fatal_steps() -> list[tuple[str, int]]:
    commits = [(step, n) for step in (*COMMIT_STEPS, "partition committed", "batch done") for n in (1, 2, 9)]
    return commits + [(step, n) for step in (*SNAPSHOT_STEPS, *COLLECT_STEPS) for n in (1, 2, 4)]


@pytest.mark.parametrize(("step", "occurrence"), fatal_steps())
def test_a_kill_at_any_step_leaves_an_undisturbed_runs_state(
    tmp_path: Path, undisturbed: Path, step: str, occurrence: int
) -> None:
    directory = tmp_path / "app"
    worker.prepare(directory)
    assert ended(directory, 1, 9, "fixed", step, occurrence) == -signal.SIGKILL
    assert ended(directory, 2, 9, "fixed") == 0
    assert worker.log(directory) == worker.log(undisturbed)
    assert state(directory) == state(undisturbed)
    check(directory, 9)


@pytest.mark.parametrize("step", [*COMMIT_STEPS, "partition committed", "batch done", *SNAPSHOT_STEPS, *COLLECT_STEPS])
def test_the_same_holds_for_durable_copies_in_an_object_store(elsewhere: Path, undisturbed: Path, step: str) -> None:
    assert ended(elsewhere, 1, 9, "fixed", step, 2) == -signal.SIGKILL
    assert ended(elsewhere, 2, 9, "fixed") == 0
    assert worker.log(elsewhere) == worker.log(undisturbed)
    check(elsewhere, 9)


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """An app whose deltas and fences are in a changelog."""
    directory = tmp_path / "app"
    worker.prepare(directory, changelog=FileLog(tmp_path / "changelog"))
    return directory


@pytest.mark.parametrize("step", [*COMMIT_STEPS, "partition committed", "batch done", *SNAPSHOT_STEPS, *COLLECT_STEPS])
def test_the_same_holds_for_deltas_in_a_changelog(logged: Path, undisturbed: Path, step: str) -> None:
    assert ended(logged, 1, 9, "fixed", step, 2) == -signal.SIGKILL
    assert ended(logged, 2, 9, "fixed") == 0
    assert worker.log(logged) == worker.log(undisturbed)
    check(logged, 9)


@pytest.mark.parametrize("occurrence", [1, 2, 4])
@pytest.mark.parametrize("step", [*BUNDLE_STEPS, *SNAPSHOT_STEPS, *COLLECT_STEPS])
def test_a_kill_beside_a_bundle_leaves_an_undisturbed_runs_state(
    tmp_path: Path, undisturbed: Path, step: str, occurrence: int
) -> None:
    directory = tmp_path / "app"
    worker.prepare(directory)
    (directory / "beside").write_text("bundles within")
    assert ended(directory, 1, 9, "fixed", step, occurrence) == -signal.SIGKILL
    assert ended(directory, 2, 9, "fixed") == 0
    assert worker.log(directory) == worker.log(undisturbed)
    assert state(directory) == state(undisturbed)
    check(directory, 9)


@pytest.mark.parametrize("occurrence", [1, 2])
@pytest.mark.parametrize("step", RESTORE_STEPS)
def test_a_process_killed_in_a_restore_leaves_no_trusted_store(tmp_path: Path, step: str, occurrence: int) -> None:
    directory = tmp_path / "app"
    worker.prepare(directory)
    assert ended(directory, 1, 5, "drawn") == 0
    shutil.rmtree(directory / "disk")
    assert ended(directory, 2, 9, "drawn", step, occurrence) == -signal.SIGKILL
    assert ended(directory, 3, 9, "drawn") == 0
    check(directory, 9)


def test_processes_killed_at_any_moment_lose_and_double_nothing(tmp_path: Path) -> None:
    worker.prepare(tmp_path / "app")
    kill_at_any_moment(tmp_path / "app", KILLS)


def test_killed_processes_lose_and_double_nothing_in_an_object_store(elsewhere: Path) -> None:
    kill_at_any_moment(elsewhere, KILLS // 4)


def test_killed_processes_lose_and_double_nothing_with_a_changelog(logged: Path) -> None:
    kill_at_any_moment(logged, KILLS // 4)


def kill_at_any_moment(directory: Path, kills: int) -> None:
    draw, last, beside = random.Random(20260901), 10_000, 0  # noqa: S311
    for epoch in range(1, kills + 1):
        before = worker.last_done(directory)
        (directory / "beside").unlink(missing_ok=True)
        if mode := ("process", "bundles", "thread", "bundles within", "process", "bundles", "thread", "")[epoch % 8]:
            (directory / "beside").write_text(mode)
        process = worker.start(directory, epoch, last, "drawn")
        for _ in range(draw.randrange(1, 60)):
            assert process.stdout.readline()
        if mode == "process":
            beside += work_on(process, draw)
        moment = time.perf_counter() + draw.random() * 0.003
        while time.perf_counter() < moment:
            pass
        process.kill()
        process.wait(DEADLINE)
        assert worker.last_done(directory) >= before
        match draw.randrange(6):
            case 0:
                # Until its worker's death has reached it, a snapshot may write its note here.
                wait_for_snapshots(directory)
                shutil.rmtree(directory / "disk", ignore_errors=True)
            case 1:
                (directory / "boot_id").write_text(f"boot {epoch}\n")
    wait_for_snapshots(directory)
    assert beside, "no snapshot was begun beside batches"
    (directory / "beside").unlink(missing_ok=True)
    done = (worker.last_done(directory) // worker.EVERY + 2) * worker.EVERY
    assert ended(directory, kills + 1, done, "drawn") == 0
    # What killed snapshots have left is collected with what the next one makes obsolete.
    assert [worker.durable(directory, task).storage.unfinished() for task in worker.TASKS] == [{}, {}]
    check(directory, done)


def work_on(process: ForkedProcess, draw: random.Random) -> int:
    """Let a worker go on for as long as a snapshot takes, or less, and kill some of them; return how many it began."""
    moment, pids = time.perf_counter() + draw.random() * 2, set[int]()
    while time.perf_counter() < moment:
        assert process.stdout.readline()
        time.sleep(0.003)
        for pid in children(process.pid) - pids:
            pids.add(pid)
            if draw.random() < 0.2:
                with suppress(ProcessLookupError):  # it has ended since
                    os.kill(pid, signal.SIGKILL)
    return len(pids)


def wait_for_snapshots(directory: Path) -> None:
    """Wait until no snapshot is at work."""
    deadline = time.monotonic() + patience(DEADLINE)
    while at_work(worker.store_directory(directory, worker.TASKS[0])):
        assert time.monotonic() < deadline
        time.sleep(0.005)
