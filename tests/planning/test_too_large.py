"""What is larger than anybody writes is refused with its size and a cure, in few words."""

from typing import Any

import pytest

from holdfast.errors import PlanningFailedError, safely
from holdfast.planning.checks import MOST_EXPLAINED
from holdfast.planning.known_columns import MOST_COLUMNS, MOST_SQL
from holdfast.planning.plan import Plan, plan
from holdfast.planning.problems import MOST_LETTERS, MOST_PROBLEMS
from holdfast.planning.sql.expressions import Scope, check_filter, check_select
from holdfast.planning.sql.reading import MOST_TYPE
from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.types.spark_types import INT, SparkType, struct
from holdfast.reasons import Reason
from holdfast.spec.parse import MOST_LEVELS, MOST_VALUES, SpecInvalidError, parse_app

Tree = dict[str, Any]
A_COLUMN = Scope.of(parse_schema("a INT, b ARRAY<INT>"))


def _planned(steps: list[Tree], *streams: Tree) -> Plan:
    first = {"name": "clicks", "system": "here", "key": ["k"], "partitions": 4, "schema": "k STRING, a INT"}
    spec = {"systems": [{"name": "here", "log": {}}], "streams": [first, *streams], "steps": steps}
    head = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "app"}}
    return plan(parse_app({**head, "spec": spec}))


def _select(count: int, item: str) -> list[Tree]:
    return [
        {"name": f"s{n}", "from": ["clicks"], "select": [item.format(f"{n}_{i}") for i in range(100)]}
        for n in range(count)
    ]


def test_too_much_sql_is_refused_once_with_its_size() -> None:
    sum_of_many = " + ".join(["a"] * 500)
    steps = _select(3, f"{sum_of_many} AS x{{}}")
    (problem,) = [one for one in _planned(steps).problems if one.reason is Reason.TOO_LARGE]
    assert problem.step == "s0"
    assert f"of the {MOST_SQL} that an app may have in all" in problem.message
    assert "move them into a function" in problem.message


def test_plain_columns_count_as_no_sql() -> None:
    assert _planned(_select(200, "a AS a_column_with_a_rather_long_name_{}")).problems == ()


def test_columns_beyond_what_all_rows_may_have_are_refused() -> None:
    wide = ", ".join(f"c{n} INT" for n in range(1_200))
    stream = {"name": "wide", "system": "here", "partitions": 4, "schema": wide}
    steps = [{"name": f"s{n}", "from": [f"s{n - 1}" if n else "wide"], "filter": "c1 > 0"} for n in range(200)]
    (problem,) = [one for one in _planned(steps, stream).problems if one.reason is Reason.TOO_LARGE]
    assert f"its 1200 columns count as 1200, and of the {MOST_COLUMNS}" in problem.message


def test_partitions_beyond_what_is_planned_are_refused() -> None:
    streams = [{"name": f"x{n}", "system": "here", "partitions": 100_000, "schema": "k STRING"} for n in range(5)]
    steps = [{"name": f"s{n}", "from": [f"x{n}"], "filter": "k = 'a'"} for n in range(5)]
    (problem,) = _planned(steps, *streams).problems
    assert problem.reason is Reason.TOO_LARGE
    assert "its 100000 tasks would read 500000 stream partitions" in problem.message


def test_a_type_that_doubles_at_each_step_is_not_followed() -> None:
    steps = [
        {"name": f"s{n}", "from": [f"s{n - 1}" if n else "clicks"], "select": ["k", "struct(a AS x, a AS y) AS a"]}
        for n in range(60)
    ]
    result = _planned(steps)
    assert result.problems == ()
    assert max(len(column.type) for step in result.steps for column in step.rows.columns) <= MOST_TYPE


def test_the_length_of_a_type_is_known_without_spelling_it() -> None:
    kind: SparkType = INT
    for _ in range(500):
        kind = struct([("a", kind), ("b", kind)])
    assert kind.length > 2**500


def test_problems_are_told_up_to_a_number_and_a_length() -> None:
    steps = [
        {"name": f"s{n}", "from": ["clicks"], "select": [f"missing{n}_{i}" for i in range(20)]} for n in range(100)
    ]
    problems = _planned(steps).problems
    assert len(problems) == MOST_PROBLEMS + 1
    assert "more like these" in problems[-1].message
    assert all(len(problem.message) <= MOST_LETTERS + 3 for problem in problems)


