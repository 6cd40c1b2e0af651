"""A computed key of a Broadcast table is refused in the plan where hosts can't compute it."""

from typing import Any

import pytest

from holdfast.reasons import Reason
from tests.planning.apps import plan_of, step, stream

SCHEMA = "k STRING, n INT, big DECIMAL(10, 2), after STRUCT<id: STRING, tags: ARRAY<STRING>>, raw BINARY, price DOUBLE"

PRICED = "CASE WHEN price > 2.5 THEN 'dear' ELSE k END AS id"


def refused(select: list[str], **table: Any) -> list[str]:
    fed = {"name": "t", "sources": ["changes"], "key": ["id"], "distribution": "Broadcast", "select": select, **table}
    steps = [
        step("named", "in", select=["k AS id", "ts"]),
        step("found", "named", lookup={"table": "t", "by": ["id"], "select": ["left.ts AS ts"]}),
        step("last", "found", to="out"),
    ]
    changes = stream("changes", schema=SCHEMA, eventTime=None)
    streams = [stream("in"), changes, stream("out", schema=None, eventTime=None, key=None)]
    result = plan_of(streams, steps, tables=[fed])
    return [one.message for one in result.problems if one.reason is Reason.TABLE_KEY_COMPUTED]


@pytest.mark.parametrize(
    "key", ["k AS id", "after.id AS id", "concat(k, '!', after.id) AS id", "k || 'x' AS id", PRICED]
)
def test_what_hosts_compute_themselves_may_be_a_key(key: str) -> None:
    assert refused([key, "n"]) == []


@pytest.mark.parametrize("key", ["md5(k) AS id", "reverse(after.id) AS id", "after.tags[0] AS id", "base64(raw) AS ID"])
def test_what_only_spark_computes_is_refused_with_a_cure(key: str) -> None:
    (message,) = refused([key, "n"])
    assert message.startswith(f"the key id of table t is {key}, which only Spark SQL computes")
    assert "distribution: Partitioned" in message


def test_columns_beside_the_key_may_be_computed_by_spark() -> None:
    assert refused(["k AS id", "md5(k) AS hash"]) == []


def test_a_partitioned_table_may_have_any_key() -> None:
    assert refused(["md5(k) AS id", "n"], distribution="Partitioned") == []


def test_a_table_of_files_is_judged_alike() -> None:
    files: dict[str, Any] = {
        "files": {"location": "file:///data", "format": "json"},
        "schema": SCHEMA,
        "versioned": True,
    }
    (message,) = refused(["md5(k) AS id", "n"], sources=None, **files)
    assert message.startswith("the key id of table t is md5(k) AS id")
