"""A saver dies between any two operations of its store, again and again: the record is the old one or the new."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import RetrySoonError
from holdfast.placement.metadata_store import MemoryStore, MetadataStore
from holdfast.placement.record_format import cut
from holdfast.placement.record_store import RecordStore
from holdfast.tasks.record import PlacementRecord
from tests.placement.records import BUDGET, records, several_shards
from tests.placement.store_doubles import DiedError, Dying, LosingAnswer

OLD, NEW = several_shards("old"), several_shards("new")


def saver(store: MetadataStore) -> RecordStore:
    return RecordStore(store, "app", budget=BUDGET)


def with_old() -> MemoryStore:
    store = MemoryStore()
    saver(store).save(OLD)
    return store


def deaths(begin: Callable[[], MemoryStore], act: Callable[[MetadataStore], None]) -> list[PlacementRecord | None]:
    """What is loaded after `act` died before its first operation, its second, and so on until it survived."""
    found: list[PlacementRecord | None] = []
    while True:
        store = begin()
        dying = Dying(store, len(found))
        try:
            act(dying)
        except DiedError:
            found.append(saver(store).load("1"))
            check_next_save_cleans_up(store)
        else:
            return [*found, saver(store).load("1")]


def check_next_save_cleans_up(store: MemoryStore) -> None:
    third = several_shards("third")
    saver(store).save(third)
    assert saver(store).load("1") == third
    assert len(store.list("")) == 1 + len(cut(third, BUDGET))


def switches_once(
    found: list[PlacementRecord | None], before: PlacementRecord | None, after: PlacementRecord | None
) -> bool:
    where = found.index(after)
    return found == [before] * where + [after] * (len(found) - where)


@pytest.mark.parametrize("loads_first", [False, True])
def test_a_first_save_that_dies_leaves_nothing_or_the_record(loads_first: bool) -> None:
    def act(store: MetadataStore) -> None:
        mine = saver(store)
        if loads_first:
            mine.load("1")
        mine.save(NEW)

    found = deaths(MemoryStore, act)
    assert len(found) == 13, "get, claim, list, four shards of get and put each, head; then nothing is left to remove"
    assert switches_once(found, None, NEW)


def test_a_save_that_dies_leaves_the_old_record_or_the_new() -> None:
    found = deaths(with_old, lambda store: saver(store).save(NEW))
    assert switches_once(found, OLD, NEW)
    assert found.index(NEW) == len(found) - 2, "only the removal of one shard comes after the switch"


def test_forgetting_that_dies_leaves_the_record_or_nothing_and_can_be_finished() -> None:
    found = deaths(with_old, lambda store: saver(store).forget("1"))
    assert switches_once(found, OLD, None)
    for operations in range(len(found)):
        store = with_old()
        try:
            saver(Dying(store, operations)).forget("1")
        except DiedError:
            assert saver(store).runs() == ("1",), "a run of which something is left is still there to be forgotten"
        saver(store).forget("1")
        assert store.list("") == {}


@given(
    st.lists(st.tuples(records(st.just("1")), st.sampled_from(["save", "forget"]), st.integers(0, 25)), max_size=6),
    st.integers(220, 500),
)
def test_any_sequence_of_deaths_leaves_one_of_two_records_each_time(
    steps: list[tuple[PlacementRecord, str, int]], budget: int
) -> None:
    store = MemoryStore()
    now: PlacementRecord | None = None
    for record, act, operations in steps:
        dying = RecordStore(Dying(store, operations), "app", budget=BUDGET + budget)
        after = record if act == "save" else None
        try:
            dying.save(record) if act == "save" else dying.forget("1")
            allowed = [after]
        except DiedError:
            allowed = [now, after]
        now = RecordStore(store, "app", budget=BUDGET).load("1")
        assert now in allowed
        assert all(len(value.value) <= BUDGET + budget for key in store.list("") if (value := store.get(key)))


def test_a_save_whose_answer_was_lost_is_refused_until_the_saver_has_looked_again() -> None:
    number, lost = 0, True
    while lost:
        store = with_old()
        mine = saver(LosingAnswer(store, number))
        number, lost = number + 1, False
        try:
            mine.save(NEW)
        except RetrySoonError:
            lost = True
            assert saver(store).load("1") in (OLD, NEW)
            assert mine.load("1") in (OLD, NEW)
            mine.save(NEW)
        assert saver(store).load("1") == NEW
        assert len(store.list("")) == 1 + len(cut(NEW, BUDGET))
    assert number == 11, "each of ten answers was lost once"
