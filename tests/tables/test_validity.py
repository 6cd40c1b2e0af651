from dataclasses import replace

import pytest

from holdfast.tables.recovery import StoreFacts, StoreFault, StoreRequirement, store_fault
from holdfast.tasks.partitions import StreamPartition

ONE, TWO = StreamPartition("campaigns", 0), StreamPartition("campaigns", 1)
STORE = StoreFacts("ads", "1", "info", frozenset({ONE}), written_at=1_000, checksums_good=True)
WANTED = StoreRequirement("ads", "1", "info", frozenset({ONE}), max_age=500, now=1_499)


def test_a_young_whole_store_of_this_table_is_valid() -> None:
    assert store_fault(STORE, WANTED) is None


@pytest.mark.parametrize(
    ("store", "requirement", "kind", "message"),
    [
        (replace(STORE, app="b"), WANTED, StoreFault.OTHER_APP, "it was written by app b, not ads"),
        (replace(STORE, run_id="0"), WANTED, StoreFault.OTHER_RUN, "it was written in run 0, this is run 1"),
        (replace(STORE, table="x"), WANTED, StoreFault.OTHER_TABLE, "it holds table x, not info"),
        (
            STORE,
            replace(WANTED, partitions=frozenset({ONE, TWO})),
            StoreFault.OTHER_PARTITIONS,
            "it lacks campaigns/1 and was also fed from none",
        ),
        (
            replace(STORE, partitions=frozenset(StreamPartition("s", number) for number in range(9)) | {ONE}),
            WANTED,
            StoreFault.OTHER_PARTITIONS,
            "it lacks none and was also fed from s/0, s/1, s/2, s/3, s/4, 4 more",
        ),
        (STORE, replace(WANTED, now=1_500), StoreFault.STALE, "it is 0 s old, and maxAge is 500ms"),
        (
            replace(STORE, incomplete=True),
            replace(WANTED, bootstrap=True),
            StoreFault.INCOMPLETE,
            "it started incomplete, and bootstrap asks for all rows",
        ),
        (
            replace(STORE, checksums_good=False),
            WANTED,
            StoreFault.DAMAGED,
            "its checksums do not fit its contents",
        ),
    ],
)
def test_a_store_is_not_used_and_the_reason_is_given(
    store: StoreFacts, requirement: StoreRequirement, kind: StoreFault, message: str
) -> None:
    fault = store_fault(store, requirement)
    assert fault is not None
    assert (fault.kind, fault.message) == (kind, message)


def test_the_first_of_several_reasons_is_given() -> None:
    fault = store_fault(replace(STORE, app="b", checksums_good=False), replace(WANTED, now=10**6))
    assert fault is not None
    assert fault.kind is StoreFault.OTHER_APP


def test_without_max_age_any_age_is_good() -> None:
    assert store_fault(STORE, replace(WANTED, max_age=None, now=10**15)) is None


def test_an_incomplete_store_is_good_where_nobody_waits() -> None:
    assert store_fault(replace(STORE, incomplete=True), WANTED) is None
