from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.tables.recovery import (
    LocalStore,
    SourceStart,
    StartingOffset,
    StoreAction,
    TableFacts,
    TableRecovery,
    newer_than_oldest,
    recover,
    starting_offset,
)
from holdfast.tasks.partitions import StreamPartition
from tests.error_codes import has_code

CREATE, RECREATE, KEEP = StoreAction.CREATE, StoreAction.RECREATE, StoreAction.KEEP
ABSENT, INVALID, VALID = LocalStore.ABSENT, LocalStore.INVALID, LocalStore.VALID
BOTH = (True, False)
EVERYTHING = [
    TableFacts(bootstrap, persistent, local, copy, read_before, lacking)
    for bootstrap, persistent, local, copy, read_before, lacking in product(BOTH, BOTH, LocalStore, BOTH, BOTH, BOTH)
]


def later(local: LocalStore, *, bootstrap: bool, copy: bool = False, persistent: bool = True) -> TableFacts:
    """A table in a later attempt of its run."""
    return TableFacts(bootstrap, persistent, local, copy_usable=copy, read_before=True)


@pytest.mark.parametrize(
    ("facts", "decision"),
    [
        (later(ABSENT, bootstrap=True), TableRecovery(CREATE, SourceStart.OLDEST, main_inputs_wait=True)),
        (later(INVALID, bootstrap=True), TableRecovery(RECREATE, SourceStart.OLDEST, main_inputs_wait=True)),
        (later(VALID, bootstrap=True), TableRecovery(KEEP, SourceStart.STORED, main_inputs_wait=True)),
        (later(ABSENT, bootstrap=False), TableRecovery(CREATE, SourceStart.RUN, incomplete=True)),
        (later(INVALID, bootstrap=False), TableRecovery(RECREATE, SourceStart.RUN, incomplete=True)),
        (later(VALID, bootstrap=False), TableRecovery(KEEP, SourceStart.STORED)),
        (
            later(ABSENT, bootstrap=True, copy=True),
            TableRecovery(CREATE, SourceStart.COPY, restore_copy=True, main_inputs_wait=True),
        ),
        (later(INVALID, bootstrap=False, copy=True), TableRecovery(RECREATE, SourceStart.COPY, restore_copy=True)),
        (later(VALID, bootstrap=False, copy=True), TableRecovery(KEEP, SourceStart.STORED)),
    ],
)
def test_the_table_of_the_design_cell_by_cell(facts: TableFacts, decision: TableRecovery) -> None:
    assert recover(facts) == decision


@pytest.mark.parametrize("facts", EVERYTHING)
def test_main_inputs_wait_exactly_for_bootstrap_tables(facts: TableFacts) -> None:
    assert recover(facts).main_inputs_wait == facts.bootstrap


@pytest.mark.parametrize("facts", EVERYTHING)
def test_rows_no_copy_holds_are_given_up_and_reported(facts: TableFacts) -> None:
    decision = recover(facts)
    if decision.start is SourceStart.RUN:
        assert decision.incomplete
        assert not facts.bootstrap
        assert not (facts.persistent and (facts.copy_usable or facts.local is VALID))
    if decision.incomplete:
        assert decision.start is SourceStart.RUN or facts.lacking


@pytest.mark.parametrize("facts", [one for one in EVERYTHING if not one.persistent])
def test_a_table_in_memory_begins_anew_whatever_is_found(facts: TableFacts) -> None:
    decision = recover(facts)
    assert (decision.store, decision.restore_copy) == (CREATE, False)
    assert decision.start is (SourceStart.OLDEST if facts.bootstrap or not facts.read_before else SourceStart.RUN)


@pytest.mark.parametrize("local", [ABSENT, INVALID])
def test_a_runs_first_attempt_misses_nothing(local: LocalStore) -> None:
    decision = recover(TableFacts(bootstrap=False, persistent=True, local=local))
    assert (decision.start, decision.incomplete, decision.main_inputs_wait) == (SourceStart.OLDEST, False, False)


def test_an_incomplete_start_is_reported_by_later_attempts_too() -> None:
    assert recover(TableFacts(False, True, VALID, read_before=True, lacking=True)).incomplete
    assert recover(TableFacts(False, True, ABSENT, copy_usable=True, read_before=True, lacking=True)).incomplete
    assert not recover(TableFacts(True, True, INVALID, read_before=True, lacking=True)).incomplete


@given(st.none() | st.integers(0, 100), st.integers(0, 100))
def test_reading_starts_behind_applied_rows_and_never_below_the_oldest(applied: int | None, oldest: int) -> None:
    start = starting_offset(applied, oldest)
    assert start.offset >= oldest
    if applied is None:
        assert start == StartingOffset(oldest, 0)
    else:
        assert start.offset - start.gone == applied + 1


def test_a_source_ending_before_what_was_applied_is_another_one() -> None:
    assert starting_offset(9, 0, end=10) == StartingOffset(10, 0)
    with pytest.raises(
        UserActionError,
        match="has applied offset 10, but its source ends before offset 10",
        check=has_code("TableBeyondSourceError"),
    ):
        starting_offset(10, 0, end=10)


def test_a_copy_that_leaves_no_gap_is_newer_than_oldest() -> None:
    first, second = StreamPartition("s", 0), StreamPartition("s", 1)
    oldest = {first: 10, second: 0}
    assert newer_than_oldest({first: 9, second: None}, oldest)
    assert not newer_than_oldest({first: 8, second: 5}, oldest)
