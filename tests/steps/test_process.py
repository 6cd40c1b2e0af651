"""What `process` does with rows and state, and with functions that are wrong."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.steps.failures import FunctionResultError, UserFunctionError
from holdfast_runtime.steps.keyed.process import StateValueError
from holdfast_runtime.steps.row_dicts import TimeUnusableError
from tests.steps.running import Running, count, rows_of, values


def test_keys_come_in_order_of_their_first_rows() -> None:
    run = Running(count)
    assert values(run(rows_of("b", "a", "b", "c", "b"))) == [("b", 3), ("a", 1), ("c", 1)]
    assert values(run(rows_of("c", "b"))) == [("c", 2), ("b", 4)]
    assert run.outcome.wake is None


def test_rows_of_a_key_come_in_their_order() -> None:
    cents_by_sku: dict[str, list[int]] = {}

    def note(sku: str, rows: list[dict[str, Any]], state: Any) -> None:
        cents_by_sku[sku] = [row["cents"] for row in rows]
        state["last"] = rows[-1]

    assert Running(note)(rows_of("b", "a", "b", "a", "b")) == []
    assert cents_by_sku == {"b": [0, 2, 4], "a": [1, 3]}


def test_null_and_empty_keys_are_keys_like_others() -> None:
    run = Running(count)
    run(rows_of(None, "", "null"))
    assert values(run(rows_of("", None, None))) == [("", 2), (None, 3)]


@pytest.mark.parametrize("by", [("x",), ("x", "shop")])
def test_zero_is_one_key_whatever_its_sign(by: tuple[str, ...]) -> None:
    states: list[str] = []

    def note(key: Any, rows: list[dict[str, Any]], state: Any) -> None:
        state["n"] = state.get("n", 0) + len(rows)
        states.append(f"{key} {state['n']}")

    run = Running(note, by=by, schema=pa.schema([("x", pa.float64()), ("shop", pa.int32())]))
    for zeros in ([0.0, -0.0], [-0.0]):
        run([{"x": zero, "shop": 1} for zero in zeros])
    assert states == (["0.0 2", "0.0 3"] if len(by) == 1 else ["(0.0, 1) 2", "(0.0, 1) 3"])


def test_several_columns_make_a_tuple() -> None:
    keys: list[Any] = []

    def note(key: Any, _: list[dict[str, Any]], state: Any) -> None:
        keys.append(key)
        state["n"] = 1

    run = Running(note, by=("sku", "shop"))
    run([{"sku": "a", "shop": None, "cents": 1}, {"sku": "a", "shop": 2, "cents": 1}])
    assert keys == [("a", None), ("a", 2)]


def test_columns_are_found_without_regard_to_case() -> None:
    assert values(Running(count, by=("SKU",))(rows_of("a", "a"))) == [("a", 2)]


def test_rows_have_the_types_of_their_columns() -> None:
    schema = pa.schema(
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
    received: list[Any] = []
    run = Running(lambda key, rows, _: received.extend([key, *rows]), by=("ts",), schema=schema)
    run([row, nothing])
    assert received == [row["ts"], row, None, nothing]
    assert received[1]["ts"].tzinfo is UTC
    assert received[1]["tags"][0].tzinfo is UTC


def test_rows_have_the_latest_event_time_of_their_call() -> None:
    run = Running(count)
    outputs = run(rows_of("a", "b", "a", "c"), [5, None, 3, 7])
    assert [time for _, time in outputs] == [5, None, 7]


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
    states: list[str] = []

    def step(_: Any, rows: list[dict[str, Any]], state: Any) -> None:
        states.append(repr(dict(state)))
        if rows[0]["cents"] < len(changes):
            changes[rows[0]["cents"]](state)

    run = Running(step)
    for number in range(len(changes) + 1):
        run([{"sku": "a", "shop": 1, "cents": number}])
    assert states == [
        "{}",
        "{'seen': [1], 'n': 1}",
        "{'seen': [1, 2], 'n': 1}",
        "{'seen': [1, 2], 'n': 1.0}",
        "{'seen': [1, 2], 'n': True}",
        "{'n': True, 'seen': [1, 2]}",
    ]


def test_a_row_may_leave_out_columns_and_they_are_null() -> None:
    assert values(Running(lambda *_: [{"n": 1}, {}])(rows_of("a"))) == [(None, 1), (None, None)]


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
    ("row", "problem"),
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
def test_a_misfit_row_is_refused_with_its_key(row: Any, problem: str) -> None:
    fine = {"i": 1, "f": 1, "s": "x", "l": (1, None), "r": {}, "m": {"k": 1}, "c": Decimal(1), "must": 1}

    def function(sku: str, *_: Any) -> list[Any]:
        return (
            [fine, row | {"must": 1} if isinstance(row, dict) and "must" not in row else row] if sku == "b" else [fine]
        )

    with pytest.raises(FunctionResultError) as caught:
        Running(function, out=KINDS)(rows_of("a", "b", "c"))
    assert str(caught.value).startswith("step counted: for key 'b', shop:count ")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "moment",
    [
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_a_time_outside_the_years_1_to_9999_is_refused(moment: Any) -> None:
    fine = datetime(2026, 1, 1, tzinfo=UTC)

    def function(sku: str, *_: Any) -> list[Any]:
        return [{"at": [fine]}, {"at": [moment if sku == "b" else None]}]

    out = pa.schema([("at", pa.list_(pa.timestamp("us", "UTC")))])
    with pytest.raises(FunctionResultError, match=r"for key 'b', .* column at\[\] is outside of the years 1 to 9999"):
        Running(function, out=out)(rows_of("a", "b", "c"))


def test_a_time_without_a_datetime_names_step_and_column() -> None:
    schema = pa.schema([("sku", pa.string()), ("wall", pa.timestamp("us"))])
    run = Running(lambda *_: pytest.fail("called"), schema=schema)
    with pytest.raises(
        TimeUnusableError, match="step counted: column wall holds a time outside of the years 1 to 9999"
    ):
        run([{"sku": "a", "wall": 1_700_000_000_000_000_000}])


@pytest.mark.parametrize("returned", [1, object()])
def test_what_is_no_rows_at_all_is_refused(returned: Any) -> None:
    with pytest.raises(FunctionResultError, match=r"step counted: for key 'a', shop:count gave .*yield"):
        Running(lambda *_: returned)(rows_of("a"))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (object(), "a', field is of type object; state may hold"),
        ([1, {"x": bytearray(b"x")}], "field[1]['x'] is of type bytearray"),
        (lambda: 1, "field is of type function"),
    ],
)
def test_state_that_can_not_be_kept_is_refused(value: Any, problem: str) -> None:
    with pytest.raises(StateValueError) as caught:
        Running(lambda _, __, state: state.update(field=value))(rows_of("a"))
    assert isinstance(caught.value, UserActionError)
    assert "step counted: in the state of key 'a', " in str(caught.value)
    assert problem in str(caught.value)
