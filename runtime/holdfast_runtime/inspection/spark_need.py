"""What can be told of an app's segments before there is a JVM: what Spark SQL will compute.

`holdfast plan` shows it. The JVM is started with the compiler that fits, which can't be changed later. Where only Spark
knows the columns of a `select`, it computes something. A wrong answer costs speed and nothing else: what is run is
compiled with Spark's own analysis. Must not need Spark.
"""

from dataclasses import dataclass

import pyarrow as pa

from holdfast.errors import HoldfastError
from holdfast.planning.plan import Plan
from holdfast.planning.sql.expressions import check_select
from holdfast.planning.sql.scope import Scope
from holdfast.planning.types.spark_types import UNKNOWN, Column, RowType, SparkType
from holdfast.spec.app import AppSpec
from holdfast_runtime.segments.compiling import compile_graph
from holdfast_runtime.segments.spark_expressions import SparkExpression
from holdfast_runtime.streams.codecs import arrow_schema
from holdfast_runtime.streams.codecs.arrow_types import SchemaUnsupportedError, spark_type


@dataclass(frozen=True, slots=True)
class SparkNeed:
    """What Spark SQL computes, in order of flow."""

    expressions: tuple[SparkExpression, ...]
    complete: bool
    """False if only Spark knows the columns of the step that is last: what is behind it can't be told."""


def spark_need(spec: AppSpec, plan: Plan) -> SparkNeed | None:
    """Return what a valid app needs Spark SQL for; None if nothing of it can be told without Spark."""
    expressions: dict[SparkExpression, None] = {}
    complete = True
    try:
        compile_graph(spec, plan, foreseen_columns, expressions.setdefault)
    except SchemaUnsupportedError:
        complete = False
    except HoldfastError:
        return None
    return SparkNeed(tuple(expressions), complete) if expressions or complete else None


def computes_in_spark(spec: AppSpec, plan: Plan) -> bool:
    """Whether rows of a valid app pass through Spark SQL, as far as can be told without Spark."""
    need = spark_need(spec, plan)
    return need is None or bool(need.expressions)


def foreseen_columns(schema: pa.Schema, items: tuple[str, ...]) -> pa.Schema:
    """Return the columns of a `select`; raise an error if only Spark knows one of them."""
    rows = RowType(tuple(Column(field.name, str(_type(field.type) or UNKNOWN)) for field in schema))
    columns = [
        schema.field(item.source[1]).with_name(str(item.name))
        if item.source is not None
        else arrow_schema(RowType((Column(str(item.name), item.type),))).field(0)
        for item in check_select(items, Scope.of(rows))
    ]
    return pa.schema(columns)


def _type(kind: pa.DataType) -> SparkType | None:
    """Return the type of which plain expressions may take parts; None for all others."""
    return None if _has_lists(kind) else spark_type(kind)


def _has_lists(kind: pa.DataType) -> bool:
    """Whether a type is, or contains, lists or maps."""
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return True
    return any(_has_lists(kind.field(index).type) for index in range(kind.num_fields))
