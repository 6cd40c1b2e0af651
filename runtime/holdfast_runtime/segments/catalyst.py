"""Users' SQL texts as Spark itself reads them: analysed expressions, and the schema of a `select`.

Spark analyses a text on an empty frame of the step's own columns. The result refers to these columns by Catalyst's ids,
so it can be applied to any frame with columns under the same ids: no name is resolved twice, and `*`, lambda variables,
case and struct fields mean what they mean in Spark. Only Spark knows every type that a `select` returns, and rows that
cross segments need all of them. Types that rows would lose in transit are refused, because Spark would see another type
after the crossing. Must not run jobs or know the union.
"""

from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as PySpark names it
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.errors import UserActionError
from holdfast.planning.problems import excerpt
from holdfast.planning.types.ddl import parse_schema
from holdfast_runtime.segments.graph import SelectSchema
from holdfast_runtime.streams.codecs import arrow_schema

VALUE = "value"
"""The field of the struct that `tried` returns."""


@dataclass(frozen=True, slots=True)
class ExplodedColumn:
    """The `explode` among selected columns."""

    array: Column
    element_type: Any
    outer: bool
    """Whether a row without elements produces a row with null."""
    id: Any


@dataclass(frozen=True, slots=True)
class AnalysedExpressions:
    """The columns that Spark makes of texts."""

    columns: tuple[tuple[str, Column], ...]
    """Name and value of each selected column; a filter has one column without a name."""
    inputs: tuple[Any, ...]
    """Catalyst's ids of the input columns, in their order."""
    generated: ExplodedColumn | None = None


