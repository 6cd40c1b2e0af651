"""What holds for every `MetadataStore`: an implementation joins the table and has to pass."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.placement.config_map_store import ConfigMapStore
from holdfast.placement.file_store import FileStore
from holdfast.placement.metadata_store import (
    KeyNameError,
    MemoryStore,
    MetadataStore,
    ValueTooLargeError,
    Version,
    VersionConflictError,
    key_of,
    object_name,
)
from tests.placement.config_maps_here import ConfigMapsHere

STORES: dict[str, Callable[[Path], MetadataStore]] = {
    "memory": lambda _: MemoryStore(budget=1000),
    "file": lambda directory: FileStore(directory / "store", budget=1000),
    "config maps": lambda _: ConfigMapStore(ConfigMapsHere(), "app", {}, budget=1000),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> MetadataStore:
    return STORES[request.param](tmp_path)


def test_an_empty_store_has_nothing(store: MetadataStore) -> None:
    assert store.get("a") is None
    assert store.list("") == {}


def test_what_was_put_is_read_again_with_its_version(store: MetadataStore) -> None:
    version = store.put("a/b", b"\x00one\xff", None)
    found = store.get("a/b")
    assert found is not None
    assert (found.value, found.version) == (b"\x00one\xff", version)


def test_a_new_key_must_not_exist(store: MetadataStore) -> None:
    version = store.put("a", b"one", None)
    with pytest.raises(VersionConflictError, match=f"a has version {version} where no value was expected"):
        store.put("a", b"two", None)
    assert value(store, "a") == b"one"


def test_a_stale_writer_is_refused_and_nothing_is_written(store: MetadataStore) -> None:
    old = store.put("a", b"one", None)
    new = store.put("a", b"two", old)
    with pytest.raises(VersionConflictError, match=f"a has version {new} where version {old} was expected") as caught:
        store.put("a", b"three", old)
    assert caught.value.key == "a"
    with pytest.raises(VersionConflictError):
        store.delete("a", old)
    assert value(store, "a") == b"two"


def test_a_missing_key_can_be_neither_replaced_nor_deleted(store: MetadataStore) -> None:
    version = store.put("a", b"one", None)
    store.delete("a", version)
    with pytest.raises(VersionConflictError, match="a has no value where"):
        store.put("a", b"two", version)
    with pytest.raises(VersionConflictError):
        store.delete("a", version)
    assert store.get("a") is None


def test_an_equal_value_gets_a_new_version(store: MetadataStore) -> None:
    first = store.put("a", b"one", None)
    assert store.put("a", b"one", first) != first


def test_a_key_put_again_after_a_delete_never_meets_its_old_versions(store: MetadataStore) -> None:
    seen: set[Version] = set()
    for _ in range(5):
        version = store.put("a", b"one", None)
        assert version not in seen
        seen.add(version)
        store.delete("a", version)


def test_list_gives_the_keys_of_a_prefix_in_order_with_their_versions(store: MetadataStore) -> None:
    versions = {key: store.put(key, b"", None) for key in ("b/1", "a/2", "a/10", "ab", "a")}
    assert list(store.list("a/").items()) == [("a/10", versions["a/10"]), ("a/2", versions["a/2"])]
    assert store.list("") == versions
    assert store.list("c") == {}


def test_a_value_of_exactly_the_budget_is_taken_and_one_byte_more_refused(store: MetadataStore) -> None:
    version = store.put("a", bytes(1000), None)
    with pytest.raises(ValueTooLargeError, match="a would have 1001 bytes, the budget of a value is 1000"):
        store.put("a", bytes(1001), version)
    assert value(store, "a") == bytes(1000)


BAD_KEYS = ["", "/", "a/", "/a", "a//b", "A", "a.b", "..", "../a", "a/../b", "a_b", "-a", "a-", "a\n", "é", "a" * 254]


@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_key_that_could_not_name_a_file_and_an_object_is_refused(store: MetadataStore, key: str) -> None:
    for call in (lambda: store.get(key), lambda: store.put(key, b"", None), lambda: store.delete(key, Version("1"))):
        with pytest.raises(KeyNameError, match="is no key"):
            call()


@pytest.mark.parametrize("key", ["a", "a/b", "ad-clicks/record/1/head", "0", "a" * 253, "x--1/2"])
def test_keys_and_object_names_tell_each_other(store: MetadataStore, key: str) -> None:
    assert key_of(object_name(key)) == key
    store.put(key, b"one", None)
    assert value(store, key) == b"one"


@pytest.mark.parametrize("name", [".lock", ".writing", "README.md", "a/b", "a..b", "a.", "lost+found", "a" * 254])
def test_names_no_key_has_name_no_key(name: str) -> None:
    assert key_of(name) is None


def value(store: MetadataStore, key: str) -> bytes | None:
    found = store.get(key)
    return None if found is None else found.value


KEYS = st.sampled_from(["a", "a/b", "a/c", "b"])
VALUES = st.binary(max_size=40)


class AnyHistory(RuleBasedStateMachine):
    """Any sequence of operations, also from stale writers, does to a store what it does to a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, bytes] = {}
        self.versions: dict[str, Version] = {}
        self.ever: set[tuple[str, Version]] = set()

    def start(self) -> MetadataStore:
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        self.store = self.start()

    @rule(key=KEYS, value=VALUES)
    def put(self, key: str, value: bytes) -> None:
        version = self.store.put(key, value, self.versions.get(key))
        assert (key, version) not in self.ever
        self.ever.add((key, version))
        self.values[key], self.versions[key] = value, version

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        if key in self.versions:
            self.store.delete(key, self.versions.pop(key))
            del self.values[key]

    @rule(key=KEYS, value=VALUES, data=st.data())
    def write_with_a_stale_version(self, key: str, value: bytes, data: st.DataObject) -> None:
        stale = [version for other, version in sorted(self.ever) if version != self.versions.get(key) and other == key]
        if stale:
            version = data.draw(st.sampled_from(stale))
            with pytest.raises(VersionConflictError):
                self.store.put(key, value, version)
            with pytest.raises(VersionConflictError):
                self.store.delete(key, version)

    @invariant()
    def all_is_as_in_the_dictionary(self) -> None:
        if hasattr(self, "store"):
            assert self.store.list("") == self.versions
            assert self.store.list("a/") == {key: v for key, v in self.versions.items() if key.startswith("a/")}
            assert {key: value(self.store, key) for key in self.versions} == self.values


class MemoryHistory(AnyHistory):
    def start(self) -> MetadataStore:
        return MemoryStore()


class FileHistory(AnyHistory):
    def start(self) -> MetadataStore:
        self.directory = TemporaryDirectory()
        return FileStore(Path(self.directory.name))

    @rule()
    def another_process_takes_over(self) -> None:
        assert isinstance(self.store, FileStore)
        self.store.close()
        self.store = FileStore(Path(self.directory.name))

    def teardown(self) -> None:
        if hasattr(self, "store"):
            assert isinstance(self.store, FileStore)
            self.store.close()
            self.directory.cleanup()


FEW = settings(max_examples=max(20, settings().max_examples // 10), stateful_step_count=30)
TestMemoryHistory = MemoryHistory.TestCase
TestFileHistory = FileHistory.TestCase
TestMemoryHistory.settings = FEW
TestFileHistory.settings = FEW
