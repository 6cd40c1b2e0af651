"""A store does what a dictionary does, moves by whole batches, and goes back by one."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.errors import HoldfastError, RetrySoonError, UserActionError
from holdfast_runtime.state.errors import EpochFencedError, StoreFullError
from holdfast_runtime.state.store.directory import StoreDirectory
from holdfast_runtime.state.store.table import LONGEST_PLAIN
from holdfast_runtime.state.store.task_store import BatchWork, CommittedBatch, TaskStore
from tests.error_codes import has_code
from tests.state.places import TASK, Disk
from tests.waiting import patience


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TaskStore]:
    with TaskStore.create(Disk(tmp_path).store_directory, -1) as store:
        yield store


BEGINNINGS = (b"a", b"ab", b"b", b"x" * LONGEST_PLAIN, b"x" * (LONGEST_PLAIN - 1), b"\xff" * 600)
KEYS = st.builds(lambda start, end: start + end, st.sampled_from(BEGINNINGS), st.binary(max_size=2))
VALUES = st.binary(max_size=4)
TABLES = st.sampled_from(["one", "two"])
State = dict[str, dict[bytes, bytes]]


class Model(RuleBasedStateMachine):
    """Two tables of a store beside two dictionaries, one batch after the other."""

    store: TaskStore

    @initialize()
    def create(self) -> None:
        import tempfile  # noqa: PLC0415

        self.directory = tempfile.TemporaryDirectory()
        self.disk = Disk(Path(self.directory.name))
        self.store = TaskStore.create(self.disk.store_directory, -1)
        self.before: State = {"one": {}, "two": {}}
        self.committed: State = {"one": {}, "two": {}}
        self.begin()

    def begin(self) -> None:
        self.store.begin(self.store.head.batch + 1, 1)
        self.now: State = {name: dict(rows) for name, rows in self.committed.items()}

    @rule(table=TABLES, rows=st.lists(st.tuples(KEYS, VALUES), max_size=5), arrow=st.booleans())
    def put(self, table: str, rows: list[tuple[bytes, bytes]], arrow: bool) -> None:
        keys, values = [row[0] for row in rows], [row[1] for row in rows]
        if arrow:
            self.store.table(table).put_many(pa.array(keys, pa.binary()), pa.array(values, pa.large_binary()))
        else:
            self.store.table(table).put_many(keys, values)
        self.now[table].update(rows)

    @rule(table=TABLES, key=KEYS, value=VALUES)
    def put_one(self, table: str, key: bytes, value: bytes) -> None:
        self.store.table(table).put(key, value)
        self.now[table][key] = value

    @rule(table=TABLES, keys=st.lists(KEYS, max_size=4))
    def delete(self, table: str, keys: list[bytes]) -> None:
        self.store.table(table).delete_many(keys)
        for key in keys:
            self.now[table].pop(key, None)

    @rule(table=TABLES, keys=st.lists(KEYS, max_size=6))
    def get(self, table: str, keys: list[bytes]) -> None:
        expected = [self.now[table].get(key) for key in keys]
        assert self.store.table(table).get_many(keys) == expected
        assert self.store.table(table).get_arrow(pa.array(keys, pa.binary())).to_pylist() == expected

    @rule(table=TABLES, keys=st.sets(KEYS, max_size=6))
    def view(self, table: str, keys: set[bytes]) -> None:
        rows = {key: self.now[table][key] for key in keys if key in self.now[table] and len(key) <= LONGEST_PLAIN}
        shown = self.store.table(table).view_many([*rows], lambda values: [*map(bytes, values)])
        assert shown == [*rows.values()]

    @rule(table=TABLES, prefix=st.just(b"") | KEYS, start=st.just(b"") | KEYS, stop=st.none() | KEYS)
    def scan(self, table: str, prefix: bytes, start: bytes, stop: bytes | None) -> None:
        expected = [
            (key, value)
            for key, value in sorted(self.now[table].items())
            if key.startswith(prefix) and key >= start and (stop is None or key < stop)
        ]
        assert list(self.store.table(table).scan(prefix, start, stop)) == expected

    @rule(table=TABLES, prefix=st.sampled_from(BEGINNINGS))
    def expire(self, table: str, prefix: bytes) -> None:
        for key, _ in self.store.table(table).scan(prefix):
            self.store.table(table).delete(key)
            del self.now[table][key]

    @rule()
    def commit(self) -> None:
        self.store.commit()
        self.before, self.committed = self.committed, self.now
        self.begin()

    @rule()
    def give_up(self) -> None:
        self.begin()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = TaskStore.open(self.disk.store_directory)
        self.begin()

    @precondition(lambda self: self.store.head.undo)
    @rule()
    def roll_back(self) -> None:
        self.store.begin(self.store.head.batch, 1)
        self.committed = self.before
        self.begin()

    @invariant()
    def changes_lead_from_the_committed_state_to_this_one(self) -> None:
        delta = self.store.delta()
        state = {name: dict(rows) for name, rows in self.committed.items()}
        for name, rows in delta.tables.items():
            for key, value in rows:
                assert state[name].get(key) != value
                if value is None:
                    del state[name][key]
                else:
                    state[name][key] = value
        assert state == self.now

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.directory.cleanup()


test_a_store_does_what_dictionaries_do = Model.TestCase


def test_a_store_at_this_batch_is_rolled_back_or_kept(store: TaskStore) -> None:
    store.begin(0, 1)
    store.table("rows").put(b"a", b"0")
    store.commit()
    store.begin(1, 1)
    store.table("rows").put(b"a", b"1")
    store.table("new").put(b"b", b"1")
    store.commit()
    assert store.begin(1, 1, CommittedBatch.KEEP) is BatchWork.KEPT
    assert store.table("rows").get(b"a") == b"1"
    store.commit()
    assert store.head.batch == 1
    assert store.begin(1, 1, CommittedBatch.UNDO) is BatchWork.RUN
    assert store.table("rows").get(b"a") == b"0"
    assert store.table("new").get(b"b") is None
    assert store.head.batch == 0


@pytest.mark.parametrize("batch", [-1, 1, 7])
def test_a_store_at_any_other_batch_is_to_be_rebuilt(store: TaskStore, batch: int) -> None:
    with pytest.raises(
        RetrySoonError,
        match=rf"partition-0.* at batch -1.*batch {batch} is to run",
        check=has_code("StoreRebuildError"),
    ):
        store.begin(batch, 1)


def test_a_store_goes_back_one_batch_and_not_two(store: TaskStore) -> None:
    for batch in range(3):
        store.begin(batch, 1)
        store.commit()
    store.begin(2, 1)
    with pytest.raises(RetrySoonError, match="can't be taken back", check=has_code("StoreRebuildError")):
        store.begin(1, 1)


def test_a_store_a_newer_attempt_wrote_refuses_the_older_one(store: TaskStore) -> None:
    store.begin(0, 2)
    store.commit()
    with pytest.raises(EpochFencedError, match="attempt 1 wants to run batch 1"):
        store.begin(1, 1)


def test_an_empty_key_is_refused_by_name(store: TaskStore) -> None:
    store.begin(0, 1)
    with pytest.raises(UserActionError, match="table rows", check=has_code("StateKeyError")):
        store.table("rows").put_many([b"a", b""], [b"1", b"2"])


def test_a_store_has_one_user_within_and_among_processes(tmp_path: Path) -> None:
    store_directory = Disk(tmp_path).store_directory
    with TaskStore.create(store_directory, -1):
        with pytest.raises(RetrySoonError, match="open in this process", check=has_code("StoreBusyError")):
            TaskStore.open(store_directory)
        script = (
            "import sys; from pathlib import Path; from tests.state.places import Disk\n"
            "from holdfast_runtime.state.store.task_store import TaskStore\n"
            "TaskStore.open(Disk(Path(sys.argv[1])).store_directory)"
        )
        process = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=patience(60),
            check=False,
        )
        assert "StoreBusyError" in process.stderr
        assert "open in another process" in process.stderr
    TaskStore.open(store_directory).close()


def in_a_fork(run: Callable[[], None]) -> int:
    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join(timeout=patience(60))
    return process.exitcode if process.exitcode is not None else -1


def test_a_forked_process_may_not_use_its_parents_store(store: TaskStore) -> None:
    def use() -> None:
        try:
            store.begin(0, 1)
        except HoldfastError:
            os._exit(7)

    assert in_a_fork(use) == 7
    store.begin(0, 1)
    store.commit()


def small(tmp_path: Path) -> StoreDirectory:
    return Disk(tmp_path, quota=1 << 20).store_directory


def test_a_store_at_its_quota_names_its_task_losing_nothing(tmp_path: Path) -> None:
    store_directory = small(tmp_path)
    with TaskStore.create(store_directory, -1) as store:
        store.begin(0, 1)
        store.table("rows").put(b"a", b"kept")
        store.commit()
        store.begin(1, 1)
        store.table("rows").put_many([b"%d" % n for n in range(2000)], [b"x" * 1000] * 2000)
        with pytest.raises(StoreFullError, match=r"partition-0.*1,048,576 bytes.*raise the quota"):
            store.commit()
        store.begin(1, 1)
        assert dict(store.table("rows").scan()) == {b"a": b"kept"}
        store.table("rows").put(b"b", b"goes on")
        store.commit()
    with TaskStore.open(StoreDirectory(store_directory.path, TASK, 1 << 24, store_directory.boot_id_file)) as store:
        store.begin(2, 1)
        store.table("rows").put_many([b"%d" % n for n in range(2000)], [b"x" * 1000] * 2000)
        store.commit()
        assert store.head.batch == 2


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from tests.state.places import Disk
from holdfast_runtime.state.errors import StoreFullError
from holdfast_runtime.state.store.task_store import TaskStore
with TaskStore.create(Disk(Path(sys.argv[1])).store_directory, -1) as store:
    store.begin(0, 1); store.table("rows").put(b"a", b"kept"); store.commit()
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    store.begin(1, 1); store.table("rows").put_many([b"%d" % n for n in range(2000)], [b"x" * 1000] * 2000)
    try:
        store.commit()
    except StoreFullError as error:
        print(error)
    store.begin(1, 1)
    assert dict(store.table("rows").scan()) == {b"a": b"kept"}
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.table("rows").put(b"b", b"goes on"); store.commit()
    print("goes on", store.head.batch)
"""


