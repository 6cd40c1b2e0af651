"""Why: what the planner knows of the rows that flow along an edge: names and types, or that it does not know.

Types are Spark SQL's own spelling in upper case (`BIGINT`, `STRUCT<a: INT>`); `UNKNOWN` where nobody can tell before
it runs. Must not guess: a wrong type is worse than none.
"""

from dataclasses import dataclass
from functools import cached_property

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Column:
    """One named column and its Spark SQL type, or `UNKNOWN`."""

    name: str
    type: str


@dataclass(frozen=True)
class RowType:
    """The columns of some rows. `closed` is False when there may be columns nobody declared."""

    columns: tuple[Column, ...]
    closed: bool = True

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names in their order."""
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        """The column of this name, as Spark resolves it: the exact name first, then without regard to case."""
        return self._by_name.get(name) or self._by_folded.get(name.casefold())

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in reversed(self.columns)}

    @cached_property
    def _by_folded(self) -> dict[str, Column]:
        return {column.name.casefold(): column for column in reversed(self.columns)}


OPEN = RowType(columns=(), closed=False)
"""Rows of which nothing is known."""
