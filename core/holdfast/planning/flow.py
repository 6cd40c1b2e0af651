"""Why: what planning one app may cost: reading SQL and following columns take time, and the operator plans for anybody.

The bounds are far above what people write; what is over them is refused with its size. Must not parse anything.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.planning.sql.expressions import is_plain_item
from holdfast.planning.types.columns import RowType
from holdfast.spec.steps import Step

MOST_SQL = 131_072
"""Letters of all expressions of an app that are more than a name; 15 microseconds each."""
MOST_COLUMNS = 100_000
"""Columns of the rows of all steps, streams and tables together; a long type counts for several."""
MOST_PARTITIONS = 200_000
"""Of all streams that an app reads; each is an object in memory, in the plan and in the record."""
MOST_PRODUCERS = 20_000_000
"""Stream partitions that are read, times streams that are written: each of these has a list of its tasks."""
MOST_PROBLEMS = 500
"""Of an app: what is wrong in more places is wrong in one way."""
MOST_LETTERS = 4_000
"""Of what is said of one problem."""
MOST_EXPLAINED = 20
"""Problems with a repair, which is found by planning what would come of it, or with the paths that lead to them."""

_BRACKET, _COLONS = 40, 20
"""Letters that the type behind a < or :: counts as: sqlglot tries both readings of it."""
_TYPE_LETTERS = 20


@dataclass(slots=True)
class PlanningBudget:
    """What is left of it."""

    sql: int = MOST_SQL
    columns: int = MOST_COLUMNS

    def refused_sql(self, texts: Iterable[str]) -> str | None:
        """Take these expressions from what is left; why they are too much, if they are."""
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
        """The same for the columns of some rows."""
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
    """Every expression of a step."""
    verb = step.join or step.lookup
    return (
        *(() if step.filter is None else (step.filter,)),
        *(step.select or ()),
        *(() if step.aggregate is None else step.aggregate.compute),
        *((verb.select if verb is not None else None) or ()),
    )
