"""Rows that expressions of tests are about, and what checking says of them."""

from collections.abc import Iterable

from holdfast.planning.sql.expressions import CheckedExpression, Scope
from holdfast.planning.types.ddl import parse_schema
from holdfast.reasons import Reason

ROWS = parse_schema(
    """ad_id STRING, user STRING, ts TIMESTAMP, v INT, flag BOOLEAN,
       home STRUCT<street: STRING, at: STRUCT<lat: DOUBLE>>, tags ARRAY<STRING>, counts MAP<STRING, BIGINT>,
       visits ARRAY<STRUCT<page: STRING, ms: INT>>, `order` INT"""
)
ONE = Scope.of(ROWS)
CLICKS = parse_schema("ad_id STRING, user STRING, ts TIMESTAMP")
IMPRESSIONS = parse_schema("ad_id STRING, campaign STRING, ts TIMESTAMP")
TWO = Scope.sides(CLICKS, IMPRESSIONS, parse_schema("ad_id STRING"))


def told(checked: CheckedExpression | Iterable[CheckedExpression]) -> list[tuple[Reason, str]]:
    results = [checked] if isinstance(checked, CheckedExpression) else checked
    return [(finding.reason, finding.message) for result in results for finding in result.findings]


def reasons(checked: CheckedExpression | Iterable[CheckedExpression]) -> list[Reason]:
    return [reason for reason, _ in told(checked)]


def outline(checked: Iterable[CheckedExpression]) -> list[tuple[str | None, str]]:
    return [(result.name, result.type) for result in checked]
