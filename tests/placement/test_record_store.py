"""What a user of the record store sees: whole records of its own run, also when savers die or write at once."""

import json
from collections.abc import Callable
from itertools import chain, combinations_with_replacement, cycle, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import RetrySoonError, UserActionError
from holdfast.placement.config_map_store import ConfigMapStore
from holdfast.placement.metadata_store import MetadataStore, Version, VersionConflictError
from holdfast.placement.record_store import MOST_TASKS, RecordStore
from holdfast.tasks.record import PlacementRecord, record_tree
from tests.error_codes import has_code
from tests.placement.config_maps_here import ConfigMapsHere, store_here
from tests.placement.records import large, records, some
from tests.placement.store_doubles import DiedError, Dying, LosingAnswer, take_turns

KEY = "app/record/1/head"


@pytest.fixture
def maps() -> ConfigMapsHere:
    return ConfigMapsHere()


@pytest.fixture
def store(maps: ConfigMapsHere) -> ConfigMapStore:
    return ConfigMapStore(maps, "app", {})


def saver(store: MetadataStore, app: str = "app") -> RecordStore:
    return RecordStore(store, app)


def version(store: MetadataStore) -> Version | None:
    stored = store.get(KEY)
    return None if stored is None else stored.version


@given(records())
def test_any_record_is_loaded_as_it_was_saved(record: PlacementRecord) -> None:
    store = store_here()
    saver(store).save(record)
    assert saver(store).load(record.run_id) == record


def test_nothing_was_saved_yet(store: ConfigMapStore, maps: ConfigMapsHere) -> None:
    assert saver(store).load("1") is None
    assert maps.trees == {}


def test_a_record_is_one_object_and_a_save_replaces_it(store: ConfigMapStore, maps: ConfigMapsHere) -> None:
    saver(store).save(large(50))
    saver(store).save(some("new"))
    assert saver(store).load("1") == some("new")
    assert maps.trees.keys() == {"app.record.1.head"}


def test_a_record_too_large_leaves_the_one_before(store: ConfigMapStore) -> None:
    record_store = saver(store)
    record_store.save(some("one"))
    with pytest.raises(UserActionError, match="30001 tasks", check=has_code("ValueTooLargeError")):
        record_store.save(large(MOST_TASKS + 1, streams=1))
    assert saver(store).load("1") == some("one")
    record_store.save(some("two"))


def test_another_run_never_sees_it_and_never_harms_it(store: ConfigMapStore) -> None:
    for run in ("1", "10", "Ab.c"):
        saver(store).save(some(run, run))
    assert saver(store).load("2") is None
    saver(store).save(some("again", "10"))
    assert saver(store).load("1") == some("1", "1")
    assert saver(store).load("10") == some("again", "10")
    assert saver(store).load("Ab.c") == some("Ab.c", "Ab.c")


def test_another_app_never_sees_it(store: ConfigMapStore) -> None:
    saver(store).save(some("one"))
    assert saver(store, "ap").load("1") is None
    saver(store, "app2").save(some("two"))
    assert saver(store).load("1") == some("one")


# Two savers


def test_an_overtaken_saver_is_refused_until_it_has_loaded(store: ConfigMapStore) -> None:
    slow, fast = saver(store), saver(store)
    slow.save(some("one"))
    fast.load("1")
    fast.save(some("two"))
    for _ in range(2):
        with pytest.raises(VersionConflictError, match=KEY) as caught:
            slow.save(some("three"))
        assert isinstance(caught.value, RetrySoonError)
        assert saver(store).load("1") == some("two")
    assert slow.load("1") == some("two")
    slow.save(some("three"))
    assert saver(store).load("1") == some("three")


def test_of_savers_that_loaded_the_same_exactly_one_succeeds(store: ConfigMapStore) -> None:
    savers = [saver(store) for _ in range(3)]
    for record_store in savers:
        assert record_store.load("1") is None
    savers[0].save(some("one"))
    for record_store in savers[1:]:
        with pytest.raises(VersionConflictError, match=KEY):
            record_store.save(some("two"))
    assert saver(store).load("1") == some("one")


def test_a_saver_of_a_removed_record_is_refused(store: ConfigMapStore, maps: ConfigMapsHere) -> None:
    record_store = saver(store)
    record_store.save(some("one"))
    del maps.trees["app.record.1.head"]
    with pytest.raises(VersionConflictError, match=KEY):
        record_store.save(some("two"))
    assert saver(store).load("1") is None


def test_an_overtaken_saver_that_could_not_load_replaces_nothing(store: ConfigMapStore) -> None:
    record_store = saver(store)
    record_store.save(some("one"))
    saver(store).save(some("two"))
    stored = store.get(KEY)
    assert stored is not None
    damaged = store.put(KEY, b"damaged", stored.version)
    with pytest.raises(UserActionError, check=has_code("ContentUnreadableError")):
        record_store.load("1")
    store.put(KEY, stored.value, damaged)
    with pytest.raises(VersionConflictError):
        record_store.save(some("three"))
    assert saver(store).load("1") == some("two")


