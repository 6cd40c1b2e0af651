"""`apply` with `concurrency`: rows keep their order and times; calls are bounded, repeated and cut off."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.steps.failures import FunctionResultError, UserFunctionError
from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.plain.apply import UserFunction
from holdfast_runtime.steps.plain.async_apply import CallLimits, apply_each
from holdfast_runtime.steps.timed_rows import RowOrigin
from tests.steps.memory import timed

NUMBERS = pa.schema([("n", pa.int64())])
LIMITS = CallLimits(8, 30.0, first_pause=0.0)


def run(function: Callable[..., Any], count: int, limits: CallLimits = LIMITS, *, apart: bool = False) -> StepOutcome:
    rows = timed(NUMBERS, [{"n": n} for n in range(count)], list(range(count)))
    rows = replace(rows, origins=(RowOrigin(StreamPartition("s", 0), pa.array(range(100, 100 + count))),))
    return apply_each(UserFunction("asked", "m:f", function, NUMBERS), limits, rows, apart=apart)


def numbers(outcome: StepOutcome) -> list[int]:
    listed: list[int] = outcome.rows.rows["n"].to_pylist()
    return listed


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("concurrency", [1, 2, 7, 1000])
def test_rows_keep_their_order_whoever_answers_first(seed: int, concurrency: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - the same rows at each run
    under_way, most = 0, 0

    async def doubled(row: dict[str, Any]) -> dict[str, Any]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(draw.randrange(5)):
            await asyncio.sleep(0)
        under_way -= 1
        return {"n": row["n"] * 2}

    outcome = run(doubled, 100, replace(LIMITS, concurrency=concurrency))
    assert numbers(outcome) == [2 * n for n in range(100)]
    assert outcome.rows.times.to_pylist() == [*range(100)]
    assert outcome.rows.origin(3) == (StreamPartition("s", 0), 103)
    assert most <= concurrency
    assert most > 1 or concurrency == 1


async def repeated(row: dict[str, Any]) -> list[dict[str, Any]] | None:
    return [row] * (row["n"] % 3) or None


def test_each_result_has_the_time_of_its_row() -> None:
    outcome = run(repeated, 7)
    assert numbers(outcome) == outcome.rows.times.to_pylist() == [1, 2, 2, 4, 5, 5]
    assert outcome.rows.origin(0) is None


def test_rows_that_are_left_out_leave_origins_of_others() -> None:
    async def odd(row: dict[str, Any]) -> dict[str, Any] | None:
        return row if row["n"] % 2 else None

    outcome = run(odd, 6)
    assert numbers(outcome) == [1, 3, 5]
    assert outcome.rows.origin(1) == (StreamPartition("s", 0), 103)


def test_a_failing_call_is_repeated_with_a_fresh_row() -> None:
    calls = Counter[int]()

    async def third_time(row: dict[str, Any]) -> dict[str, Any]:
        calls[row["n"]] += 1
        number = row.pop("n")
        if calls[number] <= number:
            raise ConnectionError
        return {"n": number}

    outcome = run(third_time, 5, replace(LIMITS, retries=2), apart=True)
    assert numbers(outcome) == [0, 1, 2]
    assert calls == {0: 1, 1: 2, 2: 3, 3: 3, 4: 3}
    assert [failure.row for failure in outcome.failed[0].failures] == [3, 4]
    assert all(failure.reason.startswith("ConnectionError at ") for failure in outcome.failed[0].failures)


def test_a_call_without_an_answer_is_cut_off() -> None:
    async def silent(row: dict[str, Any]) -> dict[str, Any]:
        if row["n"] == 1:
            await asyncio.Event().wait()
        return row

    limits = replace(LIMITS, timeout=0.01, retries=1)
    outcome = run(silent, 3, limits, apart=True)
    assert numbers(outcome) == [0, 2]
    assert [failure.reason for failure in outcome.failed[0].failures] == ["CallTimeoutError: no answer within 0.01 s"]
    with pytest.raises(UserFunctionError, match=r'm:f failed on the row {"n":1} \(s/0, offset 101\): CallTimeoutError'):
        run(silent, 3, limits)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), TimeoutError("theirs"), asyncio.CancelledError()])
@pytest.mark.parametrize("concurrency", [1, 8])
def test_whatever_a_call_raises_is_of_its_row(error: BaseException, concurrency: int) -> None:
    limits = replace(LIMITS, concurrency=concurrency)

    async def refusing(row: dict[str, Any]) -> dict[str, Any]:
        if row["n"] == 2:
            raise error
        return row

    outcome = run(refusing, 9, limits, apart=True)
    assert numbers(outcome) == [0, 1, 3, 4, 5, 6, 7, 8]
    assert [failure.row for failure in outcome.failed[0].failures] == [2]
    with pytest.raises(UserFunctionError, match=r'failed on the row {"n":2}'):
        run(refusing, 9, limits)


def test_a_failure_calls_for_no_more_rows() -> None:
    called = []

    async def refusing(row: dict[str, Any]) -> dict[str, Any]:
        called.append(row["n"])
        raise ValueError

    with pytest.raises(UserFunctionError, match=r'on the row {"n":0}'):
        run(refusing, 1000, replace(LIMITS, concurrency=4))
    assert len(called) <= 4


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return row


async def number(row: dict[str, Any]) -> Any:
    return row["n"]


async def other_column(row: dict[str, Any]) -> Any:
    return {"m": row["n"]} if row["n"] == 1 else row


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (plain, "is no coroutine; write async def, or leave concurrency out for Arrow batches on the row"),
        (number, "gave 0; it gives a row, as a dict, a list of rows, or None on the row"),
        (other_column, "column 'm' is not in the step's schema .n. on the row {.n.:1}"),
    ],
)
def test_a_result_that_does_not_fit_is_named(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(FunctionResultError, match=message):
        run(function, 3)


def test_a_column_that_is_not_declared_puts_its_row_aside() -> None:
    outcome = run(other_column, 3, apart=True)
    assert numbers(outcome) == outcome.rows.times.to_pylist() == [0, 2]


def test_all_batches_have_one_event_loop() -> None:
    loops = set()

    async def looking(row: dict[str, Any]) -> dict[str, Any]:
        loops.add(asyncio.get_running_loop())
        return row

    run(looking, 3)
    run(looking, 3)
    assert len(loops) == 1
