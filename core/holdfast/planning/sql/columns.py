"""Why: what the planner knows of the rows that flow along an edge: names and types, or that it does not know.

Types are Spark SQL's own spelling in upper case (`BIGINT`, `STRUCT<a: INT>`); `UNKNOWN` where nobody can tell before
it runs. Must not guess: a wrong type is worse than none.
"""

from dataclasses import dataclass

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Column:
    """One named column and its Spark SQL type, or `UNKNOWN`."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Rows:
    """The columns of some rows. `closed` is False when there may be columns nobody declared."""

    columns: tuple[Column, ...]
    closed: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The names in their order."""
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        """The column of this name, as Spark resolves it: the exact name first, then without regard to case."""
        for column in self.columns:
            if column.name == name:
                return column
        folded = name.casefold()
        for column in self.columns:
            if column.name.casefold() == folded:
                return column
        return None


OPEN = Rows(columns=(), closed=False)
"""Rows of which nothing is known."""
