"""Writers at once, whole files, and damage that is named and never overwritten. Kills: `test_file_store_killed`."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import pytest

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.placement.file_store import FileStore, header_of, read_file
from holdfast.placement.metadata_store import Version, VersionConflictError, Versioned
from tests.error_codes import has_code
from tests.placement.store_writer import Writer


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "store")


def test_processes_never_write_over_what_they_have_not_read(tmp_path: Path) -> None:
    with Writer(tmp_path, "add", "200") as first, Writer(tmp_path, "add", "200") as second:
        assert (first.line(), second.line()) == ("begins", "begins")
        with Writer(tmp_path, "add", "1"):
            pass
    stored = FileStore(tmp_path).get("number")
    assert stored == Versioned(b"401", Version("401"))


def test_threads_may_share_a_store(store: FileStore) -> None:
    def add(_: int) -> int:
        lost = 0
        while True:
            stored = store.get("a")
            try:
                store.put(
                    "a",
                    b"%d" % (1 if stored is None else int(stored.value) + 1),
                    None if stored is None else stored.version,
                )
            except VersionConflictError:
                lost += 1
            else:
                return lost

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(100)))
    assert store.get("a") == Versioned(b"100", Version("100"))


def test_a_reader_does_not_wait_for_a_writer(store: FileStore, tmp_path: Path) -> None:
    store.put("a", b"one", None)
    with (tmp_path / "store" / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert store.get("a") == Versioned(b"one", Version("1"))


def test_reading_makes_no_directory_and_takes_no_lock(tmp_path: Path) -> None:
    assert FileStore(tmp_path / "nowhere").get("a") is None
    assert list(tmp_path.iterdir()) == []


def test_versions_rise_over_processes(tmp_path: Path) -> None:
    versions = [FileStore(tmp_path).put("a", b"", None)]
    for _ in range(12):
        versions.append(FileStore(tmp_path).put("a", b"", versions[-1]))
    assert versions == [str(number) for number in range(1, 14)]


def test_what_a_crash_left_is_in_nobodys_way(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / ".writing").write_bytes(b"holdfast-value" * 100)
    store.put("a", b"one", None)
    assert store.get("a") == Versioned(b"one", Version("1"))
    assert not (tmp_path / "store" / ".writing").exists()


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / ".hidden").write_text("mine")
    FileStore(tmp_path).put("a", b"one", None)
    assert {path.name for path in tmp_path.iterdir()} == {"README.md", ".hidden", ".lock", "a"}


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


def test_a_damaged_file_is_named_and_never_written_over(store: FileStore, tmp_path: Path) -> None:
    version = store.put("a/b", VALUE, None)
    other = store.put("c", b"other", None)
    path = tmp_path / "store" / "a.b"
    whole = path.read_bytes()
    for name, damage in damages().items():
        path.write_bytes(damage(whole))
        for call in (
            lambda: store.get("a/b"),
            lambda: store.put("a/b", b"new", None),
            lambda: store.put("a/b", b"new", version),
        ):
            with pytest.raises(
                UserActionError, match=r"store/a\.b can't be read: ", check=has_code("ContentUnreadableError")
            ):
                call()
        assert path.read_bytes() == damage(whole), name
    store.put("c", b"still writable", other)


def test_damage_is_something_a_user_must_act_on(store: FileStore, tmp_path: Path) -> None:
    store.put("a", VALUE, None)
    (tmp_path / "store" / "a").write_bytes(b"")
    with pytest.raises(
        UserActionError, match=r"it is empty; it is left as it is. Restore it from a copy, or set a new spec.runId"
    ):
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
def test_a_file_that_is_no_value_names_its_fault(content: bytes, why: str) -> None:
    with pytest.raises(UserActionError, match=why, check=has_code("ContentUnreadableError")):
        read_file("store/a", "a", content)


# The order of calls that makes a write survive a power cut, as the interpreter sees them.


def test_bytes_are_synced_before_the_rename_and_directories_after(store: FileStore) -> None:
    first = store.put("a", b"one", None)
    assert calls_of(lambda: store.put("a", b"two", first)) == ["fsync", "replace", "fsync"]


def calls_of(act: Callable[[], object]) -> list[str]:
    """The calls of the operating system this makes, of those that put things on the disk."""
    calls: list[str] = []

    def see(_frame: FrameType, event: str, function: object) -> None:
        if event == "c_call" and function in (os.fsync, os.replace):
            calls.append(getattr(function, "__name__", ""))

    sys.setprofile(see)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


# A file system that refuses


def test_a_write_that_fails_half_way_leaves_value_and_store(tmp_path: Path) -> None:
    with Writer(tmp_path, "fill") as writer:
        assert writer.lines() == [f"refused {tmp_path}/a: File too large", "old value is there", "written again"]
    stored = FileStore(tmp_path).get("a")
    assert stored is not None
    assert stored.value == b"third"


def test_a_directory_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    for call in (
        lambda: FileStore(tmp_path / "store").put("a", b"", None),
        lambda: FileStore(tmp_path / "store").get("a"),
    ):
        with pytest.raises(WorldChangeError, match="store", check=has_code("FileStoreUnavailableError")):
            call()


def test_the_store_imports_nothing_heavy() -> None:
    code = "import sys, holdfast.placement.file_store, holdfast.placement.record_store; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "sqlglot", "asyncio"} & set(loaded)