def test_a_full_disk_is_reported_and_loses_nothing(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=False,
    )
    assert "has no space for the state of task partition-0" in process.stdout, process.stderr
    assert process.stdout.endswith("goes on 1\n")


def test_what_is_purged_is_gone_and_never_read_back(store: TaskStore) -> None:
    store.begin(0, 1)
    store.table("rows").put_many([b"a", b"b", b"c"], [b"1", b"2" * 1000, b"3"])
    store.commit()
    store.begin(1, 1)
    table = store.table("rows")
    table.put(b"c", b"4")
    table.purge([b"b", b"not there"])
    assert table.changes() == [(b"b", None), (b"c", b"4"), (b"not there", None)]
    assert table.before() == {b"c": b"3"}
    assert table.get_many([b"a", b"b", b"c"]) == [b"1", None, b"4"]
    assert dict(table.scan()) == {b"a": b"1", b"c": b"4"}
    store.commit()
    assert dict(store.table("rows").scan()) == {b"a": b"1", b"c": b"4"}
    store.begin(1, 1)
    assert dict(store.table("rows").scan()) == {b"a": b"1", b"c": b"3"}


def test_a_purge_spares_what_is_written_after_it(store: TaskStore) -> None:
    store.begin(0, 1)
    store.table("rows").put(b"a", b"1")
    store.commit()
    store.begin(1, 1)
    table = store.table("rows")
    table.purge([b"a"])
    table.put(b"a", b"2")
    store.commit()
    assert dict(store.table("rows").scan()) == {b"a": b"2"}
    store.begin(1, 1)
    assert dict(store.table("rows").scan()) == {b"a": b"1"}


def test_a_purge_that_is_given_up_has_purged_nothing(store: TaskStore) -> None:
    store.begin(0, 1)
    store.table("rows").put(b"a", b"1")
    store.commit()
    store.begin(1, 1)
    store.table("rows").purge([b"a"])
    store.abandon()
    store.begin(1, 1)
    assert dict(store.table("rows").scan()) == {b"a": b"1"}
