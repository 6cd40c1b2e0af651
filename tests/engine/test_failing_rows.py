"""Rows on which a step's function fails: the first is named and stops the app, or each becomes a dead letter."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.testing import Crashed, TestDriver

APPLY = """
import pyarrow as pa
import pyarrow.compute as pc

calls = []

def rated(batch):
    calls.append(batch.num_rows)
    for n in batch["n"].to_pylist():
        if n in (13, 14):
            raise ValueError(f"the rate of {n} is unknown")
    cents = pc.multiply(batch["n"], 1_000_000_000)
    return pa.RecordBatch.from_arrays([batch["customer"], cents], ["customer", "cents"])

def misnamed(batch):
    return pa.RecordBatch.from_arrays([batch["customer"]], ["client"])

def starved(batch):
    raise MemoryError
"""
PROCESS = """
def total(customer, rows, state):
    if not rows:
        state["fired"] = True
        raise ValueError("a timer of nobody")
    for row in rows:
        state["total"] = state.get("total", 0) + row["n"]
        if row["n"] == 13:
            state.at_time(state.now + 1_000)
            raise ValueError("unlucky")
        if row["n"] == 14:
            state["odd"] = object()
        if row["n"] == 15:
            yield {"customer": customer, "total": "fifteen"}
        elif row["n"] == 16:
            state.at_time(state.now + 1_000)
        else:
            yield {"customer": customer, "total": state["total"]}
