"""Savers, readers and forgetters at once, their operations in any order: no reader ever meets half a record."""

from collections.abc import Callable
from itertools import chain, combinations_with_replacement, cycle, product, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import RetrySoonError
from holdfast.placement.metadata_store import MemoryStore, MetadataStore
from holdfast.placement.record_format import RecordKeys, cut, digest_of
from holdfast.placement.record_store import RecordStore
from holdfast.tasks.record import PlacementRecord
from tests.placement.records import BUDGET, several_shards
from tests.placement.store_doubles import take_turns

# The shards of a name are shared by all who save it, and three of four by all: the hard case for removing leftovers.
NAMES = ("one", "two", "six")
ACTS = ("save one", "save two", "save six", "forget", "load")


def saver(store: MetadataStore) -> RecordStore:
    return RecordStore(store, "app", budget=BUDGET)


def actor(acts: list[str]) -> Callable[[MetadataStore], list[PlacementRecord | None]]:
    """One saver that does this, again from the start of an act where it lost a race."""

    def run(store: MetadataStore) -> list[PlacementRecord | None]:
        mine, loaded = saver(store), []
        for act in acts:
            for _ in range(20):
                try:
                    if act.startswith("save"):
                        mine.save(several_shards(act.split()[1]))
                    elif act == "forget":
                        mine.forget("1")
                    else:
                        loaded.append(mine.load("1"))
                    break
                except RetrySoonError:
                    loaded.append(mine.load("1"))
        return loaded

    return run


@given(
    st.none() | st.sampled_from(NAMES),
    st.lists(st.lists(st.sampled_from(ACTS), min_size=1, max_size=3), min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 14)), max_size=12),
)
def test_whatever_the_order_each_reader_and_the_end_see_a_whole_record_or_none(
    before: str | None, actors: list[list[str]], turns: list[tuple[int, int]]
) -> None:
    store = MemoryStore()
    if before is not None:
        saver(store).save(several_shards(before))
    order = chain.from_iterable(repeat(number, operations) for number, operations in turns)
    results = take_turns(store, [actor(acts) for acts in actors], chain(order, cycle(range(len(actors)))))
    whole = [None, *map(several_shards, NAMES)]
    for loaded in results:
        assert isinstance(loaded, list), loaded
        assert all(record in whole for record in loaded)
    end = saver(store).load("1")
    assert end in whole
    acts = {act for acts in actors for act in acts}
    if "forget" not in acts and (before is not None or acts - {"load"}):
        assert end is not None
    saver(store).save(several_shards("one"))
    assert len(store.list("")) == 1 + len(cut(several_shards("one"), BUDGET))


def tiny(name: str) -> PlacementRecord:
    """A record of one shard."""
    return PlacementRecord("1", {}, {}, {"partition-0": name})


ONCE: dict[str, Callable[[MetadataStore], object]] = {
    "save one": lambda store: saver(store).save(tiny("one")),
    "save two": lambda store: saver(store).save(tiny("two")),
    "forget": lambda store: saver(store).forget("1"),
    "load": lambda store: saver(store).load("1"),
}
STARTS = ("nothing", "one", "leftovers of two", "one and leftovers of two")
OPERATIONS = 8


def started(start: str) -> MemoryStore:
    store = MemoryStore()
    if start.startswith("one"):
        saver(store).save(tiny("one"))
    if start.endswith("leftovers of two"):
        (shard,) = cut(tiny("two"), BUDGET)
        store.put(RecordKeys("app").shard("1", digest_of(shard)), shard, None)
    return store


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(("first", "second"), list(combinations_with_replacement(ONCE, 2)))
def test_two_actors_in_every_order_of_up_to_four_switches_leave_a_whole_record_or_none(
    start: str, first: str, second: str
) -> None:
    for one, other, one_again in product(range(OPERATIONS), range(1, OPERATIONS), range(1, OPERATIONS)):
        store = started(start)
        order = [0] * one + [1] * other + [0] * one_again + [1] * OPERATIONS * 2
        results = take_turns(store, [ONCE[first], ONCE[second]], chain(order, repeat(0)))
        for result in results:
            assert result in (None, tiny("one"), tiny("two")) or isinstance(result, RetrySoonError), result
        end = saver(store).load("1")
        assert end in (None, tiny("one"), tiny("two")), order
        for act, result in zip((first, second), results, strict=True):
            if act.startswith("save") and result is None and "forget" not in (first, second):
                assert end is not None, order


def test_of_savers_that_all_looked_before_one_wrote_exactly_one_succeeds() -> None:
    store = MemoryStore()
    savers = [saver(store) for _ in NAMES]
    for mine in savers:
        mine.load("1")
    outcomes: list[bool] = []
    for mine, name in zip(savers, NAMES, strict=True):
        try:
            mine.save(several_shards(name))
            outcomes.append(True)
        except RetrySoonError:
            outcomes.append(False)
    assert outcomes == [True, False, False]
    assert saver(store).load("1") == several_shards("one")
