"""What functions see of tables is compiled where the planner takes it, and refused by name where it does not."""

from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast.planning.plan import plan
from holdfast.reasons import Reason
from holdfast_runtime.inspection.spark_need import foreseen_columns
from holdfast_runtime.segments.compiling import compile_graph
from tests.error_codes import has_code
from tests.planning.apps import app_of, step, stream

SCHEMA = "k STRING, n INT, big DECIMAL(10, 2), tags ARRAY<STRING>, price DOUBLE, f FLOAT, at TIMESTAMP, raw BINARY"


def app(item: str) -> Any:
    asking = {"function": "m:f", "by": ["k"], "tables": ["t"]}
    streams = [stream("in"), stream("changes", schema=SCHEMA, eventTime=None), stream("out", schema=None, key=None)]
    fed = {"name": "t", "sources": ["changes"], "key": ["k"], "distribution": "Broadcast", "select": ["k", "n", item]}
    return app_of(streams, [step("asking", "in", process=asking), step("last", "asking", to="out")], tables=[fed])


@pytest.mark.parametrize(
    "item",
    [
        "tags", "raw AS x", "concat(k, '!') AS x", "CASE WHEN price > 2.5 THEN 'dear' ELSE k END AS x", "n > 1 AS x",
        "CAST(n AS STRING) AS x", "big + 1 AS x", "CASE WHEN n > 1 THEN big END AS x", "CAST(at AS DATE) AS x",
    ],
)  # fmt: skip
def test_what_the_planner_takes_has_a_type_for_functions(item: str) -> None:
    made = app(item)
    result = plan(made)
    assert result.valid
    (node,) = [node for node in compile_graph(made.spec, result, foreseen_columns).nodes if node.name == "asking"]
    (table,) = node.function_tables
    assert table.schema.names == ["k", "n", item.rpartition(" ")[2]]


@pytest.mark.parametrize("item", ["md5(k) AS x", "n + 1 AS x", "CAST(k AS INT) AS x", "f + 1 AS x", "NULL AS x"])
def test_what_the_planner_refuses_is_no_table_for_functions(item: str) -> None:
    made = app(item)
    result = plan(made)
    assert {problem.reason for problem in result.problems} == {Reason.TABLE_OUT_OF_REACH}
    with pytest.raises(UserActionError, match="column x of table t is", check=has_code("TableOutOfReachError")):
        compile_graph(made.spec, result, foreseen_columns)
