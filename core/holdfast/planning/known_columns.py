"""The columns and types known for every stream, step and table of an app, and the budget for deriving them.

`derived_columns` fills it in, in flow order. Parsing SQL and following columns takes time, and the operator plans specs
of any user: the limits are far above what people write, and a spec over them is refused with its size. Must not check
keys or counts, nor parse SQL itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from holdfast.planning.problems import SHOWN_NAMES, ExpressionError, Problem, SqlFinding, excerpt, listed
from holdfast.planning.sql.expressions import CheckedExpression, is_plain_item
from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.types.spark_types import OPEN, UNKNOWN, Column, RowType
from holdfast.reasons import Reason
from holdfast.spec.steps import (
    Aggregate,
    Apply,
    Broadcast,
    Deduplicate,
    Filter,
    Join,
    Lookup,
    Merge,
    Process,
    Repartition,
    Select,
    Step,
    To,
    ToTable,
)
from holdfast.suggest import did_you_mean

MOST_SQL = 131_072
"""Characters of all expressions of an app that are not just a column name; each costs about 15 microseconds."""
MOST_COLUMNS = 100_000
"""Columns of the rows of all steps, streams and tables together; a long type counts for several."""

_BRACKET, _COLONS = 40, 20
"""Characters that each < and :: counts as: sqlglot tries two ways to parse the type after it."""
_TYPE_LETTERS = 20


@dataclass(slots=True)
class PlanningBudget:
    """What is left of the app's budget for SQL and columns."""

    sql: int = MOST_SQL
    columns: int = MOST_COLUMNS

    def refused_sql(self, texts: Iterable[str]) -> str | None:
        """Take the cost of these expressions from the budget; return why they are too much, or None."""
        cost = sum(map(_cost, texts))
        if cost > self.sql:
            return (
                f"its expressions count as {cost} letters, and of the {MOST_SQL} that an app may have in all "
                f"{self.sql} are left (a < counts {_BRACKET}, a :: {_COLONS}, a plain column nothing): write shorter "
                "ones, or move them into a function"
            )
        self.sql -= cost
        return None

    def refused_columns(self, rows: RowType) -> str | None:
        """Take the cost of these columns from the budget; return why they are too much, or None."""
        cost = sum(1 + len(column.type) // _TYPE_LETTERS for column in rows.columns)
        if cost > self.columns:
            return (
                f"its {len(rows.columns)} columns count as {cost}, and of the {MOST_COLUMNS} that an app may have in "
                f"all {self.columns} are left (types of more than {_TYPE_LETTERS} letters count more): select fewer "
                "columns"
            )
        self.columns -= cost
        return None


def _cost(text: str) -> int:
    if is_plain_item(text):
        return 0
    return len(text) + _BRACKET * text.count("<") + _COLONS * text.count("::")


def expressions_of(step: Step) -> tuple[str, ...]:
    """All SQL expressions of a step."""
    match step.operation:
        case Filter(condition):
            return (condition,)
        case Select(columns):
            return columns
        case Aggregate(compute=compute):
            return compute
        case Join(select=select) | Lookup(select=select):
            return select or ()
        case Merge() | Apply() | Process() | Deduplicate() | Repartition() | Broadcast() | To() | ToTable():
            return ()
        case never:
            assert_never(never)


Passes = dict[str, frozenset[tuple[int, str]]]
"""Output column -> the (input, column) pairs it is an unchanged copy of, where a field inside a column is written
`column.field`; a join column is a copy of both sides."""


@dataclass(slots=True)
class Flow:
    """The rows known everywhere in an app, and the problems found on the way."""

    rows: dict[str, RowType] = field(default_factory=dict)
    """Stream or step -> its rows."""
    tables: dict[str, RowType] = field(default_factory=dict)
    """Table -> its rows."""
    passes: dict[str, Passes] = field(default_factory=dict)
    """Step -> the columns it passes through unchanged."""
    source_rows: dict[str, RowType] = field(default_factory=dict)
    """Table with a `select` -> the rows that it takes, of its first source."""
    out_of_reach: dict[str, str | None] = field(default_factory=dict)
    """Table that functions are called with -> why they can't look it up; None if they can."""
    stored: dict[str, Passes] = field(default_factory=dict)
    """Table with a `select` -> the columns of a source row that it stores unchanged."""
    written: dict[str, tuple[str, RowType]] = field(default_factory=dict)
    """Stream -> the first step that writes it, and its rows."""
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    budget: PlanningBudget = field(default_factory=PlanningBudget)

    def rows_in(self, stream: str) -> RowType:
        """Return the rows of a stream; those that the app writes into it where it declares none."""
        rows = self.rows[stream]
        return rows if rows.closed or stream not in self.written else self.written[stream][1]

    def at_step(self, step: str, findings: Iterable[SqlFinding]) -> None:
        """Add problems at a step."""
        self.problems += [Problem(finding.reason, finding.message, step=step) for finding in findings]

    def at_stream(self, name: str, *findings: SqlFinding) -> None:
        """Add problems at a stream or table."""
        self.problems += [Problem(finding.reason, finding.message, stream=name) for finding in findings]

    def parsed(self, ddl: str, *, step: str | None = None, stream: str | None = None) -> RowType:
        """Return the rows of a declared schema; if it is invalid, add a problem there and return open rows."""
        try:
            return parse_schema(ddl)
        except ExpressionError as error:
            if step is not None:
                self.at_step(step, error.findings)
            if stream is not None:
                self.at_stream(stream, *error.findings)
            return OPEN


def missing_columns(names: Iterable[str], rows: RowType, what: str) -> list[SqlFinding]:
    """A finding for each of these names that is not a column of the rows."""
    if not rows.closed:
        return []
    return [
        SqlFinding(Reason.UNKNOWN_COLUMN, f"{what} names {name}, which is no column{did_you_mean(name, rows.names)}")
        for name in names
        if rows.find(name) is None
    ]


def differing(first: RowType, second: RowType) -> str | None:
    """How two row types differ in names or types; None if no difference is known."""
    if not (first.closed and second.closed):
        return None
    pairs = [(column, second.find(column.name)) for column in first.columns]
    only_first = [column.name for column, same in pairs if same is None]
    only_second = [name for name in second.names if first.find(name) is None]
    parts = [f"only the first has {listed(only_first)}"] if only_first else []
    parts += [f"only the second has {listed(only_second)}"] if only_second else []
    types = [
        f"{column.name} is {excerpt(column.type)} and {excerpt(same.type)}"
        for column, same in pairs
        if same is not None and differ(column.type, same.type)
    ]
    more = len(types) - SHOWN_NAMES
    parts += [*types[:SHOWN_NAMES], *([f"and {more} more differ"] if more > 0 else [])]
    return "; ".join(parts) or None


def differ(first: str, second: str) -> bool:
    """Whether both types are known and different."""
    return comparable(first) != comparable(second) and UNKNOWN not in (first, second)


def comparable(kind: str) -> str:
    """Map CHAR(n) and VARCHAR(n) to STRING: they are equal wherever rows are compared."""
    return "STRING" if kind.startswith(("CHAR(", "VARCHAR(")) else kind


def findings_of(checked: Iterable[CheckedExpression]) -> list[SqlFinding]:
    """All findings of some expressions."""
    return [finding for expression in checked for finding in expression.findings]


def selected(checked: tuple[CheckedExpression, ...]) -> RowType:
    """The rows that these expressions produce."""
    named = [Column(one.name, one.type) for one in checked if one.name is not None]
    first: dict[str, Column] = {}
    for column in named:
        first.setdefault(column.name.casefold(), column)
    # After a finding some columns are unknown: rows stay open, or later steps would report the same columns as missing.
    closed = not findings_of(checked) and not any(one.is_rest for one in checked)
    return RowType(tuple(first.values()), closed=closed)


def copies(checked: tuple[CheckedExpression, ...], sides: dict[str, tuple[int, ...]]) -> Passes:
    """The columns that these expressions pass through unchanged; `sides` maps a qualifier to inputs."""
    passes: Passes = {}
    for expression in checked:
        origin = expression.source or expression.field
        if expression.name is not None and origin is not None:
            side, column = origin
            passes[expression.name] = frozenset((i, column) for i in sides[side])
    return passes
