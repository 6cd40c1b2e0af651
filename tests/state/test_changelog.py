"""A changelog: small objects in a log that processes share. All of them see the same, whoever tidies meanwhile."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast_runtime.shared_log import LogRecord
from holdfast_runtime.state.durable.changelog import log_reader, log_storage
from holdfast_runtime.state.durable.changelog.log_reader import LogReader
from holdfast_runtime.state.durable.changelog.log_storage import LogStorage
from holdfast_runtime.state.durable.changelog.log_view import Deed, LogKey, LogView
from holdfast_runtime.state.durable.changelog.storage_beside import StorageBeside
from holdfast_runtime.state.durable.storage import DirectoryStorage
from holdfast_runtime.state.errors import CheckpointUnavailableError
from tests.error_codes import has_code
from tests.state.logs import MemoryLog

NAMES = st.sampled_from(["delta-1", "delta-2", "fence-1", "fence-2"])
DIRECTORIES = st.sampled_from(["a", "a/b", "c"])
Processes = Callable[[int], None]


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    """What follows a call is done by another process, with views of its own."""
    readers = dict[tuple[object, int], LogReader]()
    at_work = [0]

    def reader_of(log: MemoryLog) -> LogReader:
        return readers.setdefault((log, at_work[0]), LogReader(log))

    def become(process: int) -> None:
        at_work[0] = process

    monkeypatch.setattr(log_storage, "reader_of", reader_of)
    return become


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


def gone(storage: LogStorage | StorageBeside, *names: str) -> list[str]:
    return list(storage.delete(names))


def test_of_two_creators_the_first_in_the_log_wins(log: MemoryLog, processes: Processes) -> None:
    storage = LogStorage(log, "task")
    assert storage.names() == []
    processes(1)
    assert storage.write("delta-1", [b"of one"]) == 6
    processes(0)
    assert storage.write("delta-1", [b"of zero"]) is None
    assert storage.read("delta-1") == b"of one"


def test_a_name_taken_by_the_same_content_counts_as_free(log: MemoryLog, processes: Processes) -> None:
    storage = LogStorage(log, "task")
    assert storage.write("delta-1", [b"same"]) == 4
    processes(1)
    assert storage.write("delta-1", [b"sa", b"me"]) == 4


def test_a_look_behind_a_write_sees_what_came_before_it(log: MemoryLog, processes: Processes) -> None:
    storage = LogStorage(log, "task")
    storage.write("delta-1", [b"1"])
    processes(1)
    storage.write("fence-2", [b"2"])
    processes(0)
    storage.write("delta-2", [b"3"])
    assert sorted(storage.names_behind("delta-1")) == ["delta-2", "fence-2"]


def test_names_below_are_not_names_here(log: MemoryLog) -> None:
    storage = LogStorage(log)
    storage.below("a", "b").write("delta-1", [b"1"])
    storage.below("a").write("delta-2", [b"2"])
    assert (storage.names(), storage.directories()) == ([], ["a"])
    assert storage.below("a").names() == ["delta-2"]
    assert storage.below("a").clear(()) == 2
    assert storage.below("a", "b").names() == []


def test_a_record_that_others_deleted_is_no_absence(log: MemoryLog) -> None:
    storage = LogStorage(log, "task")
    storage.write("delta-1", [b"1"])
    log.forget(0, 1)
    with pytest.raises(CheckpointUnavailableError, match=r"task/delta-1 is gone.*retention\.ms=-1"):
        storage.read("delta-1")


def test_an_idle_directory_hinders_no_tidying(log: MemoryLog, processes: Processes) -> None:
    idle, busy = LogStorage(log, "idle"), LogStorage(log, "busy")
    idle.write("delta-1", [b"stays"])
    for number in range(400):
        busy.write(f"delta-{number}", [os.urandom(100_000)])
        gone(busy, f"delta-{number - 2}")
    assert sum(len(record.value) for record in log.records(0, *log.bounds(0))) < 3 * log_reader._WASTE  # noqa: SLF001
    for process in (0, 1):
        processes(process)
        assert idle.read("delta-1") == b"stays"
        assert sorted(busy.names()) == ["delta-398", "delta-399"]


def test_a_large_object_lies_beside_the_log(tmp_path: Path, log: MemoryLog, processes: Processes) -> None:
    storage = StorageBeside(LogStorage(log), DirectoryStorage(tmp_path)).below("task")
    content = os.urandom(1 << 20)
    assert storage.write("delta-1", [content]) == 1 << 20
    assert storage.write("delta-1", [b"other"]) is None
    assert sum(len(record.value) for record in log.all[0]) < 100
    processes(1)
    assert (storage.names(), storage.unfinished()) == (["delta-1"], {})
    assert storage.read("delta-1") == content
    with storage.reading("delta-1") as read:
        assert read(1 << 21) == content
    assert gone(storage, "delta-1") == ["delta-1"]
    assert not [*(tmp_path / "task").iterdir()]


def test_the_content_of_a_writer_that_lost_is_unfinished(tmp_path: Path, log: MemoryLog, processes: Processes) -> None:
    storage = StorageBeside(LogStorage(log), DirectoryStorage(tmp_path)).below("task")
    storage.write("delta-1", [b"first"])
    processes(1)
    assert storage.write("delta-1", [os.urandom(1 << 20)]) is None
    (left,) = storage.unfinished()
    assert storage.unfinished() == {left: "delta-1"}
    assert gone(storage, left) == [left]
    assert (storage.unfinished(), storage.read("delta-1")) == ({}, b"first")


def test_what_no_batch_waits_for_is_not_in_the_log(tmp_path: Path, log: MemoryLog) -> None:
    storage = StorageBeside(LogStorage(log), DirectoryStorage(tmp_path)).below("task")
    storage.write("snapshot-1", [b"s"])
    storage.write("fence-1", [b"f"])
    assert (sorted(storage.names()), len(log.all[0])) == (["fence-1", "snapshot-1"], 1)
    assert storage.beside.names() == ["snapshot-1"]
    assert gone(storage, "fence-1", "snapshot-1", "delta-9") == ["snapshot-1", "fence-1", "delta-9"]
    assert storage.names() == []


Deeds = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["create", "replace", "delete", "names", "read", "look", "tidy"]),
        DIRECTORIES,
        NAMES,
        st.binary(min_size=1, max_size=3),
    ),
    max_size=60,
)


def truth(log: MemoryLog) -> LogView:
    """What all records say that were ever written."""
    view = LogView(0)
    for record in log.all[0]:
        view.add(record)
    return view


@settings(max_examples=150, deadline=None)
@given(Deeds)
def test_processes_agree_on_any_history_however_it_is_tidied(deeds: list[tuple[int, str, str, str, bytes]]) -> None:
    log, readers = MemoryLog(), dict[int, LogReader]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_reader, "_WASTE", 4)
        patch.setattr(log_reader, "_KEPT_BYTES", 8)
        for process, deed, directory, name, content in deeds:
            patch.setattr(
                log_storage, "reader_of", lambda log, process=process: readers.setdefault(process, LogReader(log))
            )
            storage, before = LogStorage(log, directory), truth(log).directories.get(directory, {})
            match deed:
                case "create" | "replace":
                    stored = storage.write(name, [content], replace=deed == "replace")
                    free = name not in before or deed == "replace" or log.all[0][before[name].offset].value == content
                    assert (stored is not None) == free
                case "delete":
                    assert gone(storage, name) == [name]
                case "names":
                    assert set(storage.names()) == set(before)
                case "read":
                    assert storage.names() or not before
                    expected = log.all[0][before[name].offset].value if name in before else None
                    assert storage.read(name) == expected
                case "look":
                    assert set(storage.names_behind("")) <= {"delta-1", "delta-2", "fence-1", "fence-2"}
                case "tidy":
                    readers.setdefault(process, LogReader(log)).tidy(0)
        patch.setattr(log_storage, "reader_of", LogReader)
        for directory in ("a", "a/b", "c"):
            entries = truth(log).directories.get(directory, {})
            fresh = LogStorage(log, directory)
            assert {name: fresh.read(name) for name in fresh.names()} == {
                name: log.all[0][entry.offset].value for name, entry in entries.items()
            }


def test_a_move_of_what_was_replaced_meanwhile_changes_nothing() -> None:
    view = LogView(0)
    keys = [
        LogKey(Deed.CREATE, "a", "fence-1", "x"),
        LogKey(Deed.REPLACE, "a", "fence-1", "y"),
        LogKey(Deed.MOVE, "a", "fence-1", "x", origin=0),
    ]
    for offset, key in enumerate(keys):
        view.add(LogRecord(offset, 0, key.packed(), b""))
    assert view.directories["a"]["fence-1"].digest == "y"


def test_a_record_of_others_is_refused_by_its_place(log: MemoryLog) -> None:
    log.append(0, b"a key", b"1")
    with pytest.raises(UserActionError, check=has_code("ChangelogUnreadableError"), match="record 0 of partition 0"):
        LogStorage(log, "task").names()
