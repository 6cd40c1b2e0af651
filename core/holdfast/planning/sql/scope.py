"""Names in an expression: a column of the input rows, of one side of a join, or a field inside a column.

Resolves as Spark does: the exact spelling first, then ignoring case. Must not parse expressions or derive types.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from holdfast.planning.problems import SqlFinding, excerpt, listed
from holdfast.planning.types.ddl import parse_type
from holdfast.planning.types.operator_types import field_of
from holdfast.planning.types.spark_types import UNKNOWN, Column, RowType, SparkType
from holdfast.reasons import Reason
from holdfast.suggest import near_miss

SIDES = ("left", "right")

ColumnSource = tuple[str, str]
"""Where a column comes from: the side ("", "left" or "right") and its name there."""


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """What a name stands for. `source` is None for a field, and if the side is unknown."""

    type: str
    source: ColumnSource | None
    field: ColumnSource | None = None
    """Of a field of structs: the side, and the path of names from the column on, `payload.id`."""


@dataclass(frozen=True)
class Scope:
    """The rows an expression sees. Make one with `of` or `sides`."""

    rows: RowType
    left: RowType | None = None
    right: RowType | None = None

    @classmethod
    def of(cls, rows: RowType) -> "Scope":
        """Return the scope of a step with one input."""
        return cls(rows)

    @classmethod
    def sides(cls, left: RowType, right: RowType, key_rows: RowType) -> "Scope":
        """Return the scope of a join; `key_rows` are the columns it matches on, which occur once."""
        return cls(key_rows, left, right)

    @cached_property
    def folded(self) -> frozenset[str]:
        """The names, folded to compare them ignoring case."""
        return frozenset(name.casefold() for name in self.names)

    @property
    def closed(self) -> bool:
        """Whether every column is known."""
        return all(rows.closed for rows in (self.rows, self.left, self.right) if rows is not None)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every name that needs no side."""
        sides = (rows.names for rows in (self.left, self.right) if rows is not None)
        return tuple(dict.fromkeys(chain(self.rows.names, *sides)))

    def side(self, word: str) -> tuple[str, RowType] | None:
        """Return the side of this name, if there are sides."""
        if self.left is not None and self.right is not None:
            match word.casefold():
                case "left":
                    return "left", self.left
                case "right":
                    return "right", self.right
        return None

    def find(self, parts: tuple[str, ...]) -> ResolvedName | SqlFinding:
        """Return what `a`, `a.field`, `left.a` or `left.a.field` stands for."""
        side = self.side(parts[0]) if len(parts) > 1 else None
        depth = 1 if side is None else 2
        resolved = self._unqualified(parts[0]) if side is None else _in_rows(side[1], side[0], parts[1])
        if resolved is None:
            return (
                self._nowhere(parts) if side is None else _unknown(parts[1], side[1].names, f" on the {side[0]} side")
            )
        if isinstance(resolved, SqlFinding) or len(parts) == depth:
            return resolved
        return _inside(resolved, ".".join(parts[:depth]), parts[depth:])

    def column_of(self, parts: tuple[str, ...]) -> ColumnSource | None:
        """Return the column that a name begins with: `left.payload` of `left.payload.id`; None if there is none."""
        resolved = self.find(parts[: 1 if len(parts) == 1 or self.side(parts[0]) is None else 2])
        return resolved.source if isinstance(resolved, ResolvedName) else None

    def star(self, side: str = "") -> tuple[tuple[ColumnSource, Column], ...]:
        """Return the columns of `*`, `left.*` or `right.*`, each with its source."""
        if side:
            rows = self.left if side == "left" else self.right
            return tuple(((side, column.name), column) for column in rows.columns) if rows else ()
        columns = [(("", column.name), column) for column in self.rows.columns]
        for name, rows in (("left", self.left), ("right", self.right)):
            if rows is not None:
                side_columns = (column for column in rows.columns if self.rows.find(column.name) is None)
                columns += [((name, column.name), column) for column in side_columns]
        return tuple(columns)

    def _unqualified(self, name: str) -> ResolvedName | SqlFinding | None:
        if self.left is None or self.right is None:
            return _in_rows(self.rows, "", name)
        if (column := self.rows.find(name)) is not None:
            return ResolvedName(column.type, ("", column.name))
        sides = {"left": self.left, "right": self.right}
        on = {side: column for side, rows in sides.items() if (column := rows.find(name)) is not None}
        if len(on) > 1:
            name = excerpt(name)
            message = f"{name} stands on both sides; write left.{name} or right.{name} AS other_name"
            return SqlFinding(Reason.AMBIGUOUS_COLUMN, message)
        for side, column in on.items():
            return ResolvedName(column.type, (side, column.name))
        undeclared = [side for side, rows in sides.items() if not rows.closed]
        if len(undeclared) == 1:
            return ResolvedName(UNKNOWN, (undeclared[0], name))
        return ResolvedName(UNKNOWN, None) if undeclared or not self.rows.closed else None

    def _nowhere(self, parts: tuple[str, ...]) -> SqlFinding:
        if parts[0].casefold() in SIDES and len(parts) > 1 and self.left is None:
            written, bare = excerpt(".".join(parts)), excerpt(".".join(parts[1:]))
            message = f"{written} names a side, but only join and lookup have sides; write {bare}"
            return SqlFinding(Reason.UNKNOWN_COLUMN, message)
        return _unknown(parts[0], self.names, "")


def _in_rows(rows: RowType, side: str, name: str) -> ResolvedName | None:
    column = rows.find(name)
    if column is not None:
        return ResolvedName(column.type, (side, column.name))
    return None if rows.closed else ResolvedName(UNKNOWN, (side, name))


def _unknown(name: str, names: tuple[str, ...], side: str) -> SqlFinding:
    have = f"columns: {listed(names)}" if names else "there are no columns"
    message = f"there is no column {excerpt(name)}{side}{near_miss(name, names)} ({have})"
    return SqlFinding(Reason.UNKNOWN_COLUMN, message)


def _inside(resolved: ResolvedName, path: str, fields: tuple[str, ...]) -> ResolvedName | SqlFinding:
    kind, structs_only = parse_type(resolved.type), resolved.source is not None
    for name in fields:
        if kind is None:
            return ResolvedName(UNKNOWN, None)
        inner, structs_only = field_of(kind, name), structs_only and kind.word == "STRUCT"
        if inner is None:
            return no_field(path, kind, name)
        kind, path = inner, f"{path}.{name}"
    if resolved.source is None or not structs_only:
        return ResolvedName(str(kind), None)
    side, column = resolved.source
    return ResolvedName(str(kind), None, (side, ".".join((column, *fields))))


def no_field(path: str, kind: SparkType, name: str) -> SqlFinding:
    """Return the finding that a value of this type has no field `name`."""
    holder = kind.inner[0] if kind.word == "ARRAY" else kind
    if holder.word != "STRUCT":
        path, written = excerpt(path), excerpt(str(kind))
        return SqlFinding(Reason.UNKNOWN_COLUMN, f"{path} is {written} and has no fields, so no {path}.{excerpt(name)}")
    near = near_miss(name, holder.names)
    message = f"{excerpt(path)} has no field {excerpt(name)}{near} (fields: {listed(holder.names)})"
    return SqlFinding(Reason.UNKNOWN_COLUMN, message)
