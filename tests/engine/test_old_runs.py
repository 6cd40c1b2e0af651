"""Which old runs are kept, noted, marked and cleared: the decision alone."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.checkpoint.run_owner import CleanupStep, OldRun, RunOwner, cleanup_steps, may_clear

ADS, ANEW = RunOwner("ads", "team-a", "u-1"), RunOwner("ads", "team-a", "u-2")
DAY = 86_400_000
BEGAN, WEEK = 100 * DAY, 7 * DAY
OWN = OldRun(ADS, {"claim-2": BEGAN}, BEGAN)
LEFT = OldRun(ADS, {"claim-1": BEGAN - 9 * DAY}, newest=BEGAN, noted=True)


def decided(run: OldRun, after: int, retention: int | None = WEEK, current: OldRun = OWN) -> CleanupStep:
    """What is done with a run so long after the current one began; KEEP also where nothing is."""
    return cleanup_steps(current, {"1": run}, retention, BEGAN + after).get("1", CleanupStep.KEEP)


def test_the_retention_counts_from_when_the_run_was_left() -> None:
    assert decided(replace(LEFT, noted=False, newest=BEGAN - 50 * DAY), 0) is CleanupStep.NOTE
    assert decided(LEFT, 0) is CleanupStep.KEEP


def test_a_run_is_kept_to_its_retentions_last_millisecond() -> None:
    assert decided(LEFT, WEEK) is CleanupStep.KEEP
    assert decided(LEFT, WEEK + 1) is CleanupStep.MARK
    assert decided(LEFT, 1, retention=0) is CleanupStep.MARK


def test_an_old_writer_that_still_writes_keeps_its_run() -> None:
    assert decided(replace(LEFT, newest=BEGAN + 30 * DAY), 31 * DAY) is CleanupStep.KEEP


def test_retention_for_ever_ends_only_a_collection_already_begun() -> None:
    assert decided(LEFT, 1000 * DAY, retention=None) is CleanupStep.KEEP
    assert decided(replace(LEFT, noted=False), 0, retention=None) is CleanupStep.KEEP
    assert decided(replace(LEFT, collected=frozenset({"claim-1"})), 0, retention=None) is CleanupStep.CLEAR


def test_an_interrupted_collection_is_resumed_however_young_the_rest_is() -> None:
    assert decided(OldRun(ADS, {}, BEGAN, collected=frozenset({"claim-1"})), 0) is CleanupStep.CLEAR


def test_a_run_taken_up_just_before_its_mark_is_kept() -> None:
    claimed_run = replace(
        LEFT, claims={"claim-1": BEGAN - 9 * DAY, "claim-3": BEGAN - 1}, collected=frozenset({"claim-1"})
    )
    assert decided(claimed_run, 1000 * DAY) is CleanupStep.KEEP
    assert not may_clear(claimed_run)


def test_runs_of_other_app_objects_or_nobody_are_not_touched() -> None:
    for owner in (None, ANEW, replace(ADS, namespace="team-b"), replace(ADS, app="ad")):
        for run in (LEFT, replace(LEFT, noted=False), replace(LEFT, collected=frozenset({"claim-1"}))):
            assert decided(replace(run, owner=owner), 1000 * DAY) is CleanupStep.KEEP
    assert decided(replace(LEFT, owner=None), 1000 * DAY, current=replace(OWN, owner=None)) is CleanupStep.KEEP


def test_a_driver_that_its_app_left_judges_no_run() -> None:
    later = replace(LEFT, claims={"claim-9": BEGAN + 1}, newest=BEGAN + 1)
    assert cleanup_steps(OWN, {"0": LEFT, "1": later}, WEEK, BEGAN + 1000 * DAY) == {}
    foreign_run = replace(later, owner=ANEW)
    assert cleanup_steps(OWN, {"0": LEFT, "1": foreign_run}, WEEK, BEGAN + 1000 * DAY) == {"0": CleanupStep.MARK}
    assert cleanup_steps(replace(OWN, claims={}), {"0": LEFT}, WEEK, BEGAN + 1000 * DAY) == {}


_TIMES = st.integers(0, 40)
_RUNS = st.builds(
    OldRun,
    st.sampled_from([ADS, ANEW, None]),
    st.dictionaries(st.sampled_from("abcd"), _TIMES, max_size=3),
    _TIMES,
    st.booleans(),
    st.none() | st.frozensets(st.sampled_from("abcd")),
)


@given(_RUNS, st.dictionaries(st.sampled_from("xyz"), _RUNS), st.none() | _TIMES, _TIMES)
def test_nothing_young_claimed_or_foreign_is_ever_collected(
    current: OldRun, runs: dict[str, OldRun], retention: int | None, now: int
) -> None:
    for name, step in cleanup_steps(current, runs, retention, now).items():
        run = runs[name]
        assert run.owner == current.owner is not None
        if step is CleanupStep.MARK:
            assert retention is not None
            assert run.noted
            assert now - run.newest > retention
        if step is CleanupStep.CLEAR:
            assert run.collected is not None
            assert run.claims.keys() <= run.collected
