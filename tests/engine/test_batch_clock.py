"""How much time has passed, whatever happens to the host's clock."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.clocks import TOLERATED, BatchClock, BatchTime, Instant

NOON, YEARS, HOUR = 1_767_268_800_000, 10 * 365 * 86_400_000, 3_600_000


def test_time_passes_truly_while_the_hosts_clock_is_wrong() -> None:
    clock, time = BatchClock(), BatchTime(0)
    time, warning = clock.at(Instant(NOON, 5), time)
    assert (time, warning) == (BatchTime(NOON), None)
    time, warning = clock.at(Instant(NOON + YEARS + 1000, 1005), time)
    assert time == BatchTime(NOON + 1000, -YEARS)
    assert "the host's clock was put ahead by 3,650 d" in str(warning)
    time, warning = clock.at(Instant(NOON + YEARS + 2000, 2005), time)
    assert (time, warning) == (BatchTime(NOON + 2000, -YEARS), None), "it is said once"
    time, warning = clock.at(Instant(NOON + 3000, 3005), time)
    assert time == BatchTime(NOON + 3000)
    assert "put back by 3,650 d" in str(warning)


def test_a_clock_that_is_put_back_between_attempts_freezes_nothing() -> None:
    last = BatchTime(NOON + YEARS)
    clock = BatchClock()
    time, warning = clock.at(Instant(NOON, 5), last)
    assert time == BatchTime(NOON + YEARS, YEARS)
    assert "3,650 d earlier than it was in the last batch" in str(warning)
    time, warning = clock.at(Instant(NOON + HOUR, HOUR + 5), time)
    assert (time, warning) == (BatchTime(NOON + YEARS + HOUR, YEARS), None)
    again = BatchClock()
    time, warning = again.at(Instant(NOON + 2 * HOUR, 7), time)
    assert (time, warning) == (BatchTime(NOON + YEARS + 2 * HOUR, YEARS), None), "the next attempt knows"


def test_a_jump_put_right_between_attempts_leaves_nothing_behind() -> None:
    time, _ = BatchClock().at(Instant(NOON + 60, 5), BatchTime(NOON, -YEARS))
    assert time == BatchTime(NOON + 60)
    time, _ = BatchClock().at(Instant(NOON + YEARS + 60, 5), BatchTime(NOON, -YEARS))
    assert time == BatchTime(NOON + 60, -YEARS), "and one that is not put right goes on"


def test_small_corrections_are_followed_and_back_the_clock_waits() -> None:
    clock = BatchClock()
    time, _ = clock.at(Instant(NOON, 0), BatchTime(0))
    ahead, warning = clock.at(Instant(NOON + TOLERATED, 0), time)
    assert (ahead, warning) == (BatchTime(NOON + TOLERATED), None)
    back, warning = clock.at(Instant(NOON + 1000, 1000), ahead)
    assert (back, warning) == (BatchTime(NOON + TOLERATED), None)
    then, _ = clock.at(Instant(NOON + TOLERATED + 1, TOLERATED + 1), back)
    assert then == BatchTime(NOON + TOLERATED + 1)


def test_a_stop_of_months_is_time_that_has_passed() -> None:
    time, warning = BatchClock().at(Instant(NOON + 90 * 24 * HOUR, 3), BatchTime(NOON))
    assert (time, warning) == (BatchTime(NOON + 90 * 24 * HOUR), None)


@given(
    st.lists(
        st.tuples(
            st.integers(0, HOUR),
            st.sampled_from([0, 0, 1, -1, TOLERATED, -TOLERATED, HOUR, -HOUR, YEARS, -YEARS]),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_it_never_goes_back_and_never_jumps(moves: list[tuple[int, int, bool]]) -> None:
    """`moves`: time that passes, by how much the host's clock is set, whether an attempt begins before that."""
    clock, time = BatchClock(), BatchTime(0)
    wall, passed = NOON, 0
    time, _ = clock.at(Instant(wall, passed), time)
    for later, jump, restarts in moves:
        wall, passed, before = wall + later + jump, passed + later, time
        if restarts:
            clock = BatchClock()
        time, warning = clock.at(Instant(wall, passed), before)
        assert time.now >= before.now
        if not restarts:
            assert time.now <= before.now + later + TOLERATED * (len(moves) + 1)
            assert (warning is not None) == (abs(jump) > TOLERATED)