def test_of_many_mismatches_the_first_have_a_repair() -> None:
    streams = [
        {"name": f"x{n}", "system": "here", "partitions": n + 1, "key": ["k"], "schema": "k STRING, ts TIMESTAMP",
         "eventTime": {"column": "ts", "lateness": "1s"}}
        for n in range(60)
    ]  # fmt: skip
    join = {"by": ["k"], "within": "1m", "select": ["k"]}
    steps = [{"name": f"s{n}", "from": [f"x{n}", f"x{n + 1}"], "join": join} for n in range(59)]
    problems = _planned(steps, *streams).problems
    assert len(problems) == 59
    assert sum(problem.repair is not None for problem in problems) == MOST_EXPLAINED
    assert sum(problem.paths != () for problem in problems) == MOST_EXPLAINED


def test_messages_about_odd_names_are_printable() -> None:
    stream = {"name": "odd", "system": "here", "partitions": 4, "schema": "`a\x1b[31m` INT"}
    steps = [{"name": "s", "from": ["odd"], "select": ["`b\x1b[2J` AS x", "x"]}]
    assert all(problem.message.isprintable() for problem in _planned(steps, stream).problems)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("CAST(a AS ARRAY(INT))", "has a type in round brackets at character 11"),
        (f"CAST(a AS ARRAY<{'ARRAY(' * 12}INT{')' * 12}>)", "has a type in round brackets at character 17"),
        (f"CAST(a AS {'ARRAY<' * 17}INT{'>' * 17})", "nests types deeper than 16 levels"),
        (f"a < {'MAP<INT, ' * 17}INT{'>' * 17}", "nests types deeper than 16 levels"),
        (f"INTERVAL '{'9' * 1001}' DAY", "a number of 1001 letters; at most 1000"),
        ("9" * 1001, "a number of 1001 letters; at most 1000"),
        ("'open", "is a quote or comment left open"),
    ],
)
def test_what_keeps_a_parser_busy_is_refused(text: str, why: str) -> None:
    (finding,) = check_filter(text, A_COLUMN).findings
    assert why in finding.message


def test_ordinarily_deep_types_and_many_comparisons_are_read() -> None:
    assert check_filter(f"CAST(b AS {'ARRAY<' * 16}INT{'>' * 16}) IS NULL", A_COLUMN).findings == ()
    assert check_filter(" OR ".join(["a < 1"] * 100), A_COLUMN).findings == ()


def test_findings_of_an_expression_and_a_list_are_limited() -> None:
    assert len(check_filter(" + ".join(f"m{n}" for n in range(500)), A_COLUMN).findings) == 10
    assert sum(len(one.findings) for one in check_select([f"m{n} + 1 AS x{n}" for n in range(500)], A_COLUMN)) <= 110


def test_a_tree_too_large_or_deep_is_refused_before_reading() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    for value, why in ((deep, f"more than {MOST_LEVELS} levels"), ([1] * (MOST_VALUES + 1), f"{MOST_VALUES} values")):
        with pytest.raises(SpecInvalidError, match=why) as refused:
            parse_app({"spec": {"steps": value}})
        (error,) = refused.value.errors
        assert error.dotted.startswith("spec.steps")


class TestBugs:
    """A bug of ours or of a library ends in one error with a code that stays the same."""

    def _code(self, error: Exception) -> str:
        def work() -> None:
            raise error

        with pytest.raises(PlanningFailedError, match="a bug of Holdfast") as failed:
            safely(work)
        assert failed.value.__cause__ is error
        assert failed.value.bug in str(failed.value)
        return failed.value.bug

    def test_its_code_tells_kinds_of_errors_apart_not_texts(self) -> None:
        assert self._code(KeyError("a")) == self._code(KeyError("b")) != self._code(TypeError("a"))

    def test_it_tells_functions_of_ours_apart(self) -> None:
        codes = set()
        for work in (lambda: parse_schema(None), lambda: check_filter(None, A_COLUMN)):  # type: ignore[arg-type]
            with pytest.raises(PlanningFailedError) as failed:
                safely(work)
            codes.add(failed.value.bug)
        assert len(codes) == 2

    def test_also_a_stack_or_memory_that_ends(self) -> None:
        assert self._code(RecursionError()) != self._code(MemoryError())

    def test_what_is_raised_on_purpose_passes(self) -> None:
        with pytest.raises(SpecInvalidError):
            safely(lambda: parse_app({}))
        assert safely(lambda: 1) == 1
