"""What holds for every `MetadataStore`: an implementation joins the table and has to pass."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.errors import UserActionError
from holdfast.placement.file_store import FileStore
from holdfast.placement.metadata_store import (
    MOST_VALUE_BYTES,
    MetadataStore,
    Version,
    VersionConflictError,
    Versioned,
    object_name,
)
from tests.error_codes import has_code
from tests.placement.config_maps_here import store_here

STORES: dict[str, Callable[[Path], MetadataStore]] = {
    "file": lambda directory: FileStore(directory / "store"),
    "config maps": lambda _: store_here(),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> MetadataStore:
    return STORES[request.param](tmp_path)


def test_an_empty_store_has_nothing(store: MetadataStore) -> None:
    assert store.get("a") is None


def test_what_was_put_is_read_again_with_its_version(store: MetadataStore) -> None:
    version = store.put("a/b", b"\x00one\xff", None)
    stored = store.get("a/b")
    assert stored is not None
    assert (stored.value, stored.version) == (b"\x00one\xff", version)


def test_a_new_key_must_not_exist(store: MetadataStore) -> None:
    store.put("a", b"one", None)
    with pytest.raises(VersionConflictError, match="a was made by somebody else"):
        store.put("a", b"two", None)
    assert value(store, "a") == b"one"


def test_a_stale_writer_is_refused_and_nothing_is_written(store: MetadataStore) -> None:
    old = store.put("a", b"one", None)
    store.put("a", b"two", old)
    with pytest.raises(VersionConflictError, match="a was written or removed by somebody else"):
        store.put("a", b"three", old)
    assert value(store, "a") == b"two"


def test_a_missing_key_can_not_be_replaced(store: MetadataStore) -> None:
    with pytest.raises(VersionConflictError):
        store.put("a", b"two", Version("1"))
    assert store.get("a") is None


def test_a_value_may_have_the_most_bytes_and_no_more(store: MetadataStore) -> None:
    version = store.put("a", bytes(MOST_VALUE_BYTES), None)
    with pytest.raises(
        UserActionError,
        match="a would have 1000001 bytes; a ConfigMap holds at most 1000000",
        check=has_code("ValueTooLargeError"),
    ):
        store.put("a", bytes(MOST_VALUE_BYTES + 1), version)
    assert value(store, "a") == bytes(MOST_VALUE_BYTES)


def test_a_key_is_removed_once_and_only_as_read(store: MetadataStore) -> None:
    old = store.put("a", b"one", None)
    new = store.put("a", b"two", old)
    with pytest.raises(VersionConflictError, match="a was written or removed by somebody else"):
        store.remove("a", old)
    assert value(store, "a") == b"two"
    store.remove("a", new)
    assert store.get("a") is None
    store.remove("a", new)


def test_a_version_from_before_a_removal_overwrites_nothing(store: MetadataStore) -> None:
    read = store.put("a", b"one", None)
    store.put("a", b"two", read)
    other = store.put("b", b"one", None)
    store.remove("b", other)
    made = store.put("b", b"two", None)
    assert made != other
    with pytest.raises(VersionConflictError):
        store.put("b", b"three", other)
    with pytest.raises(VersionConflictError):
        store.remove("b", other)
    assert value(store, "b") == b"two"


BAD_KEYS = ["", "/", "a/", "/a", "a//b", "A", "a.b", "..", "../a", "a/../b", "a_b", "-a", "a-", "a\n", "é", "a" * 254]


@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_key_that_cannot_name_file_and_object_is_refused(store: MetadataStore, key: str) -> None:
    for call in (
        lambda: store.get(key),
        lambda: store.put(key, b"", None),
        lambda: store.remove(key, Version("1")),
    ):
        with pytest.raises(UserActionError, match="is no key", check=has_code("KeyNameError")):
            call()


@pytest.mark.parametrize("key", ["a", "a/b", "ad-clicks/record/1/head", "0", "a" * 253, "x--1/2"])
def test_a_key_is_the_name_of_its_object(store: MetadataStore, key: str) -> None:
    assert object_name(key).replace(".", "/") == key
    store.put(key, b"one", None)
    assert value(store, key) == b"one"


def value(store: MetadataStore, key: str) -> bytes | None:
    stored = store.get(key)
    return None if stored is None else stored.value


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
        # A store may keep the version where nothing changes, as the API server does.
        assert (key, version) not in self.ever or value == self.values.get(key)
        self.ever.add((key, version))
        self.values[key], self.versions[key] = value, version

    @rule(key=KEYS, value=VALUES, data=st.data())
    def write_with_a_stale_version(self, key: str, value: bytes, data: st.DataObject) -> None:
        stale = [version for other, version in sorted(self.ever) if version != self.versions.get(key) and other == key]
        if stale:
            version = data.draw(st.sampled_from(stale))
            with pytest.raises(VersionConflictError):
                self.store.put(key, value, version)

    @rule(key=KEYS)
    def remove(self, key: str) -> None:
        if key in self.values:
            self.store.remove(key, self.versions.pop(key))
            del self.values[key]
        assert self.store.get(key) is None

    @rule(key=KEYS, data=st.data())
    def remove_a_stale_version(self, key: str, data: st.DataObject) -> None:
        stale = [version for other, version in sorted(self.ever) if version != self.versions.get(key) and other == key]
        if stale and key in self.values:
            with pytest.raises(VersionConflictError):
                self.store.remove(key, data.draw(st.sampled_from(stale)))

    @invariant()
    def all_is_as_in_the_dictionary(self) -> None:
        if hasattr(self, "store"):
            for key, known in self.values.items():
                assert self.store.get(key) == Versioned(known, self.versions[key])


class ConfigMapHistory(AnyHistory):
    def start(self) -> MetadataStore:
        return store_here()


class FileHistory(AnyHistory):
    def start(self) -> MetadataStore:
        self.directory = TemporaryDirectory()
        return FileStore(Path(self.directory.name))

    @rule()
    def another_process_takes_over(self) -> None:
        self.store = FileStore(Path(self.directory.name))

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.directory.cleanup()


FEW = settings(max_examples=max(20, settings().max_examples // 10), stateful_step_count=30)
TestConfigMapHistory = ConfigMapHistory.TestCase
TestFileHistory = FileHistory.TestCase
TestConfigMapHistory.settings = FEW
TestFileHistory.settings = FEW
