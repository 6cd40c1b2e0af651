"""What can be told of an app's segments before there is a JVM: whether Spark SQL will compute anything.

The JVM is started with the compiler that fits, which can't be changed later. Where only Spark knows the columns of a
`select`, the answer is that it will. A wrong answer costs speed and nothing else: what is run is compiled with Spark's
own analysis. Must not need Spark.
"""

import pyarrow as pa

from holdfast.errors import HoldfastError
from holdfast.planning.plan import Plan
from holdfast.planning.sql.expressions import check_select
from holdfast.planning.sql.scope import Scope
from holdfast.planning.types.spark_types import UNKNOWN, Column, RowType, quoted
from holdfast.spec.app import AppSpec
from holdfast_runtime.segments.compiling import compile_graph
from holdfast_runtime.streams.codecs import arrow_schema
from holdfast_runtime.streams.codecs.arrow_types import PLAIN


def computes_in_spark(spec: AppSpec, plan: Plan) -> bool:
    """Whether rows of a valid app pass through Spark SQL, as far as can be told without Spark."""
    try:
        return compile_graph(spec, plan, foreseen_columns).has_sql
    except HoldfastError:
        return True


def foreseen_columns(given: pa.Schema, items: tuple[str, ...]) -> pa.Schema:
    """Return the columns of a `select`; raise an error if only Spark knows one of them."""
    rows = RowType(tuple(Column(field.name, _named(field.type)) for field in given))
    columns = [
        given.field(found.source[1]).with_name(str(found.name))
        if found.source is not None
        else arrow_schema(RowType((Column(str(found.name), found.type),))).field(0)
        for found in check_select(items, Scope.of(rows))
    ]
    return pa.schema(columns)


def _named(kind: pa.DataType) -> str:
    if pa.types.is_decimal128(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        fields = [(field.name, _named(field.type)) for field in kind]
        text = ", ".join(f"{quoted(name)}: {inner}" for name, inner in fields)
        return UNKNOWN if any(inner == UNKNOWN for _, inner in fields) else f"STRUCT<{text}>"
    return _WORDS.get(kind, UNKNOWN)


_WORDS = {kind: word for word, kind in reversed(PLAIN.items())}
