"""One writer, whole files, and damage that is named and never written over. Kills are in `test_file_store_killed`."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.placement.file_store import (
    DELETE_STEPS,
    WRITE_STEPS,
    FileStore,
    FileStoreLockedError,
    FileStoreUnavailableError,
    StoreFileUnreadableError,
    header_of,
    read_file,
)
from holdfast.placement.metadata_store import Version
from tests.placement.store_writer import Writer


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "store")


def test_a_second_process_is_told_the_directory_and_who_writes_it(tmp_path: Path) -> None:
    with Writer(tmp_path / "store", "hold") as writer, FileStore(tmp_path / "store") as second:
        assert writer.line() == "locked"
        with pytest.raises(FileStoreLockedError) as caught:
            second.put("a", b"one", None)
        assert str(tmp_path / "store") in str(caught.value)
        assert f"process {writer.pid}" in str(caught.value)
        assert isinstance(caught.value, WorldChangeError)


def test_readers_need_no_lock(tmp_path: Path) -> None:
    with FileStore(tmp_path / "store") as mine:
        mine.put("a", b"one", None)
    with Writer(tmp_path / "store", "hold") as writer:
        assert writer.line() == "locked"
        reader = FileStore(tmp_path / "store")
        assert reader.list("") == {"a": Version("1")}
        assert reader.get("a") is not None


def test_the_next_process_writes_as_soon_as_the_writer_is_gone(tmp_path: Path) -> None:
    with Writer(tmp_path / "store", "hold") as writer:
        assert writer.line() == "locked"
    with FileStore(tmp_path / "store") as second:
        second.put("a", b"one", None)


def test_two_stores_of_one_process_exclude_each_other_too(tmp_path: Path) -> None:
    with FileStore(tmp_path) as first, FileStore(tmp_path) as second:
        first.lock()
        first.lock()
        with pytest.raises(FileStoreLockedError, match=f"process {os.getpid()}"):
            second.lock()
        first.close()
        second.lock()


def test_a_forked_process_does_not_write_with_its_parents_lock(store: FileStore) -> None:
    store.put("a", b"one", None)
    child = os.fork()
    if child == 0:
        try:
            store.put("a", b"two", Version("1"))
        except FileStoreLockedError:
            os._exit(17)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    assert store.put("a", b"two", Version("1")) == "2"
    store.close()


def test_reading_makes_no_directory_and_takes_no_lock(tmp_path: Path) -> None:
    assert FileStore(tmp_path / "nowhere").get("a") is None
    assert FileStore(tmp_path / "nowhere").list("") == {}
    assert list(tmp_path.iterdir()) == []


def test_versions_rise_over_all_keys_deletes_and_processes(tmp_path: Path) -> None:
    versions: list[int] = []
    for _ in range(4):
        with FileStore(tmp_path) as store:
            one, two = store.put("a", b"", None), store.put("b", b"", None)
            versions += [int(one), int(two)]
            store.delete("b", two)
            store.delete("a", one)
    assert versions == sorted(set(versions))


def test_the_next_writer_cleans_up_what_a_crash_left(tmp_path: Path) -> None:
    (tmp_path / ".writing").write_bytes(b"holdfast-va")
    with FileStore(tmp_path) as store:
        assert store.list("") == {}
        store.lock()
        assert not (tmp_path / ".writing").exists()


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / ".hidden").write_text("mine")
    with FileStore(tmp_path) as store:
        store.delete("a", store.put("a", b"one", None))
        assert store.list("") == {}
    assert {path.name for path in tmp_path.iterdir()} == {"README.md", ".hidden", ".lock", ".highest"}


# Damage

VALUE = b'{"runId": "1"}'


def damages() -> dict[str, Callable[[bytes], bytes]]:
    """Every shorter file, every flipped bit, and more bytes than were written."""
    whole = header_of("a/b", 7, VALUE) + VALUE
    table: dict[str, Callable[[bytes], bytes]] = {}
    for length in range(len(whole)):
        table[f"cut to {length}"] = lambda content, length=length: content[:length]  # type: ignore[misc]
    for bit in range(len(whole) * 8):
        table[f"bit {bit}"] = lambda content, bit=bit: flipped(content, bit)  # type: ignore[misc]
    return {**table, "longer": lambda content: content + b"\x00", "twice": lambda content: content * 2}


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_any_damage_to_a_file_is_named_and_the_file_is_never_written_over(store: FileStore, tmp_path: Path) -> None:
    version = store.put("a/b", VALUE, None)
    other = store.put("c", b"other", None)
    path = tmp_path / "store" / "a.b"
    whole = path.read_bytes()
    for name, damage in damages().items():
        path.write_bytes(damage(whole))
        for call in (
            lambda: store.get("a/b"),
            lambda: store.list("a/"),
            lambda: store.put("a/b", b"new", None),
            lambda: store.put("a/b", b"new", version),
            lambda: store.delete("a/b", version),
        ):
            with pytest.raises(StoreFileUnreadableError, match=r"store/a\.b can't be read: "):
                call()
        assert path.read_bytes() == damage(whole), name
    other = store.put("c", b"still writable", other)
    store.close()
    with FileStore(path.parent) as again:
        again.put("c", b"by the next process too", other)


def test_damage_is_something_a_user_must_act_on(store: FileStore, tmp_path: Path) -> None:
    store.put("a", VALUE, None)
    (tmp_path / "store" / "a").write_bytes(b"")
    with pytest.raises(UserActionError, match=r"it is empty.*restore it from a copy, or remove it"):
        store.get("a")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"# my notes\n", "it starts with b'# my notes.n' and was not written by Holdfast"),
        (b"holdfast-value 2 something else", "it has format 2, and this Holdfast reads formats up to 1"),
        (b"holdfast-value 1 version=x\n", "its first line is damaged"),
        (
            b"holdfast-value 1 version=" + b"9" * 5000 + b" length=0 sha256=" + b"0" * 64 + b"\n",
            "first line is damaged",
        ),
        (header_of("a", 1, b"123") + b"12", "it holds 2 bytes where its header says 3"),
        (header_of("a", 1, b"123") + b"124", "its checksum is wrong"),
        (header_of("b", 1, b"123") + b"123", "damaged, or not written as a"),
    ],
)
def test_a_file_that_is_not_a_value_says_what_is_wrong(content: bytes, why: str) -> None:
    with pytest.raises(StoreFileUnreadableError, match=why):
        read_file("store/a", "a", content)


def test_a_damaged_mark_of_the_highest_version_stops_writers_because_versions_could_come_back(tmp_path: Path) -> None:
    with FileStore(tmp_path) as store:
        store.delete("a", store.put("a", b"", None))
    (tmp_path / ".highest").write_bytes(b"?")
    with FileStore(tmp_path) as store, pytest.raises(StoreFileUnreadableError, match=r"\.highest"):
        store.put("a", b"", None)


# The order of calls that makes a write survive a power cut, as the interpreter sees them.


def test_bytes_are_synced_before_the_rename_and_the_directory_after_it(store: FileStore) -> None:
    first = store.put("a", b"one", None)
    assert calls_of(lambda: store.put("a", b"two", first)) == ["fsync", "replace", "fsync"]
    (found,) = store.list("").values()
    assert calls_of(lambda: store.delete("a", found)) == ["fsync", "replace", "fsync", "unlink", "fsync"]
    store.close()


def calls_of(act: Callable[[], object]) -> list[str]:
    """The calls of the operating system this makes, of those that put things on the disk."""
    calls: list[str] = []

    def see(_frame: FrameType, event: str, function: object) -> None:
        if event == "c_call" and function in (os.fsync, os.replace, os.unlink):
            calls.append(getattr(function, "__name__", ""))

    sys.setprofile(see)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def test_the_steps_are_told_in_their_order(tmp_path: Path) -> None:
    steps: list[str] = []
    with FileStore(tmp_path, at=steps.append) as store:
        version = store.put("a", b"one", None)
        assert steps == list(WRITE_STEPS)
        steps.clear()
        store.delete("a", version)
        assert steps == list(DELETE_STEPS)


# A file system that refuses


def test_a_write_that_fails_half_way_leaves_the_old_value_and_the_store_usable(tmp_path: Path) -> None:
    with Writer(tmp_path, "fill") as writer:
        assert writer.lines() == [f"refused {tmp_path}/a: File too large", "old value is there", "written again"]
    found = FileStore(tmp_path).get("a")
    assert found is not None
    assert found.value == b"third"


def test_a_directory_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    for call in (
        lambda: FileStore(tmp_path / "store").put("a", b"", None),
        lambda: FileStore(tmp_path / "store").get("a"),
        lambda: FileStore(tmp_path / "store").list(""),
    ):
        with pytest.raises(FileStoreUnavailableError, match="store"):
            call()


def test_the_store_imports_nothing_heavy() -> None:
    code = "import sys, holdfast.placement.file_store, holdfast.placement.record_store; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "sqlglot", "asyncio"} & set(loaded)
