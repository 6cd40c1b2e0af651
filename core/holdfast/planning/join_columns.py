"""What a `join` or `lookup` puts out, a table keeps or a `select` takes: columns, and the Spark SQL behind them.

`left.amount * right.rate AS worth` becomes two columns of the pairs and an expression over them. Where all items are
columns, nothing is left for Spark SQL, and rows don't leave Python. Pure; must not know how rows are matched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from sqlglot import exp

from holdfast.planning.sql.expressions import check_select
from holdfast.planning.sql.items import is_unit, named_item, quoted, written
from holdfast.planning.sql.scope import ColumnSource, Scope
from holdfast.planning.types.spark_types import UNKNOWN, Column, RowType
from holdfast.spec.steps import Join, Lookup

JoinSide = Literal["left", "right", "both"]


@dataclass(frozen=True, slots=True)
class JoinColumn:
    """A column of the pairs, or of rows with what was found for them."""

    side: JoinSide
    """`both`: a column of `by`, of whichever side there is."""
    column: str
    """Its name there; of `both`, on the left."""
    name: str


@dataclass(frozen=True, slots=True)
class JoinParts:
    """The two parts of what comes out."""

    columns: tuple[JoinColumn, ...]
    after: tuple[str, ...]
    """Items of a select over them; empty if they are what comes out."""


def split_join(verb: Join | Lookup, left: Sequence[str], right: Sequence[str]) -> JoinParts:
    """Return the parts for sides with these columns. Only for a `select` without findings."""
    rows = tuple(RowType(tuple(Column(name, UNKNOWN) for name in side)) for side in (left, right))
    on = tuple(column for name in verb.by if (column := rows[0].find(name)) is not None)
    scope = Scope.sides(rows[0], rows[1], RowType(on))
    texts = verb.select or ("*",)
    items = [(text, checked) for text in texts for checked in check_select([text], scope)]
    if all(checked.source is not None for _, checked in items):
        return JoinParts(
            tuple(_column(checked.source, checked.name) for _, checked in items if checked.source and checked.name), ()
        )
    split = _Splitting(scope, {name.casefold() for name in (*left, *right)})
    after = [
        f"{split.renamed(checked.source)} AS {quoted(str(checked.name))}"
        if checked.source is not None
        else f"{split.rewritten(text)} AS {quoted(str(checked.name))}"
        for text, checked in items
    ]
    return JoinParts(tuple(split.columns.values()), tuple(after))


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A column of a table that is computed for each look-up, from columns that are kept."""

    written: str
    """The expression as it stands in `select`, with its name."""
    text: str
    """The expression, over the names below."""
    given: tuple[tuple[str, str], ...]
    """Name in the expression -> column that is kept."""


@dataclass(frozen=True, slots=True)
class TableColumns:
    """What a table keeps of a source's rows, and what look-ups see of it."""

    kept: tuple[tuple[str, str], ...]
    """Name -> column of the source."""
    computed: Mapping[str, ComputedColumn]
    seen: tuple[str, ...]
    """All columns that look-ups see, in the order of `select`."""


def split_table(items: Sequence[str], names: Sequence[str]) -> TableColumns:
    """Return the parts of a table's `select` over rows with these columns. Only for one without findings."""
    scope = Scope.of(RowType(tuple(Column(name, UNKNOWN) for name in names)))
    checked_items = [(text, checked) for text in items for checked in check_select([text], scope)]
    kept_columns = {str(checked.name): checked.source[1] for _, checked in checked_items if checked.source is not None}
    computed: dict[str, ComputedColumn] = {}
    for text, checked in checked_items:
        if checked.source is None:
            split = _Splitting(scope, {name.casefold() for name in names})
            expression = split.rewritten(text)
            arguments = []
            for column in split.columns.values():
                name = next((name for name, source in kept_columns.items() if source == column.column), None)
                if name is None:
                    name = f"{column.column} of its source"
                    kept_columns[name] = column.column
                arguments.append((column.name, name))
            computed[str(checked.name)] = ComputedColumn(text, expression, tuple(arguments))
    return TableColumns(tuple(kept_columns.items()), computed, tuple(str(checked.name) for _, checked in checked_items))


def picked_columns(items: Sequence[str], names: Sequence[str]) -> dict[str, str] | None:
    """Return name -> column of a `select` that takes columns as they are; None if it computes anything."""
    scope = Scope.of(RowType(tuple(Column(name, UNKNOWN) for name in names)))
    checked_items = [checked for text in items for checked in check_select([text], scope)]
    picked = {str(checked.name): checked.source[1] for checked in checked_items if checked.source is not None}
    return picked if picked and len(picked) == len(checked_items) else None


def _column(source: ColumnSource, name: str) -> JoinColumn:
    side, column = source
    return JoinColumn(cast("JoinSide", side or "both"), column, name)


class _Splitting:
    """The columns that expressions have used so far."""

    def __init__(self, scope: Scope, used_names: set[str]) -> None:
        self._scope, self._used_names = scope, used_names
        self.columns: dict[ColumnSource, JoinColumn] = {}

    def renamed(self, source: ColumnSource) -> str:
        """Return a column of the sides under its name among the pairs."""
        if source not in self.columns:
            number = len(self.columns)
            while f"__c{number}" in self._used_names:
                number += 1
            self._used_names.add(f"__c{number}")
            self.columns[source] = _column(source, f"__c{number}")
        return quoted(self.columns[source].name)

    def rewritten(self, text: str) -> str:
        """Return an item without its alias, over the columns of the pairs."""
        _, value = named_item(text, self._scope.names)
        for column in [value] if isinstance(value, exp.Column) else list(value.find_all(exp.Column)):
            if is_unit(column):
                continue
            replaced = self._replaced(column)
            if column is value:
                value = replaced
            else:
                column.replace(replaced)
        return written(value)

    def _replaced(self, column: exp.Column) -> exp.Expr:
        parts = [part.name for part in column.parts]
        depth = 1 if len(parts) == 1 or self._scope.side(parts[0]) is None else 2
        source = self._scope.column_of(tuple(parts))
        assert source is not None  # noqa: S101 - the select has no findings
        self.renamed(source)
        made: exp.Expr = exp.column(exp.to_identifier(self.columns[source].name, quoted=True))
        for part in parts[depth:]:
            made = exp.Dot(this=made, expression=exp.to_identifier(part, quoted=True))
        return made
