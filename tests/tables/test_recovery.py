from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tables.recovery import (
    Decision,
    Found,
    LocalStore,
    OffsetBeyondEndError,
    Start,
    StartAt,
    StoreAction,
    newer_than_oldest,
    recover,
    starting_offset,
)
from holdfast.tasks.partitions import StreamPartition

CREATE, RECREATE, KEEP = StoreAction.CREATE, StoreAction.RECREATE, StoreAction.KEEP
ABSENT, INVALID, VALID = LocalStore.ABSENT, LocalStore.INVALID, LocalStore.VALID
BOTH = (True, False)
EVERYTHING = [
    Found(bootstrap, persistent, local, copy, read_before, lacking)
    for bootstrap, persistent, local, copy, read_before, lacking in product(BOTH, BOTH, LocalStore, BOTH, BOTH, BOTH)
]


def later(local: LocalStore, *, bootstrap: bool, copy: bool = False, persistent: bool = True) -> Found:
    """A table in a later attempt of its run."""
    return Found(bootstrap, persistent, local, copy_usable=copy, read_before=True)


@pytest.mark.parametrize(
    ("found", "decision"),
    [
        (later(ABSENT, bootstrap=True), Decision(CREATE, StartAt.OLDEST, main_inputs_wait=True)),
        (later(INVALID, bootstrap=True), Decision(RECREATE, StartAt.OLDEST, main_inputs_wait=True)),
        (later(VALID, bootstrap=True), Decision(KEEP, StartAt.STORED, main_inputs_wait=True)),
        (later(ABSENT, bootstrap=False), Decision(CREATE, StartAt.RUN, incomplete=True)),
        (later(INVALID, bootstrap=False), Decision(RECREATE, StartAt.RUN, incomplete=True)),
        (later(VALID, bootstrap=False), Decision(KEEP, StartAt.STORED)),
        (
            later(ABSENT, bootstrap=True, copy=True),
            Decision(CREATE, StartAt.COPY, restore_copy=True, main_inputs_wait=True),
        ),
        (later(INVALID, bootstrap=False, copy=True), Decision(RECREATE, StartAt.COPY, restore_copy=True)),
        (later(VALID, bootstrap=False, copy=True), Decision(KEEP, StartAt.STORED)),
    ],
)
def test_the_table_of_the_design_cell_by_cell(found: Found, decision: Decision) -> None:
    assert recover(found) == decision


@pytest.mark.parametrize("found", EVERYTHING)
def test_main_inputs_wait_exactly_for_bootstrap_tables(found: Found) -> None:
    assert recover(found).main_inputs_wait == found.bootstrap


@pytest.mark.parametrize("found", EVERYTHING)
def test_rows_are_given_up_only_where_no_copy_holds_them_and_it_is_said(found: Found) -> None:
    decision = recover(found)
    if decision.start is StartAt.RUN:
        assert decision.incomplete
        assert not found.bootstrap
        assert not (found.persistent and (found.copy_usable or found.local is VALID))
    if decision.incomplete:
        assert decision.start is StartAt.RUN or found.lacking


@pytest.mark.parametrize("found", [one for one in EVERYTHING if not one.persistent])
def test_a_table_in_memory_begins_anew_whatever_is_found(found: Found) -> None:
    decision = recover(found)
    assert (decision.store, decision.restore_copy) == (CREATE, False)
    assert decision.start is (StartAt.OLDEST if found.bootstrap or not found.read_before else StartAt.RUN)


@pytest.mark.parametrize("local", [ABSENT, INVALID])
def test_the_first_attempt_of_a_run_has_nothing_to_continue_from_and_misses_nothing(local: LocalStore) -> None:
    decision = recover(Found(bootstrap=False, persistent=True, local=local))
    assert (decision.start, decision.incomplete, decision.main_inputs_wait) == (StartAt.OLDEST, False, False)


def test_a_store_that_started_incomplete_says_so_in_later_attempts_too() -> None:
    assert recover(Found(False, True, VALID, read_before=True, lacking=True)).incomplete
    assert recover(Found(False, True, ABSENT, copy_usable=True, read_before=True, lacking=True)).incomplete
    assert not recover(Found(True, True, INVALID, read_before=True, lacking=True)).incomplete


@given(st.none() | st.integers(0, 100), st.integers(0, 100))
def test_reading_starts_behind_what_was_applied_and_never_below_the_oldest(applied: int | None, oldest: int) -> None:
    start = starting_offset(applied, oldest)
    assert start.offset >= oldest
    if applied is None:
        assert start == Start(oldest, 0)
    else:
        assert start.offset - start.gone == applied + 1


def test_a_source_that_ends_before_what_was_applied_is_another_one() -> None:
    assert starting_offset(9, 0, end=10) == Start(10, 0)
    with pytest.raises(OffsetBeyondEndError, match="has applied offset 10, but its source ends before offset 10"):
        starting_offset(10, 0, end=10)


def test_a_copy_is_newer_than_the_oldest_if_reading_goes_on_without_a_gap() -> None:
    first, second = StreamPartition("s", 0), StreamPartition("s", 1)
    oldest = {first: 10, second: 0}
    assert newer_than_oldest({first: 9, second: None}, oldest)
    assert not newer_than_oldest({first: 8, second: 5}, oldest)