class Catalyst:
    """Spark's own analysis of expressions."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no way to hold an analysed expression

    def frame(self, schema: pa.Schema) -> DataFrame:
        """Return a frame of these columns without rows."""
        kind = self._spark._jsparkSession.parseDataType(from_arrow_schema(schema).json())  # noqa: SLF001
        rows = self._jvm.java.util.ArrayList()
        return DataFrame(self._spark._jsparkSession.createDataFrame(rows, kind), self._spark)  # noqa: SLF001

    def selected(self, schema: pa.Schema, texts: tuple[str, ...]) -> DataFrame:
        """Return the empty frame with these expressions selected."""
        frame = self.frame(schema)
        try:
            selected = frame.selectExpr(*texts)
        except PySparkException as error:
            raise UserActionError(_refusal(frame, texts, error), code="TextRefusedError") from error
        plan = self._analysed(selected)
        below = plan.child() if _is(plan, "Project") else plan
        below = below.child() if _is(below, "Generate") else below
        # An item that refers to another, or more than one explode, makes Spark compute in several passes.
        if not _is(plan, "Project") or _items(below.children()):
            message = f"{excerpt(', '.join(texts))} can't be computed item by item; use several select steps"
            raise UserActionError(message, code="TextRefusedError")
        return selected

    def select(self, schema: pa.Schema, texts: tuple[str, ...]) -> AnalysedExpressions:
        """Return the columns that a `select` computes."""
        plan = self._analysed(self.selected(schema, texts))
        below, generated = plan.child(), None
        if _is(below, "Generate"):
            generated = self._generated(below, texts)
            below = below.child()
        columns = tuple(
            (str(expression.name()), self.column(_bare(expression))) for expression in _items(plan.projectList())
        )
        return AnalysedExpressions(
            columns, tuple(attribute.exprId() for attribute in _items(below.output())), generated
        )

    def _generated(self, plan: Any, texts: tuple[str, ...]) -> ExplodedColumn:
        generator, output = plan.generator(), _items(plan.generatorOutput())
        if not _is(generator, "Explode") or len(output) != 1:
            message = f"{excerpt(', '.join(texts))}: of what makes rows, only explode of an array is possible"
            raise UserActionError(message, code="TextRefusedError")
        array = generator.child()
        return ExplodedColumn(
            self.column(array), array.dataType().elementType(), bool(plan.outer()), output[0].exprId()
        )

    def condition(self, schema: pa.Schema, text: str) -> AnalysedExpressions:
        """Return the condition of a `filter`."""
        frame = self.frame(schema)
        try:
            plan = self._analysed(frame.filter(text))
        except PySparkException as error:
            message = f"Spark refuses {excerpt(text)}: {_reason(error)}"
            raise UserActionError(message, code="TextRefusedError") from error
        if not _is(plan, "Filter") or _items(plan.child().children()):
            message = f"{excerpt(text)} can't be judged row by row, as a filter step must"
            raise UserActionError(message, code="TextRefusedError")
        ids = tuple(attribute.exprId() for attribute in _items(plan.child().output()))
        return AnalysedExpressions((("", self.column(plan.condition())),), ids)

    def column(self, expression: Any) -> Column:
        """Return a Catalyst expression as a column."""
        return ClassicColumn(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))

    def tried(self, column: Column) -> Column | None:
        """Return a struct with the column as `value`, null for rows on which it fails; None if it can't fail.

        Use it only inside a `when`: for what always runs, Spark computes common parts beforehand, where nothing catches
        errors.
        """
        if _is(self._expression(column), "AttributeReference"):
            return None
        struct = self._expression(F.struct(column.alias(VALUE)))
        return self.column(self._expressions.TryEval(struct))

    def fields(self, frame: DataFrame, struct: str, ids: tuple[Any, ...]) -> list[Column]:
        """Return the fields of a struct column, under the ids by which analysed expressions know them."""
        holder = self._attribute(frame, struct)
        make = self._expressions.GetStructField
        nothing = self._jvm.scala.Option.empty()
        return [self._with_id(make(holder, index, nothing), f"{struct}_{index}", id_) for index, id_ in enumerate(ids)]

    def known_as(self, frame: DataFrame, name: str, id_: Any) -> Column:
        """Return a column of the frame under the id by which analysed expressions know it."""
        return self._with_id(self._attribute(frame, name), name, id_)

    def null_of(self, kind: Any) -> Column:
        """Return null of a Catalyst type."""
        return self.column(self._expressions.Literal(None, kind))

    def _expression(self, column: Column) -> Any:
        return self._jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(column._jc)  # noqa: SLF001 - as above

    @property
    def _expressions(self) -> Any:
        return self._jvm.org.apache.spark.sql.catalyst.expressions

    def _analysed(self, frame: DataFrame) -> Any:
        return frame._jdf.queryExecution().analyzed()  # noqa: SLF001

    def _attribute(self, frame: DataFrame, name: str) -> Any:
        return next(attribute for attribute in _items(self._analysed(frame).output()) if attribute.name() == name)

    def _with_id(self, expression: Any, name: str, id_: Any) -> Column:
        return self.column(
            self._expressions.Alias(expression, name, id_, self._empty(), self._jvm.scala.Option.empty(), self._empty())
        )

    def _empty(self) -> Any:
        rows = self._jvm.java.util.ArrayList()
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(rows).toSeq()


def _items(seq: Any) -> list[Any]:
    return [seq.apply(index) for index in range(seq.length())]


def _is(plan: Any, name: str) -> bool:
    return cast("bool", plan.getClass().getSimpleName() == name)


def _bare(named: Any) -> Any:
    return named.child() if _is(named, "Alias") else named


def _refusal(frame: DataFrame, texts: tuple[str, ...], error: PySparkException) -> str:
    """Return which of several texts Spark refuses, and why."""
    for text in texts:
        try:
            frame.selectExpr(text)
        except PySparkException as own:
            return f"Spark refuses {excerpt(text)}: {_reason(own)}"
    return f"Spark refuses {excerpt(', '.join(texts))}: {_reason(error)}"


def _reason(error: PySparkException) -> str:
    """Return the sentence of Spark's error, without the plan that follows it."""
    return str(error).partition(";\n")[0].partition(" SQLSTATE")[0].strip()


def select_schema(spark: SparkSession) -> SelectSchema:
    """Return a function that asks Spark which columns a `select` returns."""
    catalyst = Catalyst(spark)

    def answer(input_schema: pa.Schema, texts: tuple[str, ...]) -> pa.Schema:
        schema: Any = catalyst.selected(input_schema, texts)._jdf.schema()  # noqa: SLF001 - Python's loses collations
        if not schema.length():
            return pa.schema([])
        output_schema = arrow_schema(parse_schema(schema.toDDL()))
        carried = catalyst.frame(output_schema)._jdf.schema()  # noqa: SLF001
        for column, carried_column in zip(schema.asNullable().fields(), carried.fields(), strict=True):
            if not column.dataType().equals(carried_column.dataType()):
                message = (
                    f"column {column.name()} of {excerpt(', '.join(texts))} is {excerpt(column.dataType().sql())}, "
                    f"which rows can't carry as it is; CAST it to {excerpt(carried_column.dataType().sql())}"
                )
                raise UserActionError(message, code="TextRefusedError")
        return output_schema

    return answer