"""
LETTERS = {"onError": "DeadLetter", "deadLetter": "failed"}


def app(verb: dict[str, Any], code: str, **step: Any) -> dict[str, Any]:
    schema = "customer STRING, n BIGINT"
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "rates"},
        "spec": {
            "systems": [{"name": "shop", "log": {}}],
            "streams": [
                {"name": "orders", "system": "shop", "partitions": 2, "key": ["customer"], "schema": schema},
                {"name": "out", "system": "shop", "partitions": 2, "key": ["customer"]},
                {"name": "failed", "system": "shop", "partitions": 1},
            ],
            "steps": [
                {"name": "made", "from": ["orders"]} | verb | step,
                {"name": "put", "from": ["made"], "to": "out"},
            ],
            "runtime": {"code": {"shop": code}},
        },
    }


def applied(function: str = "rated", schema: str = "customer STRING, cents BIGINT", **step: Any) -> dict[str, Any]:
    return app({"apply": {"function": f"shop:{function}", "schema": schema, "keeps": ["customer"]}}, APPLY, **step)


def processed(**step: Any) -> dict[str, Any]:
    schema = "customer STRING, total BIGINT"
    verb = {"function": "shop:total", "by": ["customer"], "schema": schema, "keeps": ["customer"]}
    return app({"process": verb}, PROCESS, **step)


def orders(*numbers: int, customer: str = "a") -> list[dict[str, Any]]:
    return [{"customer": customer, "n": n} for n in numbers]


def letters(driver: TestDriver) -> list[tuple[Any, ...]]:
    return [
        (row["step"], row["column"], json.loads(row["value"]) if row["value"] else None, row["stream"], row["offset"])
        for row in driver.rows("failed")
    ]


def test_only_rows_on_which_apply_fails_become_dead_letters(tmp_path: Path) -> None:
    with TestDriver(applied(**LETTERS), tmp_path, slots=2) as driver:
        driver.feed("orders", orders(*range(40)))
        (batch,) = driver.run_until_idle()
        assert [row["cents"] for row in driver.rows("out")] == [n * 10**9 for n in range(40) if n not in (13, 14)]
        assert letters(driver) == [("made", None, {"customer": "a", "n": n}, "orders", n) for n in (13, 14)]
        assert "ValueError: the rate of 13 is unknown at " in driver.rows("failed")[0]["reason"]
        assert sum(task.failed.get("made", 0) for task in batch.tasks) == driver.failed == 2


def test_a_good_batch_is_one_call_whatever_on_error_says(tmp_path: Path) -> None:
    counted = APPLY.replace("    for n in", '    assert batch.num_rows == 40, "in pieces"\n    for n in')
    with TestDriver(app(applied()["spec"]["steps"][0], counted, **LETTERS), tmp_path) as driver:
        driver.feed("orders", orders(*range(100, 140)))
        driver.run_until_idle()
        assert len(driver.rows("out")) == 40


def test_a_value_its_column_cannot_hold_fails_its_row_alone(tmp_path: Path) -> None:
    with TestDriver(applied(schema="customer STRING, cents INT", **LETTERS), tmp_path) as driver:
        driver.feed("orders", orders(0, 1, 5, 2))
        driver.run_until_idle()
        assert [row["cents"] for row in driver.rows("out")] == [0, 10**9, 2 * 10**9]
        assert letters(driver) == [("made", "cents", {"customer": "a", "n": 5}, "orders", 2)]


@pytest.mark.parametrize(("function", "message"), [("misnamed", "client"), ("starved", "MemoryError")])
def test_faults_of_any_row_or_host_are_no_dead_letters(tmp_path: Path, function: str, message: str) -> None:
    with TestDriver(applied(function, **LETTERS), tmp_path) as driver:
        driver.feed("orders", orders(0, 1))
        with pytest.raises(UserActionError, match=message):
            driver.run()
        assert driver.rows("failed") == []


def test_without_dead_letters_apply_names_the_row(tmp_path: Path) -> None:
    with TestDriver(applied(), tmp_path) as driver:
        driver.feed("orders", orders(*range(20)))
        with pytest.raises(
            UserActionError,
            match=r'step made: shop:rated failed on the row \{"customer":"a","n":13\} \(orders/\d, offset 13\) at .*: '
            r"ValueError: the rate of 13 is unknown",
        ):
            driver.run()
        driver.restart(applied(schema="customer STRING, cents INT"))
        with pytest.raises(UserActionError, match=r"step made"):
            driver.run()


def test_a_row_on_which_process_fails_leaves_state_and_timers(tmp_path: Path) -> None:
    with TestDriver(processed(**LETTERS), tmp_path) as driver:
        driver.feed("orders", orders(1, customer="b"))
        driver.feed("orders", orders(1, 13, 2, 14, 15, 4))
        driver.feed("orders", orders(3, customer="b"))
        driver.run_until_idle()
        totals = {name: [row["total"] for row in driver.rows("out") if row["customer"] == name] for name in "ab"}
        assert totals == {"a": [1, 3, 7], "b": [1, 4]}
        assert driver.state("made", "a") == {"total": 7}
        assert driver.timers("made", "a") == ()
        assert [(step, value["n"]) for step, _, value, *_ in letters(driver)] == [("made", n) for n in (13, 14, 15)]
        assert {row["key"] for row in driver.rows("failed")} == {b"a"}
        reasons = [row["reason"] for row in driver.rows("failed")]
        assert "unlucky" in reasons[0]
        assert "odd" in reasons[1]
        assert "total" in reasons[2]
        assert driver.failed == 3


def test_dead_letters_of_process_have_the_offsets_of_their_records(tmp_path: Path) -> None:
    with TestDriver(processed(**LETTERS), tmp_path) as driver:
        for n in (1, 13, 2, 13):
            driver.feed("orders", orders(n, customer="b") + orders(n, customer="a"))
        driver.run_until_idle()
        fed_rows = {(row["customer"], row["n"], row_at) for row, row_at in _fed(driver)}
        letter_rows = {
            (value["customer"], value["n"], (stream, offset)) for *_, value, stream, offset in letters(driver)
        }
        assert len(letter_rows) == 4
        assert {(customer, n, at[1]) for customer, n, at in letter_rows} <= {(c, n, at) for c, n, at in fed_rows}


def _fed(driver: TestDriver) -> list[tuple[dict[str, Any], int]]:
    return [(json.loads(record.value or b"{}"), record.offset) for record in driver.records("orders")]


def test_a_failing_timer_leaves_state_and_does_not_fire_again(tmp_path: Path) -> None:
    with TestDriver(processed(**LETTERS), tmp_path) as driver:
        driver.feed("orders", orders(16))
        driver.run_until_idle()
        driver.advance(2)
        driver.run_until_idle()
        assert driver.state("made", "a") == {"total": 16}
        assert driver.timers("made", "a") == ()
        (letter,) = driver.rows("failed")
        assert (letter["value"], letter["key"], letter["step"]) == (None, b"a", "made")
        assert "a timer of nobody" in letter["reason"]


def test_dead_letters_are_written_once_whenever_the_process_dies(tmp_path: Path) -> None:
    with TestDriver(applied(**LETTERS), tmp_path) as driver:
        driver.feed("orders", orders(12, 13))
        driver.crash_at("partition written")
        with pytest.raises(Crashed):
            driver.run()
        driver.restart()
        driver.run_until_idle()
        assert [row["n"] for _, _, row, *_ in letters(driver)] == [13]


def test_without_dead_letters_process_names_key_and_row(tmp_path: Path) -> None:
    with TestDriver(processed(), tmp_path) as driver:
        driver.feed("orders", orders(1, 13, customer="b"))
        with pytest.raises(
            UserActionError,
            match=r'key \'b\', whose first row here is \{"customer":"b","n":1\} \(orders/\d, offset 0\) at .*unlucky',
        ):
            driver.run()
