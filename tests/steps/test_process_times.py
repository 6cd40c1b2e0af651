"""What `process` does with timers, and with state that has a time to live."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from holdfast.times import FARTHEST
from holdfast_runtime.steps.failures import UserFunctionError
from tests.steps.memory import MemoryTables
from tests.steps.running import NOON, Running, count, rows_of, values

# -- timers


def remind(sku: Any, rows: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    """`cents` is when."""
    for timer in state.fired:
        yield {"sku": f"{timer.kind} {timer.name} of {sku}", "n": timer.time}
    for row in rows:
        state.at_event_time(row["cents"], "e") if row["shop"] == 1 else state.at_time(row["cents"], "p")


def at(sku: str | None, when: int, *, processing: bool = False) -> dict[str, Any]:
    return {"sku": sku, "shop": 2 if processing else 1, "cents": when}


def test_event_timers_fire_by_watermark_in_time_and_key_order() -> None:
    run = Running(remind)
    assert run([at("c", 20), at("a", 30), at("b", 20), at(None, 31)], watermark=10) == []
    assert run(watermark=19) == []
    outputs = run(watermark=30)
    assert outputs == [
        ({"sku": "event e of b", "n": 20}, 20),
        ({"sku": "event e of c", "n": 20}, 20),
        ({"sku": "event e of a", "n": 30}, 30),
    ]
    assert values(run(watermark=31)) == [("event e of None", 31)]
    assert run.tables.content() == {}


def test_timers_for_a_past_time_fire_after_their_batchs_rows() -> None:
    def function(sku: str, rows: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
        yield from remind(sku, rows, state)
        if rows:
            yield {"sku": "rows", "n": len(rows)}

    assert values(Running(function)([at("a", 5), at("b", 4)], watermark=10)) == [
        ("rows", 1),
        ("rows", 1),
        ("event e of b", 4),
        ("event e of a", 5),
    ]


def test_processing_timers_wake_the_step_and_give_the_watermarks_time() -> None:
    run = Running(remind)
    run([at("a", NOON + 500, processing=True), at("b", NOON + 300, processing=True)], now=NOON)
    assert run.outcome.wake == NOON + 300
    assert run(now=NOON + 300) == [({"sku": "processing p of b", "n": NOON + 300}, None)]
    assert run.outcome.wake == NOON + 500
    assert run(now=NOON + 900, watermark=7) == [({"sku": "processing p of a", "n": NOON + 500}, 7)]
    assert run.outcome.wake is None


def test_a_timer_set_again_moves_and_a_cancelled_one_goes() -> None:
    def function(_: str, rows: list[dict[str, Any]], state: Any) -> None:
        state["fired"] = [*state.get("fired", []), *(timer.time for timer in state.fired)]
        for row in rows:
            if row["cents"] < 0:
                state.cancel_event_time("e")
                state.cancel_time("nothing of this name")
            else:
                state.at_event_time(row["cents"], "e")
                assert [timer.time for timer in state.timers] == [row["cents"]]

    run = Running(function)
    run([at("a", 10), at("b", 10), at("c", 10)], watermark=0)
    run([at("a", 20), at("b", -1), at("c", 5)], watermark=5)
    run(watermark=10)
    run(watermark=30)
    fired: dict[str, Any] = {}
    peek = Running(lambda sku, _, state: fired.update({sku: state.get("fired")}))
    peek.tables = run.tables
    peek(rows_of("a", "b", "c"), watermark=30)
    assert fired == {"a": [20], "b": [], "c": [5]}


def tick(_: str, __: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    """Every ten of event time."""
    for timer in state.fired:
        yield {"n": timer.time}
    last = state.fired[0].time if state.fired else 0
    state.at_event_time(last + 10)


def test_timers_that_set_the_next_catch_up_in_one_batch() -> None:
    run = Running(tick)
    assert run(rows_of("a"), watermark=5) == []
    assert values(run(watermark=35)) == [(None, 10), (None, 20), (None, 30)]


def test_at_the_end_only_event_timers_fire() -> None:
    run = Running(tick)
    run(rows_of("a"), watermark=5)
    assert values(run(ended=True)) == [(None, 10)]
    assert run.outcome.wake is None
    assert run(ended=True) == []
    run = Running(remind)
    assert values(run([at("a", NOON - 1, processing=True), at("b", 1 << 61)], ended=True)) == [
        ("event e of b", 1 << 61)
    ]


def test_a_timer_that_resets_itself_waits_for_the_next_batch() -> None:
    def function(_: str, __: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
        yield {"n": state.fired[0].time if state.fired else None}
        state.at_time(state.now)

    run = Running(function)
    assert values(run(rows_of("a"), now=NOON)) == [(None, None), (None, NOON)]
    assert run.outcome.wake == NOON
    assert values(run(now=NOON + 1)) == [(None, NOON), (None, NOON + 1)]


def test_times_of_timers_may_be_datetimes_and_are_never_early() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=1)
    times: list[Any] = []

    def function(_: str, __: list[dict[str, Any]], state: Any) -> None:
        state.at_event_time(moment, "aware")
        state.at_event_time(moment.replace(tzinfo=None), "naive")
        state.at_event_time(1, "number")
        times.extend(timer.time for timer in state.timers)
        state.clear()

    Running(function)(rows_of("a"))
    assert times == [1767225600001, 1767225600001, 1]


@pytest.mark.parametrize("when", [1.5, True, "10s", None, 1 << 62, date(2026, 1, 1)])
def test_what_is_no_time_is_refused(when: Any) -> None:
    with pytest.raises(UserFunctionError, match="time"):
        Running(lambda _, __, state: state.at_event_time(when))(rows_of("a"))


def test_keys_of_timers_are_the_values_rows_have() -> None:
    keys: list[Any] = []

    def function(key: Any, rows: list[dict[str, Any]], state: Any) -> None:
        keys.append(key)
        if rows:
            state.at_event_time(1)

    for by in (("sku",), ("shop",), ("sku", "shop"), ("cents", "sku")):
        run = Running(function, by=by)
        run([{"sku": "ü\"'", "shop": -3, "cents": None}, {"sku": None, "shop": None, "cents": 4}])
        run(watermark=1)
        assert sorted(map(repr, keys[:2])) == sorted(map(repr, keys[2:]))
        keys.clear()


# -- ttl


def test_a_key_untouched_for_exactly_its_ttl_is_dropped() -> None:
    run = Running(count, ttl="1h")
    start, hour, granule = NOON, 3_600_000, 3_600_000 // 32
    run(rows_of("a", "b"), now=start)
    assert start + hour < (run.outcome.wake or 0) <= start + hour + granule
    run(rows_of("b"), now=start + hour // 2)
    run(now=start + hour)
    assert run.keys == [b"\x01a", b"\x01b"]
    run(now=start + hour + granule)
    assert run.keys == [b"\x01b"]
    assert values(run(rows_of("a", "b"), now=start + hour + granule)) == [("a", 1), ("b", 3)]
    run(now=start + 10 * hour)
    assert run.tables.content() == {}
    assert run.outcome.wake is None


def test_a_key_stays_until_the_instant_the_step_wakes_for() -> None:
    run = Running(count, ttl="1h")
    run(rows_of("a"))
    wake = run.outcome.wake or 0
    run(now=wake - 1)
    assert run.keys == [b"\x01a"]
    assert run.outcome.wake == wake
    run(now=wake)
    assert run.keys == []
    run(rows_of("a"))
    assert values(run(rows_of("a"), now=wake - 1)) == [("a", 2)]
    run(rows_of("b"))
    assert values(run(rows_of("b"), now=wake)) == [("b", 1)]


def test_touches_close_together_move_nothing() -> None:
    run = Running(lambda _, __, state: state.update(n=1), ttl="32h")
    for second in range(100):
        run(rows_of("a"), now=second * 1_000)
    assert run.tables.table("counted").written <= 2
    assert run.tables.table("counted.timers").written <= 3


def test_timers_go_with_their_key() -> None:
    run = Running(remind, ttl="1h")
    run([at("a", 10)], now=NOON, watermark=0)
    assert run(now=NOON + 2 * 3_600_000, watermark=20) == []
    assert run.tables.content() == {}


def test_a_timer_beyond_the_ttl_is_refused() -> None:
    with pytest.raises(UserFunctionError, match="raise the ttl"):
        Running(remind, ttl="1h")([at("a", NOON + 3_600_000, processing=True)])


def test_a_fired_timer_is_a_touch() -> None:
    run = Running(lambda _, __, state: state.update(n=1) or state.at_time(state.now + 1_800_000), ttl="1h")
    run(rows_of("a"), now=NOON)
    for half in range(1, 8):
        run(now=NOON + half * 1_800_000)
    assert run.keys == [b"\x01a"]


def test_ttl_may_come_go_and_change() -> None:
    tables = MemoryTables()
    for ttl, now, left in (
        (None, 0, True),
        ("1h", 1, True),
        ("1h", 30 * 3_600_000, True),  # written when there was no ttl
        ("2h", 31 * 3_600_000, True),
        ("1h", 32 * 3_600_000 + 200_000, False),
    ):
        run = Running(count, ttl=ttl)
        run.tables = tables
        run(rows_of("a") if now in (0, 30 * 3_600_000) else [], now=now)
        assert bool(run.keys) is left, (ttl, now)
    run = Running(count, ttl="1h")
    run(rows_of("a"), now=0)
    forever = Running(count)
    forever.tables = run.tables
    assert values(forever(rows_of("a"), now=100 * 3_600_000)) == [("a", 2)]
    assert sorted(forever.tables.content()) == ["counted"]


# -- lateness and the event times of what comes out


def judge(sku: Any, rows: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    """`n`: whether a row is late; the watermark as `shop`s see it in calls for timers."""
    for timer in state.fired:
        assert state.watermark is not None
        assert state.watermark >= timer.time, "a timer fires by the watermark with its batch"
        yield {"sku": "fired", "n": state.watermark}
    for row in rows:
        yield {"sku": sku, "n": int(state.is_late(row))}
        state.at_event_time(row["cents"])


def test_rows_are_late_by_the_watermark_before_the_batch() -> None:
    rows, times = [at("a", 900), at("b", 900), at("a", 900), at("c", 900)], [50, 10, 20, None]
    at_once, one_by_one = Running(judge), Running(judge)
    whole = values(at_once(rows, times, before=20, watermark=50))
    assert whole == [("a", 0), ("a", 0), ("b", 1), ("c", 0)]
    assert at_once.outcome.late == {"counted": 1}
    parts = [one_by_one([row], [time], before=20, watermark=50) for row, time in zip(rows, times, strict=True)]
    assert sorted(row for part in parts for row in values(part)) == sorted(whole)


def test_rows_are_late_and_come_out_to_the_microsecond() -> None:
    run = Running(judge)
    outputs = run([at("a", 900), at("b", 900)], [19.999, 20.001], before=20, watermark=20)
    assert outputs == [({"sku": "a", "n": 1}, 19.999), ({"sku": "b", "n": 0}, 20.001)]
    assert run.outcome.late == {"counted": 1}


def test_an_event_time_column_is_kept_to_the_microsecond() -> None:
    schema = pa.schema([("sku", pa.string()), ("ts", pa.timestamp("us", tz="UTC"))])
    run = Running(lambda _, rows, __: rows, schema=schema, out=schema, event_time="ts")
    moment = datetime(1970, 1, 1, 0, 0, 1, 400, UTC)
    assert run([{"sku": "a", "ts": moment}], [1_000.4]) == [({"sku": "a", "ts": moment}, 1_000.4)]


def test_a_timer_beyond_any_row_gives_the_farthest_time() -> None:
    run = Running(remind)
    ((_, time),) = run([at("b", 1 << 61)], ended=True)
    assert time == pytest.approx(FARTHEST / 1000)


def test_timers_see_their_own_watermark_and_rows_the_previous() -> None:
    calls: list[Any] = []

    def function(_: str, rows: list[dict[str, Any]], state: Any) -> None:
        calls.append((len(rows), state.watermark))
        if rows:
            state.at_event_time(30)

    Running(function)(rows_of("a"), [35], before=20, watermark=40)
    assert calls == [(1, 20), (0, 40)]


def test_only_rows_of_the_batch_themselves_can_be_asked_for() -> None:
    def function(_: str, rows: list[dict[str, Any]], state: Any) -> None:
        state.is_late(dict(rows[0]))

    with pytest.raises(UserFunctionError, match="itself and no copy"):
        Running(function)(rows_of("a"), [1], before=20, watermark=20)


def test_rows_with_their_event_time_column_keep_their_event_time() -> None:
    schema = pa.schema([("sku", pa.string()), ("ts", pa.timestamp("us", tz="UTC"))])
    moments = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in range(3)]

    def same(sku: str, rows: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
        yield from rows
        yield from ({"sku": sku} for _ in state.fired)
        if rows:
            state.at_event_time(rows[0]["ts"])

    times = [int(moment.timestamp() * 1000) for moment in moments]
    rows = [{"sku": "a", "ts": moment} for moment in reversed(moments)]
    run = Running(same, schema=schema, out=schema, event_time="ts")
    outputs = run(rows, list(reversed(times)), watermark=times[2])
    assert [time for _, time in outputs] == [*reversed(times), times[2]], "a call for a timer may leave it out"
    run = Running(same, schema=schema, out=schema)
    assert [time for _, time in run(rows, list(reversed(times)))] == [times[2]] * 3
