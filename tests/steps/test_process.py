"""What `process` does with rows, state, timers, ttl, and with functions that are wrong."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdfast.errors import UserActionError
from holdfast.spec.steps import Process
from holdfast_runtime.steps.clock import Clock
from holdfast_runtime.steps.errors import FunctionResultError, UserFunctionError
from holdfast_runtime.steps.process import ProcessStep, StateValueError
from tests.steps.memory import MemoryTables, listed, timed

GIVEN = pa.schema([("sku", pa.string()), ("shop", pa.int32()), ("cents", pa.int64())])
OUT = pa.schema([("sku", pa.string()), ("n", pa.int64())])
NOON = 1_700_000_000_000


class Running:
    """A step with tables of its own, run batch by batch."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        by: tuple[str, ...] = ("sku",),
        ttl: str | None = None,
        out: pa.Schema = OUT,
        given: pa.Schema = GIVEN,
    ) -> None:
        self.given, self.tables = given, MemoryTables()
        self.step = ProcessStep("counted", Process(function="shop:count", by=by, ttl=ttl), function, given, out)

    def __call__(
        self,
        rows: list[dict[str, Any]] | None = None,
        times: list[int | None] | None = None,
        *,
        now: int = NOON,
        watermark: int | None = None,
        ended: bool = False,
    ) -> list[tuple[dict[str, Any], int | None]]:
        return listed(self.step.run(timed(self.given, rows or [], times), self.tables, Clock(now, watermark, ended)))

    @property
    def keys(self) -> list[bytes]:
        return sorted(self.tables.table("counted").rows)


