"""`aggregate` beside a list of rows: windows, sessions and all time, any cut into batches, late rows, nulls, rounds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.planning.aggregation import AggregateCall, Aggregation
from holdfast.spec.steps import Aggregate
from holdfast_runtime.state.errors import StateUnreadableError
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.steps.windows.aggregate import AggregateStep
from holdfast_runtime.steps.windows.aggregate_plan import AggregatePlan
from tests.error_codes import has_code
from tests.steps.moments import moments
from tests.steps.test_deduplicate import Tables
from tests.steps.window_models import MS, Out, Row, SessionModel, WindowModel, result

SCHEMA = pa.schema([("user", pa.string()), ("n", pa.int64())])
PARTS = Aggregation((), (AggregateCall("count"), AggregateCall("sum", ("n",))), ("rows", "total"), ())


def timed(rows: Sequence[Row]) -> TimedRows:
    users, numbers, times = zip(*rows, strict=True) if rows else ((), (), ())
    batch = pa.RecordBatch.from_arrays([pa.array(users, pa.string()), pa.array(numbers, pa.int64())], schema=SCHEMA)
    return TimedRows(batch, pa.array(times, pa.int64()))


def step(shape: Mapping[str, str], most: int = 1000) -> AggregateStep:
    made = Aggregate.model_validate({"by": ["user"], "compute": ["count(*) AS rows"], **shape})
    return AggregateStep("counts", AggregatePlan(made, PARTS, SCHEMA), "counts", most=most)


def us(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def came(made: TimedRows) -> list[Out]:
    bounds = "window_start" in made.rows.schema.names
    return [
        (
            us(row["window_start"]) if bounds else None,
            us(row["window_end"]) if bounds else None,
            row["user"],
            row["rows"],
            row["total"],
        )
        for row in made.rows.to_pylist()
    ]


def outcome_of(
    verb: AggregateStep, tables: Tables, rows: Sequence[Row], watermark: int | None, *, ended: bool = False
) -> StepOutcome:
    return verb.run(timed(rows), tables, StepClock(0, watermark, ended))


def run(
    verb: AggregateStep, tables: Tables, rows: Sequence[Row], watermark: int | None, *, ended: bool = False
) -> list[Out]:
    return came(outcome_of(verb, tables, rows, watermark, ended=ended).rows)


rows_of = st.lists(
    st.tuples(st.none() | st.sampled_from("abc"), st.none() | st.integers(-9, 9), st.none() | moments(-3000, 12_000)),
    max_size=25,
)
SHAPES: list[dict[str, str]] = [
    {"window": "1s"},
    {"window": "1s", "slide": "400ms"},
    {"window": "3s", "slide": "1s"},
    {"session": "700ms"},
    {"session": "3s"},
    {"session": "5ms"},
]


def model_of(shape: dict[str, str]) -> WindowModel | SessionModel:
    lengths = {"1s": 1000, "3s": 3000, "400ms": 400, "700ms": 700, "5ms": 5}
    if "session" in shape:
        return SessionModel(lengths[shape["session"]] * MS)
    return WindowModel(lengths[shape["window"]] * MS, lengths[shape.get("slide", shape["window"])] * MS)


def marked(batches: Iterable[list[Row] | None], lateness: int) -> Iterator[tuple[list[Row], int | None, bool]]:
    """The rows of each batch, the watermark, and whether the stream has ended, which None says.

    The watermark follows the newest row, so that windows close and rows are late.
    """
    newest: int | None = None
    for rows in batches:
        times = [time for _, _, time in rows or [] if time is not None]
        newest = max(times if newest is None else [*times, newest], default=None)
        yield rows or [], None if newest is None else newest // MS - lateness, rows is None


@given(st.lists(rows_of, max_size=8), st.sampled_from(SHAPES), st.integers(0, 3000))
def test_what_comes_out_is_what_a_list_says(drawn: list[list[Row]], shape: dict[str, str], lateness: int) -> None:
    verb, tables, model = step(shape), Tables(), model_of(shape)
    late = 0
    for rows, mark, ended in marked([*drawn, None], lateness):
        outcome = outcome_of(verb, tables, rows, mark, ended=ended)
        results, late = came(outcome.rows), late + outcome.late["counts"]
        model.add(rows)
        expected = list(model.close(2**60 if ended else mark))
        assert sorted(results, key=str) == sorted(expected, key=str)
        assert [one[1] for one in results] == sorted(one[1] or 0 for one in results)
    assert late == model.late


@given(st.lists(rows_of, max_size=6), st.sampled_from(SHAPES), st.integers(0, 3000), st.integers(1, 4))
def test_groups_that_leave_over_several_batches_leave_once_and_whole(
    drawn: list[list[Row]], shape: dict[str, str], lateness: int, most: int
) -> None:
    """A round that is under way lets rows wait that came after its watermark, and holds back the time behind it."""
    verb, tables, model = step(shape, most), Tables(), model_of(shape)
    results: list[Out] = []
    expected: list[Out] = []
    for rows, mark, ended in marked([*drawn, None], lateness):
        model.add(rows)
        expected += model.close(2**60 if ended else mark)
        outcome = outcome_of(verb, tables, rows, mark, ended=ended)
        for _ in range(1000):
            results += came(outcome.rows)
            if (unfired := outcome.unfired) is None:
                break
            assert (outcome.rows.count >= most, outcome.wake) == (True, 0)
            outcome = outcome_of(verb, tables, [], mark, ended=ended)
            assert all(time >= unfired * MS for time in outcome.rows.times.to_pylist())
        else:
            pytest.fail("the round does not end")
    assert sorted(results, key=str) == sorted(expected, key=str)


@given(
    st.lists(rows_of, max_size=8),
    st.sampled_from([{"window": "1s"}, {"window": "3s", "slide": "1s"}]),
    st.integers(0, 3000),
)
def test_updates_are_the_newest_results_of_what_was_touched(
    drawn: list[list[Row]], shape: dict[str, str], lateness: int
) -> None:
    verb, tables, model = step({"emit": "Update", **shape}), Tables(), model_of(shape)
    assert isinstance(model, WindowModel)
    for rows, mark, _ in marked(drawn, lateness):
        touched = {
            (end, user)
            for user, _, time in rows
            if time is not None
            for end in model.ends(time)
            if model.until is None or end > model.until
        }
        model.add(rows)
        expected = [result(end - model.window, end, user, model.held[end, user]) for end, user in touched]
        assert sorted(run(verb, tables, rows, mark), key=str) == sorted(expected, key=str)
        list(model.close(mark))
    for _ in range(2):
        run(verb, tables, [], 100_000)
    assert not [key for key in tables.table("counts").rows if key[:1] in (b"d", b"p")]


def test_a_stretch_over_in_the_middle_of_its_session_stays() -> None:
    """It lies in one bucket with one that it overlaps and that is not over."""
    verb, tables = step({"session": "3s"}), Tables()
    run(verb, tables, [("a", 1, 0)], -420)
    assert run(verb, tables, [("a", 1, 1 * MS), ("a", 1, 3420 * MS)], 3000) == []
    assert run(verb, tables, [], 3420) == [(0, 3001 * MS, "a", 2, 2)]


@given(st.lists(rows_of, max_size=8))
def test_without_a_window_each_batch_updates_its_keys(drawn: list[list[Row]]) -> None:
    verb, tables = step({"emit": "Update"}), Tables()
    held: dict[str | None, list[Row]] = {}
    for rows in drawn:
        for row in rows:
            held.setdefault(row[0], []).append(row)
        made = verb.run(timed(rows), tables, StepClock(0, None)).rows
        expected = [result(None, None, user, held[user]) for user in {user for user, _, _ in rows}]
        assert sorted(came(made), key=str) == sorted(expected, key=str)
        latest = {user: max((time for _, _, time in held[user] if time is not None), default=None) for user in held}
        assert made.times.to_pylist() == [latest[row[2]] for row in came(made)]


def test_final_results_of_all_time_come_when_the_stream_ends() -> None:
    verb, tables = step({"emit": "Final"}), Tables()
    assert run(verb, tables, [("a", 1, 5), ("b", 2, None)], 100) == []
    assert run(verb, tables, [("a", 3, 7)], 200) == []
    results = run(verb, tables, [], 200, ended=True)
    assert sorted(results, key=str) == [(None, None, "a", 2, 4), (None, None, "b", 1, 2)]
    assert run(verb, tables, [], 200, ended=True) == []


def test_a_distrusted_watermark_makes_no_row_late() -> None:
    """A clock that was years ahead, and was set right: what was closed by it stays out, and time begins again."""
    verb, tables = step({"window": "1s"}), Tables()
    far = 10**12
    verb.run(timed([("a", 1, far * MS)]), tables, StepClock(0, far, horizon=far))
    outcome = verb.run(timed([("a", 1, 5)]), tables, StepClock(0, None, horizon=10_000))
    assert (came(outcome.rows), outcome.late) == ([], {"counts": 0})
    outcome = verb.run(timed([]), tables, StepClock(0, 2000, horizon=10_000))
    assert came(outcome.rows) == [(0, 1000 * MS, "a", 1, 1)]


def test_a_result_has_the_last_microsecond_of_its_window() -> None:
    verb, tables = step({"window": "1s"}), Tables()
    verb.run(timed([("a", 1, 5)]), tables, StepClock(0, None))
    assert verb.run(timed([]), tables, StepClock(0, 1000)).rows.times.to_pylist() == [999_999]


def test_a_session_ending_between_milliseconds_is_in_time_for_windows() -> None:
    """Its result comes out by a watermark that the one before it had not reached."""
    verb, tables = step({"session": "1s"}), Tables()
    verb.run(timed([("a", 1, 400)]), tables, StepClock(0, 1_000))
    made = verb.run(timed([]), tables, StepClock(0, 1_001, before=1_000)).rows
    assert came(made) == [(400, 1_000_400, "a", 1, 1)]
    assert not StepClock(0, 1_001, before=1_000).late(made.times)[0].as_py()


@pytest.mark.parametrize("first", [0, 400, -300])
def test_a_session_goes_on_until_a_microsecond_before_its_gap(first: int) -> None:
    for apart, rows in ((1_000_000 - 1, [2]), (1_000_000, [1, 1])):
        for together in (True, False):
            verb, tables = step({"session": "1s"}), Tables()
            session_rows: list[Row] = [("a", 1, first), ("a", 1, first + apart)]
            for part in [session_rows] if together else [session_rows[:1], session_rows[1:]]:
                assert run(verb, tables, part, -10_000) == []
            assert [one[3] for one in run(verb, tables, [], 10_000)] == rows


@pytest.mark.parametrize("shape", [{"window": "1s"}, {"window": "2s", "slide": "1s"}], ids=str)
def test_a_windows_end_belongs_to_the_next_window(shape: dict[str, str]) -> None:
    verb, tables = step(shape), Tables()
    run(verb, tables, [("a", 1, 999_999), ("a", 10, 1_000_000), ("a", 100, -1)], -2_000)
    totals = {start: total for start, _, _, _, total in run(verb, tables, [], 10_000)}
    if "slide" in shape:
        assert totals == {-2_000_000: 100, -1_000_000: 101, 0: 11, 1_000_000: 10}
    else:
        assert totals == {-1_000_000: 100, 0: 1, 1_000_000: 10}


def test_how_far_windows_were_closed_needs_this_releases_format() -> None:
    verb, tables = step({"window": "1s"}), Tables()
    tables.table("counts").put_many([b"c"], [b'{"until": 5000, "done": 5000, "round": null}'])
    with pytest.raises(StateUnreadableError, match="format None, and this release reads 2"):
        run(verb, tables, [], 6000)


def test_a_sum_that_overflows_names_column_key_and_window() -> None:
    verb, tables = step({"window": "1s"}), Tables()
    run(verb, tables, [("a", 2**63 - 1, 5), ("b", 1, 5), ("a", 1, 6)], None)
    message = r"total can't be computed for user 'a', window until 1970-01-01T00:00:01.000Z: sum\(n\) is more than"
    with pytest.raises(UserActionError, check=has_code("AggregateOverflowError"), match=message):
        run(verb, tables, [], 1000)


def test_a_sum_that_only_overflows_on_its_way_is_right() -> None:
    verb, tables = step({"window": "1s"}), Tables()
    for number in (2**63 - 1, 1, -1):
        run(verb, tables, [("a", number, 5)], None)
    assert run(verb, tables, [], 1000) == [(0, 1000 * MS, "a", 3, 2**63 - 1)]


def test_overflowing_results_are_put_aside_where_the_step_says_so() -> None:
    made = Aggregate.model_validate({"by": ["user"], "window": "1s", "compute": ["sum(n) AS total"]})
    verb, tables = AggregateStep("counts", AggregatePlan(made, PARTS, SCHEMA), "counts", apart=True), Tables()
    run(verb, tables, [("a", 2**63 - 1, 5), ("b", 1, 5), ("a", 1, 6)], None)
    outcome = outcome_of(verb, tables, [], 1000)
    assert came(outcome.rows) == [(0, 1000 * MS, "b", 1, 1)]
    (failed,) = outcome.failed
    assert failed.rows.rows.to_pylist()[0]["user"] == "a"
    assert [(failure.column, failure.row) for failure in failed.failures] == [("total", 0)]


def test_minus_zero_and_zero_are_the_same_key_zero() -> None:
    schema = pa.schema([("user", pa.float64()), ("n", pa.int64())])
    made = Aggregate.model_validate({"by": ["user"], "window": "1s", "compute": ["count(*) AS rows"]})
    verb = AggregateStep("counts", AggregatePlan(made, PARTS, schema), "counts")
    nan = float("nan")
    rows = pa.RecordBatch.from_pydict({"user": [-0.0, 0.0, nan, None, nan, None], "n": [1] * 6}, schema=schema)
    tables = Tables()
    verb.run(TimedRows(rows, pa.array([5] * 6, pa.int64())), tables, StepClock(0, None))
    results = verb.run(TimedRows.nothing(schema), tables, StepClock(0, 1000)).rows.rows
    assert sorted(map(str, zip(results["user"].to_pylist(), results["rows"].to_pylist(), strict=True))) == [
        "(0.0, 2)",
        "(None, 2)",
        "(nan, 2)",
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_the_watermark_has_left_behind_is_forgotten(shape: dict[str, str]) -> None:
    verb, tables = step(shape), Tables()
    for batch in range(100):
        start = batch * 1000
        run(verb, tables, [(str(n % 20), n, (start + n * 10) * MS) for n in range(100)], start - 500)
    left = [key for key in tables.table("counts").rows if key[:1] in (b"d", b"p")]
    assert len(left) < 140


@given(st.lists(rows_of, max_size=8), st.sampled_from(SHAPES), st.integers(0, 3000), st.integers(1, 4))
def test_rows_that_come_while_groups_leave_change_nothing_of_those(
    drawn: list[list[Row]], shape: dict[str, str], lateness: int, most: int
) -> None:
    """Until a round is at its end, rows are judged by its watermark, and the next one waits."""
    verb, tables, model = step(shape, most), Tables(), model_of(shape)
    results: list[Out] = []
    expected: list[Out] = []
    unfired: int | None = None
    for rows, mark, ended in marked([*drawn, *[None] * 400], lateness):
        model.add(rows)
        if unfired is None:
            expected += model.close(2**60 if ended else mark)
        outcome = outcome_of(verb, tables, rows, mark, ended=ended)
        results += came(outcome.rows)
        unfired = outcome.unfired
    assert unfired is None
    assert sorted(results, key=str) == sorted(expected, key=str)
