"""`process` with `form: Batch`: results do not depend on where batches end, and those that do not fit are named."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from holdfast.spec.steps import Process
from holdfast_runtime.state.sorted.view import LayeredView
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.failures import FunctionResultError, UserFunctionError
from holdfast_runtime.steps.keyed.batch_process import BatchProcessStep
from holdfast_runtime.steps.keyed.key_batch import KeyBatch
from tests.steps.memory import MemoryTables, timed

GIVEN = pa.schema([("k", pa.string()), ("x", pa.float64()), ("v", pa.int64())])
OUT = pa.schema([("k", pa.string()), ("x", pa.float64()), ("before", pa.int64()), ("v", pa.int64())])
NOON = 1_700_000_000_000
HOUR = 3_600_000
Row = tuple[str | None, float | None, int | None]


def follow(rows: pa.RecordBatch, states: pa.RecordBatch, batch: KeyBatch) -> tuple[Any, Any]:
    """Give each row with the value of the one before it; a row without a value forgets its key."""
    before = batch.before(rows["v"], states["last"])
    out = pa.RecordBatch.from_arrays([rows["k"], rows["x"], before, rows["v"]], schema=OUT)
    return out, pa.RecordBatch.from_arrays([batch.last(rows["v"])], ["last"])


class Step:
    """A step with tables of its own."""

    def __init__(self, function: Callable[..., Any] = follow, ttl: str | None = None) -> None:
        self.function, self.tables = function, MemoryTables()
        self.at(ttl)

    def at(self, ttl: str | None) -> None:
        """Go on with another ttl."""
        by = ("k", "x")
        verb = Process(function="m:f", form="Batch", by=by, state="last BIGINT", ttl=ttl)
        self.step = BatchProcessStep("followed", verb, self.function, GIVEN, OUT)

    def run(self, rows: Sequence[Row], now: int = NOON, *, apart: bool = False) -> list[dict[str, Any]]:
        batch = timed(GIVEN, [dict(zip(GIVEN.names, row, strict=True)) for row in rows])
        run = self.step.run_apart if apart else self.step.run
        self.outcome = run(batch, self.tables, StepClock(now, None))
        listed: list[dict[str, Any]] = self.outcome.rows.rows.to_pylist()
        return listed

    @property
    def kept(self) -> dict[tuple[str | None, float | None], int]:
        view = LayeredView.of(self.tables.table("followed"))
        rows = [row for _, batch in (() if view is None else view.rows()) for row in batch.to_pylist()]
        return {(row["k"], row["x"]): row["last"] for row in rows}


def drawing(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - the same rows at each run


def drawn(draw: random.Random, count: int) -> list[Row]:
    keys = ["a", "b", "", None, *(f"k{number}" for number in range(9))]
    floats = [0.0, -0.0, float("nan"), None, 1.5]
    return [
        (draw.choice(keys), draw.choice(floats), None if draw.random() < 0.2 else draw.randrange(5))
        for _ in range(count)
    ]


def key_of(row: Row) -> tuple[Any, Any]:
    k, x, _ = row
    return k, "nan" if x is not None and x != x else (None if x is None else x + 0.0)  # noqa: PLR0124 - NaN


def expected(rows: Sequence[Row], last: dict[Any, int | None]) -> dict[Any, list[tuple[int | None, int | None]]]:
    pairs: dict[Any, list[tuple[int | None, int | None]]] = {}
    for row in rows:
        key = key_of(row)
        pairs.setdefault(key, []).append((last.get(key), row[2]))
        last[key] = row[2]
    return pairs


def by_key(rows: Sequence[dict[str, Any]]) -> dict[Any, list[tuple[int | None, int | None]]]:
    pairs: dict[Any, list[tuple[int | None, int | None]]] = {}
    for row in rows:
        pairs.setdefault(key_of((row["k"], row["x"], None)), []).append((row["before"], row["v"]))
    return pairs


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ttl", [None, "1h"])
def test_results_do_not_depend_on_where_batches_end(seed: int, ttl: str | None) -> None:
    draw = drawing(seed)
    rows, last, step = drawn(draw, 200), dict[Any, int | None](), Step(ttl=ttl)
    while rows:
        count, now = draw.choice((0, 1, 3, 40)), NOON + draw.randrange(HOUR)
        batch, rows = rows[:count], rows[count:]
        assert by_key(step.run(batch, now)) == expected(batch, last)
    assert {key_of((*key, None)): value for key, value in step.kept.items()} == {
        key: value for key, value in last.items() if value is not None
    }


@pytest.mark.parametrize("seed", range(6))
def test_a_key_is_kept_for_its_ttl_and_a_quarter(seed: int) -> None:
    draw, step, now = drawing(seed), Step(ttl="1h"), NOON
    touched: dict[Any, tuple[int, int]] = {}
    for value in range(80):
        now += draw.choice((0, 1000, HOUR // 10, HOUR, HOUR + HOUR // 8))
        key = draw.choice("abc")
        (row,) = step.run([(key, 1.0, value)], now)
        since, last = touched.get(key, (0, -1))
        if now - since < HOUR:
            assert row["before"] == last
        elif now - since > HOUR + HOUR // 4:
            assert row["before"] is None
        else:
            assert row["before"] in {last, None}
        touched[key] = now, value
        assert step.outcome.wake is not None


@pytest.mark.parametrize("seed", range(6))
def test_changes_of_ttl_lose_no_key_early(seed: int) -> None:
    draw, step, now, ttl = drawing(seed), Step(), NOON, None
    touched: dict[str, tuple[int, int]] = {}
    for value in range(100):
        if draw.random() < 0.3:
            ttl = draw.choice([None, 1, 2, 5])
            step.at(None if ttl is None else f"{ttl}h")
        now += HOUR // 10
        key = draw.choice("abcdefghijkl")
        (row,) = step.run([(key, 1.0, value)], now)
        since, last = touched.get(key, (now, -1))
        if key in touched and now - since < HOUR:
            assert row["before"] == last
        touched[key] = now, value


def test_a_deleted_key_of_an_older_bucket_stays_deleted() -> None:
    step = Step(ttl="1h")
    step.run([("a", 1.0, 1), ("b", 1.0, 2)], NOON)
    step.run([("a", 1.0, None)], NOON + HOUR // 2)
    assert step.kept == {("b", 1.0): 2}
    assert step.run([("a", 1.0, 3)], NOON + HOUR // 2) == [{"k": "a", "x": 1.0, "before": None, "v": 3}]


def test_what_has_not_changed_is_not_written_again() -> None:
    step = Step()
    step.run([("a", 1.0, 1)])
    written = step.tables.table("followed").written
    step.run([("a", 1.0, 2), ("a", 1.0, 1)])
    assert step.tables.table("followed").written == written


def refusing(rows: pa.RecordBatch, states: pa.RecordBatch, batch: KeyBatch) -> tuple[Any, Any]:
    if pc.any(pc.equal(rows["v"], 3)).as_py():
        message = "three"
        raise ValueError(message)
    return follow(rows, states, batch)


@pytest.mark.parametrize("seed", range(6))
def test_failing_rows_are_put_aside_and_others_go_on(seed: int) -> None:
    draw, step, last = drawing(seed), Step(refusing), dict[Any, int | None]()
    for _ in range(4):
        rows = drawn(draw, 50)
        good = [row for row in rows if row[2] != 3]
        assert by_key(step.run(rows, apart=True)) == expected(good, last)
        (failed,) = step.outcome.failed
        assert sorted(failure.row for failure in failed.failures if failure.row is not None) == [
            index for index, row in enumerate(rows) if row[2] == 3
        ]
        assert {failure.reason.split(" at ")[0] for failure in failed.failures} <= {"ValueError: three"}


def test_an_error_names_the_row_of_the_failing_key() -> None:
    step = Step(refusing)
    with pytest.raises(UserFunctionError, match=r'for the key whose first row is {"k":"b","x":1,"v":3}'):
        step.run([("a", 1.0, 1), ("b", 1.0, 3), ("c", 1.0, 2)])
    assert step.kept == {}


ROWS = [("a", 1.0, 1), ("b", 1.0, 2)]
LAST = pa.RecordBatch.from_pydict({"last": [1, 2]})


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda out, _: out, "it returns two batches: rows, and a state for each key"),
        (lambda out, _: (out, LAST.slice(1)), "gave 1 rows for 2 keys; give one for each key"),
        (lambda out, _: (out, None), r"in its states, m:f \(step followed\) gave a NoneType"),
        (lambda out, _: (out, LAST.rename_columns(["first"])), r"the columns \(first int64\).*declares \(last int64\)"),
        (lambda out, states: (out, states.take(pa.array([1, 0]))), "the keys .k. in another order"),
        (lambda _, states: (states, LAST), r"m:f \(step followed\) gave the columns"),
    ],
)
def test_a_result_that_does_not_fit_is_named(returned: Callable[..., Any], message: str) -> None:
    step = Step(lambda rows, states, batch: returned(follow(rows, states, batch)[0], states))
    with pytest.raises(FunctionResultError, match=message):
        step.run(ROWS, apart=True)


def test_states_may_come_back_with_their_keys() -> None:
    step = Step(lambda rows, states, _: (None, states.set_column(2, "last", rows["v"])))
    assert step.run(ROWS) == []
    assert step.kept == {("a", 1.0): 1, ("b", 1.0): 2}
