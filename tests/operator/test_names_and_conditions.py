import re

from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol.names import MAX_APP_ID, app_id, attempt_name, executor_set
from holdfast.reasons import Reason
from holdfast.times import moment, stamp
from holdfast_operator.decide.conditions import CONDITION_TYPES, updated_conditions

apps = st.from_regex(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", fullmatch=True)
runs = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", fullmatch=True)


@given(apps, runs, st.integers(1, 10**9))
def test_names_are_labels_with_room_for_suffixes(app: str, run: str, attempt: int) -> None:
    for name, most in (
        (app_id(app, run), MAX_APP_ID),
        (attempt_name(app, run, attempt), 63),
        (executor_set(app, run), 52),
    ):
        assert len(name) <= most
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)


def test_what_a_dash_could_confuse_has_other_names() -> None:
    assert app_id("a-b", "c") != app_id("a", "b-c")
    assert app_id("a" * 40, "1") != app_id("a" * 39 + "b", "1")


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    first = updated_conditions((), {"Ready": (False, Reason.STARTING, "a")}, 1, 0)
    assert [one.type for one in first] == list(CONDITION_TYPES)
    same = updated_conditions(first, {"Ready": (False, Reason.NO_REPORT, "b")}, 2, 60_000)
    assert same[0].last_transition_time == stamp(0)
    assert (same[0].reason, same[0].message, same[0].observed_generation) == ("NoReport", "b", 2)
    changed = updated_conditions(same, {"Ready": (True, Reason.RUNNING, "c")}, 2, 60_000)
    assert changed[0].last_transition_time == stamp(60_000)
    assert changed[1:] == same[1:]


def test_a_message_of_any_length_fits() -> None:
    (ready, *_) = updated_conditions((), {"Ready": (False, Reason.INVALID_SPEC, "x" * 100_000)}, 1, 0)
    assert len(ready.message) <= 4000


@given(st.integers(0, 4_000_000_000_000))
def test_a_stamp_is_never_before_its_moment(millis: int) -> None:
    assert 0 <= (moment(stamp(millis)) or 0) - millis < 1000


def test_what_is_no_moment_is_none() -> None:
    assert moment(None) is None
    assert moment("soon") is None
    assert moment("") is None
