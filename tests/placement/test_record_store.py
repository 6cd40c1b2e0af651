"""What a user of the record store sees. Crashes and races have files of their own."""

import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given

from holdfast.errors import RetrySoonError
from holdfast.placement.metadata_store import (
    ContentUnreadableError,
    MemoryStore,
    MetadataStore,
    ValueTooLargeError,
    VersionConflictError,
)
from holdfast.placement.record_format import (
    RecordForeignError,
    RecordKeys,
    RecordNewerError,
    RecordUnreadableError,
    digest_of,
    head_bytes,
)
from holdfast.placement.record_store import RecordStore
from holdfast.tasks.record import PlacementRecord, record_tree
from tests.placement.records import BUDGET, large, records, several_shards

HEAD = "app/record/1/head"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def saver(store: MetadataStore, app: str = "app") -> RecordStore:
    return RecordStore(store, app, budget=BUDGET)


def contents(store: MetadataStore) -> dict[str, bytes]:
    found = {key: store.get(key) for key in store.list("")}
    return {key: stored.value for key, stored in found.items() if stored is not None}


@given(records())
def test_any_record_is_loaded_as_it_was_saved(record: PlacementRecord) -> None:
    store = MemoryStore()
    saver(store).save(record)
    assert saver(store).load(record.run_id) == record
    assert all(len(value) <= BUDGET for value in contents(store).values())


def test_nothing_was_saved_yet(store: MemoryStore) -> None:
    assert saver(store).load("1") is None
    assert saver(store).runs() == ()
    assert contents(store) == {}


def test_a_save_replaces_the_record_and_leaves_nothing_of_the_old_one(store: MemoryStore) -> None:
    once = MemoryStore()
    saver(once).save(several_shards("new"))
    saver(store).save(large(50))
    saver(store).save(several_shards("new"))
    assert saver(store).load("1") == several_shards("new")
    assert contents(store).keys() == contents(once).keys()


def test_what_did_not_change_is_not_written_again(store: MemoryStore) -> None:
    mine = saver(store)
    mine.save(several_shards("one"))
    before = store.list("")
    mine.save(several_shards("two"))
    after = store.list("")
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    assert len(before) == len(after) == 5
    assert len(changed) == 3, "the head, the last shard, and the shard it replaces"


def test_another_run_never_sees_it_and_never_harms_it(store: MemoryStore) -> None:
    saver(store).save(several_shards("one", "1"))
    saver(store).save(several_shards("ten", "10"))
    saver(store).save(several_shards("capital", "Ab.c"))
    assert saver(store).load("2") is None
    assert saver(store).load("1") == several_shards("one", "1")
    assert saver(store).runs() == ("1", "10", "Ab.c")
    saver(store).forget("1")
    assert saver(store).load("1") is None
    assert saver(store).load("10") == several_shards("ten", "10")
    assert saver(store).runs() == ("10", "Ab.c")


def test_another_app_never_sees_it(store: MemoryStore) -> None:
    saver(store).save(several_shards("one"))
    assert saver(store, "ap").load("1") is None
    assert saver(store, "app2").runs() == ()
    saver(store, "app2").forget("1")
    assert saver(store).load("1") == several_shards("one")


def test_forgetting_leaves_nothing_and_may_be_repeated(store: MemoryStore) -> None:
    saver(store).save(several_shards("one"))
    saver(store).forget("1")
    saver(store).forget("1")
    assert contents(store) == {}


def test_a_forgotten_run_may_begin_anew(store: MemoryStore) -> None:
    mine = saver(store)
    mine.save(several_shards("one"))
    mine.forget("1")
    mine.save(several_shards("two"))
    assert saver(store).load("1") == several_shards("two")


# Size