# What is not ours


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"notes", "is no placement record"),
        (b'{"format":1,"app":"app","runId":"1","shards":[]}', "an earlier build of Holdfast"),
        (json.dumps(record_tree(some("x"))).encode(), "an earlier build of Holdfast"),
        (b"holdfast-record 3 ", "it has format 3, and this Holdfast reads format 2: upgrade"),
    ],
)
def test_unreadable_older_and_newer_records_are_never_written_over(
    store: ConfigMapStore, content: bytes, why: str
) -> None:
    before = store.put(KEY, content, None)
    record_store = saver(store)
    calls: list[Callable[[], object]] = [lambda: record_store.load("1"), *[lambda: record_store.save(some("one"))] * 2]
    for call in calls:
        with pytest.raises(
            UserActionError, match=f"^{KEY} can't be used .*{why}", check=has_code("ContentUnreadableError")
        ):
            call()
    assert version(store) == before


@pytest.mark.parametrize(("app", "run"), [("other", "1"), ("app", "2")])
def test_a_record_under_anothers_key_is_refused_by_both_names(store: ConfigMapStore, app: str, run: str) -> None:
    saver(store, app).save(some("one", run))
    moved = store.get(f"{app}/record/{run}/head")
    assert moved is not None
    store.put(KEY, moved.value, None)
    with pytest.raises(
        UserActionError,
        match=f"belongs to app {app}, run {run}, and not to app app, run 1",
        check=has_code("ContentUnreadableError"),
    ):
        saver(store).load("1")
    assert saver(store, app).load(run) == some("one", run)


# Deaths and races


def test_a_save_dying_between_operations_leaves_old_or_new_record() -> None:
    for old in (None, some("old")):
        loaded: list[PlacementRecord | None] = []
        dies = True
        while dies:
            store, dies = store_here(), False
            if old is not None:
                saver(store).save(old)
            try:
                saver(Dying(store, len(loaded))).save(some("new"))
            except DiedError:
                dies = True
            loaded.append(saver(store).load("1"))
            saver(store).save(some("third"))
            assert saver(store).load("1") == some("third")
        assert loaded == [old, old, some("new")], "get, put"


def test_a_save_whose_answer_was_lost_requires_a_load() -> None:
    for lost, expected in ((0, some("old")), (1, some("new"))):
        store = store_here()
        saver(store).save(some("old"))
        record_store = saver(LosingAnswer(store, lost))
        with pytest.raises(RetrySoonError):
            record_store.save(some("new"))
        assert saver(store).load("1") == expected
        assert record_store.load("1") == expected
        record_store.save(some("new"))
        assert saver(store).load("1") == some("new")


NAMES = ("one", "two", "six")
ACTS = ("save one", "save two", "save six", "load")


def actor(acts: list[str]) -> Callable[[MetadataStore], list[PlacementRecord | None]]:
    """One saver that does this, again from the start of an act where it lost a race."""

    def run(store: MetadataStore) -> list[PlacementRecord | None]:
        record_store, loaded = saver(store), []
        for act in acts:
            for _ in range(20):
                try:
                    if act.startswith("save"):
                        record_store.save(some(act.split()[1]))
                    else:
                        loaded.append(record_store.load("1"))
                    break
                except RetrySoonError:
                    loaded.append(record_store.load("1"))
        return loaded

    return run


@given(
    st.none() | st.sampled_from(NAMES),
    st.lists(st.lists(st.sampled_from(ACTS), min_size=1, max_size=3), min_size=2, max_size=4),
    st.lists(st.integers(0, 3), max_size=24),
)
def test_actors_in_any_order_see_a_whole_record_or_none(
    before: str | None, actors: list[list[str]], turns: list[int]
) -> None:
    store = store_here()
    if before is not None:
        saver(store).save(some(before))
    results = take_turns(store, [actor(acts) for acts in actors], chain(turns, cycle(range(len(actors)))))
    whole = [None, *map(some, NAMES)]
    for loaded in results:
        assert isinstance(loaded, list), loaded
        assert all(record in whole for record in loaded)
    end = saver(store).load("1")
    assert end in whole
    if before is not None or {act for acts in actors for act in acts} - {"load"}:
        assert end is not None


ONCE: dict[str, Callable[[MetadataStore], object]] = {
    "save one": lambda store: saver(store).save(some("one")),
    "save two": lambda store: saver(store).save(some("two")),
    "load": lambda store: saver(store).load("1"),
}


@pytest.mark.parametrize("start", [None, "six"])
@pytest.mark.parametrize(("first", "second"), list(combinations_with_replacement(ONCE, 2)))
def test_of_two_actors_in_any_order_the_loser_is_informed(start: str | None, first: str, second: str) -> None:
    whole = [None, *map(some, NAMES)]
    for order in product((0, 1), repeat=4):
        store = store_here()
        if start is not None:
            saver(store).save(some(start))
        before = version(store)
        results = take_turns(store, [ONCE[first], ONCE[second]], chain(order, cycle((0, 1))))
        assert all(result in whole or isinstance(result, VersionConflictError) for result in results), results
        end = saver(store).load("1")
        assert end in whole
        saved = [
            act.split()[1]
            for act, result in zip((first, second), results, strict=True)
            if act.startswith("save") and result is None
        ]
        assert (version(store) != before) == bool(saved)
        assert not saved or end in [some(name) for name in saved]
