"""Streams of CSV: which columns their lines have, and which no field can hold."""

from typing import Any

import pytest

from holdfast.planning.plan import Plan
from holdfast.reasons import Reason
from tests.planning.apps import only, plan_of, step, stream

NESTED = ("ARRAY<INT>", "MAP<STRING, INT>", "STRUCT<x: INT>", "INTERVAL DAY TO SECOND", "VARIANT")
FLAT = "a BOOLEAN, b TINYINT, c DOUBLE, d DECIMAL(5,2), e STRING, f VARCHAR(3), g BINARY, h DATE, i TIMESTAMP_NTZ"


def planned(read: dict[str, Any], written: dict[str, Any], *select: str) -> Plan:
    fields: dict[str, Any] = {"key": None, "schema": None, "eventTime": None}
    streams = [stream("in", 4, **(fields | read)), stream("out", 4, **(fields | written))]
    return plan_of(streams, [step("picked", "in", select=list(select)), step("w", "picked", to="out")])


def test_lines_hold_single_values_of_all_types() -> None:
    plan = planned({"format": "csv", "schema": FLAT}, {"format": "csv", "csv": {"delimiter": "\t"}}, "*")
    assert plan.valid, plan.problems


@pytest.mark.parametrize("kind", NESTED)
def test_columns_that_no_field_holds_are_refused(kind: str) -> None:
    problem = only(planned({"format": "csv", "schema": f"a STRING, b {kind}"}, {}, "a"))
    assert (problem.reason, problem.stream) == (Reason.SCHEMA_INVALID, "in")
    assert f"column b of stream in is {kind}, which no field of CSV holds: take its parts" in problem.message


def test_rows_whose_columns_no_field_holds_are_not_written() -> None:
    problem = only(planned({"schema": "a STRING"}, {"format": "csv"}, "array(a) AS b"))
    assert (problem.reason, problem.step) == (Reason.SCHEMA_INVALID, "w")
    assert "column b of stream out is ARRAY<STRING>" in problem.message


def test_headers_of_records_are_no_fields_of_lines() -> None:
    read = {"format": "csv", "schema": "a STRING", "metadata": ["headers", "key AS k"]}
    plan = planned(read, {"format": "csv", "metadata": ["headers"]}, "a", "headers")
    assert plan.valid, plan.problems


@pytest.mark.parametrize("kind", ["csv", "string", "binary"])
def test_dead_letters_need_a_format_that_holds_them(kind: str) -> None:
    read = stream("in", 4, onDecodeError="DeadLetter", deadLetter="dead")
    dead = stream("dead", 1, key=None, schema=None, eventTime=None, format=kind)
    out = stream("out", 4, key=None, schema=None, eventTime=None)
    problem = only(plan_of([read, dead, out], [step("w", "in", to="out")]))
    assert (problem.reason, problem.stream) == (Reason.SCHEMA_INVALID, "dead")
    assert f"takes dead letters, and format {kind} can't hold them: set format: json" in problem.message