def test_ten_thousand_tasks_fit_in_shards_within_the_budget() -> None:
    store = MemoryStore()
    record = large(10_000)
    RecordStore(store, "ad-clicks").save(record)
    sizes = [len(value) for value in contents(store).values()]
    assert max(sizes) <= 512 * 1024
    assert sum(sizes) > 512 * 1024 * 3
    assert len(sizes) == 1 + -(-len(json.dumps(record_tree(record), separators=(",", ":"))) // (512 * 1024))
    assert RecordStore(store, "ad-clicks").load("1") == record


def test_the_smaller_budget_counts_the_stores_or_the_records() -> None:
    store = MemoryStore(budget=700)
    RecordStore(store, "app").save(several_shards("one"))
    assert max(len(value) for value in contents(store).values()) == 700
    assert RecordStore(store, "app").load("1") == several_shards("one")


def test_a_record_whose_head_would_not_fit_is_refused_before_anything_is_written(store: MemoryStore) -> None:
    with pytest.raises(
        ValueTooLargeError, match=r"app/record/1/head would have \d+ bytes, the budget of a value is 300"
    ):
        RecordStore(store, "app", budget=300).save(several_shards("one"))
    assert contents(store) == {}


# Two savers


def test_a_saver_that_was_overtaken_is_refused_until_it_has_loaded_the_newer_record(store: MemoryStore) -> None:
    slow, fast = saver(store), saver(store)
    slow.save(several_shards("one"))
    fast.load("1")
    fast.save(several_shards("two"))
    for _ in range(2):
        with pytest.raises(VersionConflictError, match=HEAD) as caught:
            slow.save(several_shards("three"))
        assert isinstance(caught.value, RetrySoonError)
        assert saver(store).load("1") == several_shards("two")
    assert slow.load("1") == several_shards("two")
    slow.save(several_shards("three"))
    assert saver(store).load("1") == several_shards("three")


def test_of_two_first_savers_one_is_refused(store: MemoryStore) -> None:
    one, other = saver(store), saver(store)
    assert one.load("1") is None
    assert other.load("1") is None
    one.save(several_shards("one"))
    with pytest.raises(VersionConflictError, match=HEAD):
        other.save(several_shards("two"))
    assert saver(store).load("1") == several_shards("one")


def test_a_saver_of_a_run_that_was_forgotten_meanwhile_is_refused(store: MemoryStore) -> None:
    mine = saver(store)
    mine.save(several_shards("one"))
    saver(store).forget("1")
    with pytest.raises(VersionConflictError, match=HEAD):
        mine.save(several_shards("two"))
    assert saver(store).load("1") is None


def test_a_saver_that_was_overtaken_and_then_could_not_load_still_replaces_nothing(store: MemoryStore) -> None:
    mine = saver(store)
    mine.save(several_shards("one"))
    saver(store).save(several_shards("two"))
    (stored, head) = contents(store)[HEAD], store.get(HEAD)
    assert head is not None
    damaged = store.put(HEAD, b"damaged", head.version)
    with pytest.raises(RecordUnreadableError):
        mine.load("1")
    store.put(HEAD, stored, damaged)
    with pytest.raises(VersionConflictError):
        mine.save(several_shards("three"))
    assert saver(store).load("1") == several_shards("two")


# What is not ours


@pytest.mark.parametrize(
    ("found", "error"),
    [
        (b"notes", RecordUnreadableError),
        (b'{"leader": "me"}', RecordForeignError),
        (b'{"format": 2, "app": "app", "runId": "1"}', RecordNewerError),
        (json.dumps(record_tree(several_shards("x", "2"))).encode(), RecordForeignError),
    ],
)
def test_unreadable_foreign_and_newer_heads_are_refused_and_never_written_over(
    store: MemoryStore, found: bytes, error: type[ContentUnreadableError]
) -> None:
    store.put(HEAD, found, None)
    before = contents(store), store.list("")
    mine = saver(store)
    save: Callable[[], object] = lambda: mine.save(several_shards("one"))  # noqa: E731
    calls: list[Callable[[], object]] = [lambda: mine.load("1"), save, save, lambda: mine.forget("1")]
    for call in calls:
        with pytest.raises(error, match=f"^{HEAD} can't be used"):
            call()
    assert (contents(store), store.list("")) == before


def test_a_record_moved_under_the_key_of_another_app_is_refused_by_both_names(store: MemoryStore) -> None:
    saver(store, "other").save(several_shards("one"))
    for key, value in contents(store).items():
        store.put(key.replace("other", "app"), value, None)
    with pytest.raises(RecordForeignError, match="belongs to app other, run 1, and not to app app, run 1"):
        saver(store).load("1")
    assert saver(store, "other").load("1") == several_shards("one")


@pytest.mark.parametrize("damage", ["missing", "changed", "cut"])
def test_a_damaged_shard_is_named_and_the_record_is_not_written_over(store: MemoryStore, damage: str) -> None:
    saver(store).save(several_shards("one"))
    key = random.Random(3).choice([key for key in store.list("") if key != HEAD])  # noqa: S311
    stored = store.get(key)
    assert stored is not None
    if damage == "missing":
        store.delete(key, stored.version)
    else:
        store.put(key, stored.value[:-1] if damage == "cut" else b"{" + stored.value[1:] + b"}", stored.version)
    before = contents(store)
    calls: list[Callable[[], object]] = [
        lambda: saver(store).load("1"),
        lambda: saver(store).save(several_shards("two")),
    ]
    for call in calls:
        with pytest.raises(RecordUnreadableError, match=f"^{key} can't be used: .*{HEAD} names"):
            call()
    assert contents(store) == before


def test_other_content_under_the_key_of_a_new_shard_is_not_written_over(store: MemoryStore) -> None:
    other = MemoryStore()
    saver(other).save(several_shards("one"))
    key = next(key for key in other.list("") if key != HEAD)
    store.put(key, b"mine", None)
    with pytest.raises(RecordUnreadableError, match=f"^{key} can't be used: other bytes"):
        saver(store).save(several_shards("one"))
    assert contents(store)[key] == b"mine"
    assert saver(store).load("1") is None


def test_keys_of_others_near_a_record_are_left_alone(store: MemoryStore) -> None:
    others = ["app/record", "app/record/1", "app/record/1/notes", "app/record/x-zz/head", "app/recorder", "app"]
    for key in others:
        store.put(key, b"mine", None)
    mine = saver(store)
    mine.save(several_shards("one"))
    mine.save(several_shards("two"))
    assert mine.runs() == ("1",)
    mine.forget("1")
    assert contents(store) == dict.fromkeys(others, b"mine")


def test_a_plain_record_put_there_by_hand_is_loaded_and_replaced_by_the_newest_format(store: MemoryStore) -> None:
    store.put(HEAD, json.dumps(record_tree(several_shards("by hand"))).encode(), None)
    mine = saver(store)
    assert mine.load("1") == several_shards("by hand")
    assert mine.runs() == ("1",)
    assert b'"format"' not in contents(store)[HEAD], "loading writes nothing"
    mine.save(several_shards("one"))
    assert b'"format":1' in contents(store)[HEAD]
    assert saver(store).load("1") == several_shards("one")


def test_a_head_that_names_one_shard_thousands_of_times_is_refused_before_it_is_read(
    store: MemoryStore,
) -> None:
    shard = b"," * (1 << 19)
    digest = digest_of(shard)
    store.put(RecordKeys("app").shard("1", digest), shard, None)
    for times, why in ((2_000, "has more than"), (7_000, "names 7000 shards, and at most")):
        head = store.get(HEAD)
        store.put(HEAD, head_bytes("app", "1", 1, [digest] * times), None if head is None else head.version)
        with pytest.raises(RecordUnreadableError, match=why):
            saver(store).load("1")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"runId": "1", "grouping": {}, "x": [' + b"[]," * 1_000_001 + b"]}", "holds 1000003 values"),
        (b'{"runId": "1", "grouping": ' + b"[" * 1000, "nested deeper than"),
        (b'{"runId": "1", "grouping": {"a": "' + b"x" * 900_000 + b'"}}', "must be a list of stream partitions"),
    ],
)
def test_a_record_that_an_app_put_there_to_harm_is_refused_in_a_short_sentence(
    store: MemoryStore, text: bytes, why: str
) -> None:
    pieces = [text[at : at + (1 << 19)] for at in range(0, len(text), 1 << 19)]
    for piece in dict.fromkeys(pieces):
        store.put(RecordKeys("app").shard("1", digest_of(piece)), piece, None)
    store.put(HEAD, head_bytes("app", "1", 1, [digest_of(piece) for piece in pieces]), None)
    with pytest.raises(RecordUnreadableError, match=why) as refused:
        saver(store).load("1")
    assert len(str(refused.value)) < 1_000


def test_a_generation_beyond_all_numbers_is_refused(store: MemoryStore) -> None:
    store.put(HEAD, head_bytes("app", "1", 10**30, []), None)
    with pytest.raises(RecordUnreadableError, match="generation"):
        saver(store).load("1")
