"""Broadcast tables: what a location keeps of a row, and what each look-up computes of that.

They are filled without Spark. What of a table's `select` takes Spark is computed for each look-up instead, in the Spark
SQL behind it. Only columns of the key can't wait for that: look-ups search by them. Must not know nodes or levels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.planning.join_columns import JoinColumn, TableColumns
from holdfast.planning.sql.items import quoted
from holdfast.planning.sql.plain.expressions import Plain
from holdfast.planning.sql.plain.reading import sure_select
from holdfast.planning.table_keys import spark_computed, spark_computed_for_function
from holdfast.spec.streams import Table
from holdfast_runtime.columns.key_columns import check_key_types
from holdfast_runtime.segments.graph import SelectSchema
from holdfast_runtime.steps.plain.plain_sql import keeps_kinds, plain_kinds
from holdfast_runtime.steps.tables.function_tables import FunctionTablePlan
from holdfast_runtime.steps.tables.kept_table import TableShape
from holdfast_runtime.steps.tables.lookup import FOUND


@dataclass(frozen=True, slots=True)
class BroadcastTable:
    """The columns of one."""

    name: str
    shape: TableShape
    select: TableColumns | None
    """What is left of its `select` for look-ups; None: they see what is kept."""

    @classmethod
    def of(
        cls, table: Table, input_schema: pa.Schema, select: TableColumns | None, select_schema: SelectSchema
    ) -> "BroadcastTable":
        """Return the table that rows of these columns fill."""
        if select is None:
            shape = TableShape(table.key, input_schema)
        else:
            keys = tuple(_computed_keys(table, input_schema, select, select_schema))
            shape = TableShape(table.key, input_schema, select.kept, keys)
            key_names = {field.name for field, _ in keys}
            select = replace(select, computed={n: c for n, c in select.computed.items() if n not in key_names})
        check_key_types([shape.kept.field(name) for name in shape.kept.names[: len(table.key)]], table.name)
        return cls(table.name, shape, select)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that look-ups see."""
        return self.shape.columns if self.select is None else self.select.seen

    def looked_up(self, outputs: tuple[JoinColumn, ...]) -> tuple[tuple[JoinColumn, ...], tuple[str, ...]]:
        """Return what to look up for these columns, and the select that computes those that the table does not keep."""
        columns, items = list[JoinColumn](), list[str]()
        computed = {} if self.select is None else self.select.computed
        for output in outputs:
            computation = computed.get(output.column) if output.side == "right" else None
            if computation is None:
                columns.append(output)
                items.append(quoted(output.name))
            else:
                text, first = computation.text, len(columns)
                for number, (name, column) in enumerate(computation.given):
                    columns.append(JoinColumn("right", column, f"{name}_{first + number}"))
                    text = text.replace(quoted(name), quoted(columns[-1].name))
                # Where nothing was found, there is no row to compute anything of.
                items.append(f"CASE WHEN {quoted(FOUND)} THEN {text} END AS {quoted(output.name)}")
        if len(columns) == len(items) and all(item.startswith("`") for item in items):
            return tuple(columns), ()
        return (*columns, JoinColumn("right", FOUND, FOUND)), tuple(items)

    def for_functions(self, select_schema: SelectSchema) -> FunctionTablePlan:
        """Return what functions see of it, which has to be computed without Spark."""
        columns, select = self.looked_up(tuple(JoinColumn("right", name, name) for name in self.columns))
        lookup = FunctionTablePlan.by_keys(self.name, self.shape, columns)
        if not select:
            return FunctionTablePlan(lookup, (), lookup.schema)
        schema, computed = select_schema(lookup.schema, select), list[Plain]()
        for name, item in zip(self.columns, select, strict=True):
            expressions = sure_select((item,), plain_kinds(lookup.schema))
            if expressions is None or not keeps_kinds(expressions, pa.schema([schema.field(name)])):
                text = item if self.select is None else self.select.computed[name].written
                raise UserActionError(spark_computed_for_function(self.name, name, text), code="TableOutOfReachError")
            computed += expressions
        return FunctionTablePlan(lookup, tuple(computed), schema)

    def written(self, outputs: tuple[JoinColumn, ...]) -> tuple[tuple[str, str], ...]:
        """Return the columns among these that look-ups compute, and what computes them as the user wrote it."""
        computed = {} if self.select is None else self.select.computed
        return tuple(
            (quoted(output.name), computed[output.column].written)
            for output in outputs
            if output.side == "right" and output.column in computed
        )


def _computed_keys(
    table: Table, input_schema: pa.Schema, select: TableColumns, select_schema: SelectSchema
) -> Iterator[tuple[pa.Field, Plain]]:
    """Yield the columns of the key that are computed as rows come."""
    key_names = {name.casefold() for name in table.key}
    for name, computation in select.computed.items():
        if name.casefold() in key_names:
            items = (computation.written,)
            schema, expressions = select_schema(input_schema, items), sure_select(items, plain_kinds(input_schema))
            if expressions is None or not keeps_kinds(expressions, schema):
                message = spark_computed(table.name, name, computation.written)
                raise UserActionError(message, code="TableKeyError")
            yield schema.field(0), expressions[0]
