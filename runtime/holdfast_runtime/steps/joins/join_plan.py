"""What a `join` step matches and puts out, over rows of which columns.

Plain values: the driver makes them, tasks read them.
"""

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from holdfast.moments import Micros, floor_millis, micros
from holdfast.planning.join_columns import JoinColumn
from holdfast.spec.steps import Join
from holdfast_runtime.state.sorted.schema import OWN, time_column
from holdfast_runtime.steps.timed_rows import find_column

Kind = Literal["Inner", "Left", "Right", "Full"]
TIME = time_column(f"{OWN}time")
LEFT, RIGHT = 0, 1
SIDES = ("left", "right")


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """A `join` over rows of these columns."""

    by: tuple[str, ...]
    before: Micros
    """How many microseconds a right row may lie before its left one."""
    after: Micros
    """How many it may lie behind it."""
    kind: Kind
    columns: tuple[JoinColumn, ...]
    left: pa.Schema
    right: pa.Schema

    @classmethod
    def of(cls, verb: Join, columns: tuple[JoinColumn, ...], left: pa.Schema, right: pa.Schema) -> "JoinPlan":
        """Return the plan of a verb that puts out these columns."""
        before, after = (micros(one) for one in verb.bounds)
        return cls(verb.by, before, after, verb.type, columns, left, right)

    @property
    def outer(self) -> tuple[bool, bool]:
        """Whether rows of the left and of the right side come out without a partner."""
        return self.kind in {"Left", "Full"}, self.kind in {"Right", "Full"}

    @property
    def delay(self) -> int:
        """How many milliseconds behind the watermark a row may come out that has waited for a partner in vain."""
        left, right = self.outer
        return floor_millis(Micros(max(self.after if left else 0, self.before if right else 0)))

    @property
    def waits(self) -> tuple[Micros, Micros]:
        """How long a row of the left and of the right side waits for a partner."""
        return self.after, self.before

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return pa.schema([self._field(one) for one in self.columns])

    def kept(self, side: int) -> pa.Schema:
        """Return what is kept of the rows of a side: the key, other columns that come out by their names, the time."""
        given = (self.left, self.right)[side]
        key = [field_of(given, column) for column in self.by]
        mine = sorted({one.column for one in self.columns if one.side == SIDES[side]})
        others = [field_of(given, column) for column in mine]
        named = [pa.field(f"{OWN}{one.name}", one.type) for one in others if one.name not in {key.name for key in key}]
        return pa.schema([*key, *named, TIME])

    def place(self, side: int, column: str) -> int:
        """Return the place of an input column among those that are kept."""
        kept = self.kept(side)
        name = field_of((self.left, self.right)[side], column).name
        return int(kept.get_field_index(name if name in kept.names[: len(self.by)] else f"{OWN}{name}"))

    def _field(self, one: JoinColumn) -> pa.Field:
        found = field_of(self.right if one.side == "right" else self.left, one.column)
        return pa.field(one.name, found.type)


def field_of(schema: pa.Schema, column: str) -> pa.Field:
    """Return a column by Spark's rules."""
    at = find_column(schema, column)
    assert at is not None  # noqa: S101 - the planner has looked
    return schema.field(at)
