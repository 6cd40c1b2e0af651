"""What a `join` step matches and puts out, over rows of which columns.

Plain values: the driver makes them, tasks read them.
"""

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from holdfast.planning.join_columns import JoinColumn
from holdfast.spec.steps import Join
from holdfast.times import Micros, floor_millis, micros
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
        before, after = (micros(bound) for bound in verb.bounds)
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
        return pa.schema([self._field(output) for output in self.columns])

    def kept(self, side: int) -> pa.Schema:
        """Return the schema of a side's waiting rows: key columns, the other columns that come out, event time."""
        schema = (self.left, self.right)[side]
        key = [field_of(schema, column) for column in self.by]
        names = sorted({output.column for output in self.columns if output.side == SIDES[side]})
        fields = [field_of(schema, column) for column in names]
        named = [
            pa.field(f"{OWN}{field.name}", field.type)
            for field in fields
            if field.name not in {key.name for key in key}
        ]
        return pa.schema([*key, *named, TIME])

    def index(self, side: int, column: str) -> int:
        """Return the index of an input column of a side in the schema of its waiting rows."""
        schema = self.kept(side)
        name = field_of((self.left, self.right)[side], column).name
        return int(schema.get_field_index(name if name in schema.names[: len(self.by)] else f"{OWN}{name}"))

    def _field(self, output: JoinColumn) -> pa.Field:
        field = field_of(self.right if output.side == "right" else self.left, output.column)
        return pa.field(output.name, field.type)


def field_of(schema: pa.Schema, column: str) -> pa.Field:
    """Return the column of this name, which is found by Spark's rules."""
    index = find_column(schema, column)
    assert index is not None  # noqa: S101 - the planner has looked
    return schema.field(index)