def count(sku: Any, rows: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    state["n"] = state.get("n", 0) + len(rows)
    yield {"sku": sku, "n": state["n"]}


def rows_of(*skus: str | None) -> list[dict[str, Any]]:
    return [{"sku": sku, "shop": 1, "cents": place} for place, sku in enumerate(skus)]


def values(found: list[tuple[dict[str, Any], int | None]]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row, _ in found]


def test_keys_come_in_order_of_their_first_rows_and_state_goes_on() -> None:
    run = Running(count)
    assert values(run(rows_of("b", "a", "b", "c", "b"))) == [("b", 3), ("a", 1), ("c", 1)]
    assert values(run(rows_of("c", "b"))) == [("c", 2), ("b", 4)]
    assert run.step.wake is None


def test_rows_of_a_key_come_in_their_order() -> None:
    seen: dict[str, list[int]] = {}

    def note(sku: str, rows: list[dict[str, Any]], state: Any) -> None:
        seen[sku] = [row["cents"] for row in rows]
        state["last"] = rows[-1]

    assert Running(note)(rows_of("b", "a", "b", "a", "b")) == []
    assert seen == {"b": [0, 2, 4], "a": [1, 3]}


def test_a_null_key_and_an_empty_one_are_keys_like_others() -> None:
    run = Running(count)
    run(rows_of(None, "", "null"))
    assert values(run(rows_of("", None, None))) == [("", 2), (None, 3)]


def test_several_columns_make_a_tuple() -> None:
    seen: list[Any] = []

    def note(key: Any, _: list[dict[str, Any]], state: Any) -> None:
        seen.append(key)
        state["n"] = 1

    run = Running(note, by=("sku", "shop"))
    run([{"sku": "a", "shop": None, "cents": 1}, {"sku": "a", "shop": 2, "cents": 1}])
    assert seen == [("a", None), ("a", 2)]


def test_columns_are_found_without_regard_to_case() -> None:
    assert values(Running(count, by=("SKU",))(rows_of("a", "a"))) == [("a", 2)]


def test_rows_have_the_types_of_their_columns() -> None:
    given = pa.schema(
        [
            ("ts", pa.timestamp("us", tz="UTC")),
            ("wall", pa.timestamp("us")),
            ("day", pa.date32()),
            ("price", pa.decimal128(9, 2)),
            ("tags", pa.list_(pa.field("element", pa.timestamp("us", tz="UTC")))),
            ("n", pa.int64()),
        ]
    )
    row = {
        "ts": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        "wall": datetime(2026, 1, 1),  # noqa: DTZ001 - TIMESTAMP_NTZ
        "day": date(2026, 1, 1),
        "price": Decimal("1.50"),
        "tags": [datetime(2026, 1, 1, tzinfo=UTC), None],
        "n": 1 << 60,
    }
    nothing = dict.fromkeys(row)
    seen: list[Any] = []
    run = Running(lambda key, rows, _: seen.extend([key, *rows]), by=("ts",), given=given)
    run([row, nothing])
    assert seen == [row["ts"], row, None, nothing]
    assert seen[1]["ts"].tzinfo is UTC
    assert seen[1]["tags"][0].tzinfo is UTC


def test_rows_that_come_out_have_the_latest_event_time_of_their_call() -> None:
    run = Running(count)
    found = run(rows_of("a", "b", "a", "c"), [5, None, 3, 7])
    assert [time for _, time in found] == [5, None, 7]


def test_an_empty_state_is_no_row() -> None:
    def toggle(_: str, rows: list[dict[str, Any]], state: Any) -> None:
        if rows[0]["cents"] == 0:
            state["on"] = True
        else:
            state.clear()

    run = Running(toggle)
    run(rows_of("a"))
    assert run.keys == [b"\x01a"]
    run([{"sku": "a", "shop": 1, "cents": 1}])
    assert run.keys == []


def test_unchanged_state_is_not_written() -> None:
    run = Running(lambda _, __, state: state.update(seen={"x", "y", "z"}, at=date(2026, 1, 1)))
    run(rows_of("a", "b"))
    run(rows_of("a", "b", "a"))
    assert run.tables.table("counted").written == 2


def test_state_that_changes_inside_or_only_in_type_is_written() -> None:
    changes: list[Callable[[Any], object]] = [
        lambda state: state.update(seen=[1], n=1),
        lambda state: state["seen"].append(2),
        lambda state: state.update(n=1.0),
        lambda state: state.update(n=True),
        lambda state: state.update(n=state.pop("n"), seen=state.pop("seen")),
    ]
    found: list[str] = []

    def step(_: Any, rows: list[dict[str, Any]], state: Any) -> None:
        found.append(repr(dict(state)))
        if rows[0]["cents"] < len(changes):
            changes[rows[0]["cents"]](state)

    run = Running(step)
    for number in range(len(changes) + 1):
        run([{"sku": "a", "shop": 1, "cents": number}])
    assert found == [
        "{}",
        "{'seen': [1], 'n': 1}",
        "{'seen': [1, 2], 'n': 1}",
        "{'seen': [1, 2], 'n': 1.0}",
        "{'seen': [1, 2], 'n': True}",
        "{'n': True, 'seen': [1, 2]}",
    ]


def test_a_row_may_leave_out_columns_and_they_are_null() -> None:
    assert values(Running(lambda *_: [{"n": 1}, {}])(rows_of("a"))) == [(None, 1), (None, None)]


# -- timers


def remind(sku: Any, rows: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    """`cents` is when."""
    for timer in state.fired:
        yield {"sku": f"{timer.kind} {timer.name} of {sku}", "n": timer.time}
    for row in rows:
        state.at_event_time(row["cents"], "e") if row["shop"] == 1 else state.at_time(row["cents"], "p")


def at(sku: str | None, when: int, *, processing: bool = False) -> dict[str, Any]:
    return {"sku": sku, "shop": 2 if processing else 1, "cents": when}


def test_event_timers_fire_when_the_watermark_is_there_in_order_of_time_and_key() -> None:
    run = Running(remind)
    assert run([at("c", 20), at("a", 30), at("b", 20), at(None, 31)], watermark=10) == []
    assert run(watermark=19) == []
    found = run(watermark=30)
    assert found == [
        ({"sku": "event e of b", "n": 20}, 20),
        ({"sku": "event e of c", "n": 20}, 20),
        ({"sku": "event e of a", "n": 30}, 30),
    ]
    assert values(run(watermark=31)) == [("event e of None", 31)]
    assert run.tables.content() == {}


def test_timers_for_a_time_gone_by_fire_after_the_rows_of_their_batch() -> None:
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


def test_processing_timers_wake_the_step_and_have_the_time_of_the_watermark() -> None:
    run = Running(remind)
    run([at("a", NOON + 500, processing=True), at("b", NOON + 300, processing=True)], now=NOON)
    assert run.step.wake == NOON + 300
    assert run(now=NOON + 300) == [({"sku": "processing p of b", "n": NOON + 300}, None)]
    assert run.step.wake == NOON + 500
    assert run(now=NOON + 900, watermark=7) == [({"sku": "processing p of a", "n": NOON + 500}, 7)]
    assert run.step.wake is None


def test_a_timer_set_again_is_moved_and_a_cancelled_one_is_gone() -> None:
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
    found: dict[str, Any] = {}
    peek = Running(lambda sku, _, state: found.update({sku: state.get("fired")}))
    peek.tables = run.tables
    peek(rows_of("a", "b", "c"), watermark=30)
    assert found == {"a": [20], "b": [], "c": [5]}


def tick(_: str, __: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    """Every ten of event time."""
    for timer in state.fired:
        yield {"n": timer.time}
    last = state.fired[0].time if state.fired else 0
    state.at_event_time(last + 10)


def test_a_timer_that_sets_the_next_catches_up_in_one_batch() -> None:
    run = Running(tick)
    assert run(rows_of("a"), watermark=5) == []
    assert values(run(watermark=35)) == [(None, 10), (None, 20), (None, 30)]


def test_at_the_end_event_timers_fire_once_and_processing_timers_do_not() -> None:
    run = Running(tick)
    run(rows_of("a"), watermark=5)
    assert values(run(ended=True)) == [(None, 10)]
    assert run.step.wake is None
    assert run(ended=True) == []
    run = Running(remind)
    assert values(run([at("a", NOON - 1, processing=True), at("b", 1 << 61)], ended=True)) == [
        ("event e of b", 1 << 61)
    ]


def test_a_timer_set_to_no_later_than_the_one_that_sets_it_waits_for_the_next_batch() -> None:
    def function(_: str, __: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
        yield {"n": state.fired[0].time if state.fired else None}
        state.at_time(state.now)

    run = Running(function)
    assert values(run(rows_of("a"), now=NOON)) == [(None, None), (None, NOON)]
    assert run.step.wake == NOON
    assert values(run(now=NOON + 1)) == [(None, NOON), (None, NOON + 1)]


def test_times_of_timers_may_be_datetimes_and_are_never_early() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=1)
    found: list[Any] = []

    def function(_: str, __: list[dict[str, Any]], state: Any) -> None:
        state.at_event_time(moment, "aware")
        state.at_event_time(moment.replace(tzinfo=None), "naive")
        state.at_event_time(1, "number")
        found.extend(timer.time for timer in state.timers)
        state.clear()

    Running(function)(rows_of("a"))
    assert found == [1767225600001, 1767225600001, 1]


@pytest.mark.parametrize("when", [1.5, True, "10s", None, 1 << 62, date(2026, 1, 1)])
def test_what_is_no_time_is_refused(when: Any) -> None:
    with pytest.raises(UserFunctionError, match="time"):
        Running(lambda _, __, state: state.at_event_time(when))(rows_of("a"))


def test_keys_of_timers_are_the_values_rows_have() -> None:
    seen: list[Any] = []

    def function(key: Any, rows: list[dict[str, Any]], state: Any) -> None:
        seen.append(key)
        if rows:
            state.at_event_time(1)

    for by in (("sku",), ("shop",), ("sku", "shop"), ("cents", "sku")):
        run = Running(function, by=by)
        run([{"sku": "ü\"'", "shop": -3, "cents": None}, {"sku": None, "shop": None, "cents": 4}])
        run(watermark=1)
        assert sorted(map(repr, seen[:2])) == sorted(map(repr, seen[2:]))
        seen.clear()


# -- ttl


def test_a_key_is_dropped_when_it_was_untouched_for_its_ttl_and_not_before() -> None:
    run = Running(count, ttl="1h")
    start, hour, granule = NOON, 3_600_000, 3_600_000 // 32
    run(rows_of("a", "b"), now=start)
    assert start + hour < (run.step.wake or 0) <= start + hour + granule
    run(rows_of("b"), now=start + hour // 2)
    run(now=start + hour)
    assert run.keys == [b"\x01a", b"\x01b"]
    run(now=start + hour + granule)
    assert run.keys == [b"\x01b"]
    assert values(run(rows_of("a", "b"), now=start + hour + granule)) == [("a", 1), ("b", 3)]
    run(now=start + 10 * hour)
    assert run.tables.content() == {}
    assert run.step.wake is None


def test_a_key_is_there_until_the_instant_the_step_wakes_for() -> None:
    run = Running(count, ttl="1h")
    run(rows_of("a"))
    wake = run.step.wake or 0
    run(now=wake - 1)
    assert run.keys == [b"\x01a"]
    assert run.step.wake == wake
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


# -- functions that are wrong


def test_an_exception_names_step_function_key_and_the_line() -> None:
    def broken(_: str, rows: list[dict[str, Any]], __: Any) -> Iterator[dict[str, Any]]:
        yield {"n": rows[0]["missing"]}

    run = Running(broken)
    with pytest.raises(UserFunctionError) as caught:
        run(rows_of("a"))
    assert "step counted: shop:count failed for key 'a'" in str(caught.value)
    assert "KeyError: 'missing'" in str(caught.value)
    assert all("holdfast_runtime" not in frame for frame in caught.value.frames)
    assert 'yield {"n": rows[0]["missing"]}' in caught.value.frames[-1]
    assert run.tables.content() == {}


KINDS = pa.schema(
    [
        ("i", pa.int32()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("d", pa.date32()),
        ("l", pa.list_(pa.int64())),
        ("r", pa.struct([("x", pa.int64())])),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("c", pa.decimal128(5, 2)),
        pa.field("must", pa.int64(), nullable=False),
    ]
)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"nn": 1}, "column 'nn' is not in the step's schema (i, f, s"),
        ({"i": 1.5}, "column i is 1.5 (float), and the step's schema says int32"),
        ({"i": True}, "column i is True (bool)"),
        ({"i": 1 << 40}, "column i is 1099511627776 (int), which is no int32"),
        ({"f": "1"}, "column f is '1' (str)"),
        ({"f": True}, "column f is True (bool)"),
        ({"s": 1}, "column s is 1 (int)"),
        ({"s": b"x"}, "column s is b'x' (bytes)"),
        ({"s": "\ud800"}, "column s is '\\ud800' (str)"),
        ({"b": 1}, "column b is 1 (int)"),
        ({"t": 1}, "column t is 1 (int)"),
        ({"d": datetime(2026, 1, 1, tzinfo=UTC)}, "column d is datetime.datetime(2026"),
        ({"l": [1, None, "x"]}, "column l[] is 'x' (str)"),
        ({"l": 1}, "column l is 1 (int)"),
        ({"r": {"x": 1, "y": 2}}, "column r.y is unknown"),
        ({"r": {"x": 1.5}}, "column r.x is 1.5 (float)"),
        ({"m": {"k": "v"}}, "column m value is 'v' (str)"),
        ({"c": Decimal("1.234")}, "column c is Decimal('1.234') (Decimal), which is no decimal128(5, 2)"),
        ({"must": None}, "column must is missing or null"),
        ("row", "gave 'row' (str), and a row is a dict of columns"),
        (None, "gave None (NoneType)"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_with_its_key(row: Any, told: str) -> None:
    fine = {"i": 1, "f": 1, "s": "x", "l": (1, None), "r": {}, "m": {"k": 1}, "c": Decimal(1), "must": 1}

    def function(sku: str, *_: Any) -> list[Any]:
        return (
            [fine, row | {"must": 1} if isinstance(row, dict) and "must" not in row else row] if sku == "b" else [fine]
        )

    with pytest.raises(FunctionResultError) as caught:
        Running(function, out=KINDS)(rows_of("a", "b", "c"))
    assert str(caught.value).startswith("step counted: for key 'b', shop:count ")
    assert told in str(caught.value)


@pytest.mark.parametrize("given", [1, object()])
def test_what_is_no_rows_at_all_is_refused(given: Any) -> None:
    with pytest.raises(FunctionResultError, match=r"step counted: for key 'a', shop:count gave .*yield"):
        Running(lambda *_: given)(rows_of("a"))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (object(), "a', field is of type object; state may hold"),
        ([1, {"x": bytearray(b"x")}], "field[1]['x'] is of type bytearray"),
        (lambda: 1, "field is of type function"),
    ],
)
def test_state_that_can_not_be_kept_is_refused(value: Any, told: str) -> None:
    with pytest.raises(StateValueError) as caught:
        Running(lambda _, __, state: state.update(field=value))(rows_of("a"))
    assert isinstance(caught.value, UserActionError)
    assert "step counted: in the state of key 'a', " in str(caught.value)
    assert told in str(caught.value)
