"""Several processes on one log, some of them killed: every batch whole and once, its marker with it, order kept."""

import mmap
import os
import random
import signal
import struct
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import lmdb
import pytest

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.records import Marker, OffsetBounds, OffsetRange, written_batch
from tests.forked import FORKS
from tests.waiting import patience

HERE = StreamPartition("s", 0)
DEADLINE = patience(180.0)
_NUMBER = struct.Struct("<Q")
PER_BATCH = 50


def write_batches(folder: Path, task: str, until: int) -> None:
    """Go on behind the last batch found, as a restarted task does."""
    log = EmbeddedLog(folder, sync=False)
    last = log.written(HERE, "app/1", task)
    for batch in range(0 if last is None else last.batch, until):  # the last one again, as after a crash
        keys = [f"{task}:{batch}:{i}".encode() for i in range(PER_BATCH)]
        log.append(HERE, written_batch(keys, [b"x" * 100] * PER_BATCH, 0), marker(task, batch))


def marker(task: str, batch: int) -> Marker:
    return Marker("app/1", task, batch, 1, "life", "digest")


def start(folder: Path, task: str, until: int) -> ForkServerProcess:
    process = FORKS.Process(target=write_batches, args=(folder, task, until))
    process.start()
    return process


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.001)


def batches_of(log: EmbeddedLog) -> dict[str, list[int]]:
    """Task -> the batches found, each of which must be whole, in one piece and in order."""
    end = log.bounds("s")[HERE].end
    keys = [key.decode().split(":") for key in log.fetch(OffsetRange(HERE, 0, end)).column("key").to_pylist()]
    batches: dict[str, list[int]] = {}
    assert len(keys) % PER_BATCH == 0
    for at in range(0, len(keys), PER_BATCH):
        task, batch, _ = keys[at]
        assert keys[at : at + PER_BATCH] == [[task, batch, str(i)] for i in range(PER_BATCH)]
        batches.setdefault(task, []).append(int(batch))
    return batches


def test_many_processes_append_and_read_at_once(log: EmbeddedLog, tmp_path: Path) -> None:
    log.ensure("s", 1, now=0)
    writers = [start(tmp_path / "log", task, 200) for task in "abc"]
    bounds = OffsetBounds(0, 0)
    end = time.monotonic() + DEADLINE
    while any(writer.is_alive() for writer in writers):
        assert time.monotonic() < end
        now = log.bounds("s")[HERE]
        assert now >= bounds
        assert now.end % PER_BATCH == 0
        fetched = log.fetch(OffsetRange(HERE, bounds.end, now.end))
        assert fetched.num_rows == now.end - bounds.end
        bounds = now
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert batches_of(log) == {task: list(range(200)) for task in "abc"}


def test_killed_appenders_leave_whole_batches_with_their_markers(log: EmbeddedLog, tmp_path: Path) -> None:
    log.ensure("s", 1, now=0)
    chance = random.Random(5)  # noqa: S311 - moments to kill at
    endless = 10**9
    for _ in range(20):
        before = log.bounds("s")[HERE].end
        writers = [start(tmp_path / "log", task, endless) for task in "ab"]
        more = chance.randrange(1, 60) * PER_BATCH
        try:
            wait_until(lambda: log.bounds("s")[HERE].end >= before + more)  # noqa: B023 - called at once
        finally:
            for writer in writers:
                writer.kill()
                writer.join(DEADLINE)
        for task, batches in batches_of(log).items():
            assert batches == list(range(len(batches)))
            assert log.written(HERE, "app/1", task) == marker(task, batches[-1])
    assert log.append(HERE, written_batch([b"k"], [b"v"], 0)), "the lock of the dead is free"


def test_a_writer_killed_before_announcing_its_commit_blocks_nobody(log: EmbeddedLog, tmp_path: Path) -> None:
    log.ensure("s", 1, now=0)
    for batch in range(3):
        log.append(HERE, written_batch([b"k"], [b"v"], 0), marker("a", batch))
    killed = FORKS.Process(target=_die_with_an_older_transaction_told, args=(tmp_path / "log" / "s" / "0",))
    killed.start()
    killed.join(DEADLINE)
    assert killed.exitcode == -signal.SIGKILL
    with FORKS.Pool(1) as pool:
        assert pool.map(_last_written, [tmp_path / "log"]) == [2]


def _die_with_an_older_transaction_told(partition: Path) -> None:
    """Leave what a kill leaves between a commit's meta page and the lock file, from which readers take their number."""
    env = lmdb.open(str(partition), create=False)
    transaction = env.info()["last_txnid"]
    with (partition / "lock.mdb").open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        at = [at for at in range(0, 128, 8) if _NUMBER.unpack_from(content, at) == (transaction,)]
        held = env.begin(write=True)
        assert held
        _NUMBER.pack_into(content, at[0], transaction - 1)
        os.kill(os.getpid(), signal.SIGKILL)


def _last_written(folder: Path) -> int | None:
    last = EmbeddedLog(folder, sync=False).written(HERE, "app/1", "a")
    return None if last is None else last.batch


def test_processes_that_create_one_stream_at_once_agree(tmp_path: Path) -> None:
    with FORKS.Pool(4) as pool:
        counts = pool.map(_created, [tmp_path / "log"] * 12)
    assert counts == [3] * 12
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["s"]


def _created(folder: Path) -> int:
    return EmbeddedLog(folder, sync=False).ensure("s", 3, now=0).partitions


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_opens_its_own(log: EmbeddedLog) -> None:
    log.ensure("s", 1, now=0)
    log.append(HERE, written_batch([b"a"], [b"1"], 0))
    child = os.fork()
    if not child:
        code = 1
        try:
            log.append(HERE, written_batch([b"b"], [b"2"], 0))
            code = 0 if log.fetch(OffsetRange(HERE, 0, 2)).column("key").to_pylist() == [b"a", b"b"] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    log.append(HERE, written_batch([b"c"], [b"3"], 0))
    assert log.fetch(OffsetRange(HERE, 0, 3)).column("key").to_pylist() == [b"a", b"b", b"c"]
